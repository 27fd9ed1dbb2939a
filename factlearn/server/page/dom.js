// Elements without markup strings: text from the service only ever becomes a text node.

/** An element; `on*` functions listen, other properties become attributes, false and null leave them out. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  fill(made, attributes, children);
  return made;
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

export const byId = (id) => document.getElementById(id);

/** Show or hide. */
export function toggle(element, shown) {
  element.hidden = !shown;
}

/** Read by screen readers, after whatever they are saying. */
export function announce(text) {
  byId("status").textContent = text;
}

const whole = new Intl.NumberFormat("en");
export const count = (number, noun, many = `${noun}s`) => `${whole.format(number)} ${number === 1 ? noun : many}`;
export const number = (value) => whole.format(value);
export const percent = (value) => (value === null || value === undefined ? null : `${Math.round(value * 100)} %`);

/** A function that waits until calls stop coming. */
export function later(run, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), milliseconds);
  };
}

/** A bar between 0 and 1 with a name and a value beside it. */
export function bar(name, fraction, value, kind, title = null) {
  const filled = el("span", { class: `fill ${kind}` });
  filled.style.width = `${Math.round(Math.max(0, Math.min(1, fraction)) * 100)}%`;
  return el(
    "div",
    { class: "bar", title },
    el("span", { class: "bar-name" }, name),
    el("span", { class: "track", "aria-hidden": "true" }, filled),
    el("span", { class: "bar-value" }, value),
  );
}
