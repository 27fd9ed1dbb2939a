// A text field that suggests: the combobox of the ARIA authoring practices, with a list below it.

import { el, later } from "./dom.js";

let made = 0;

/**
 * Make `input` suggest what `find(text)` returns: [{ value, label, hint }], at once or as a promise.
 * `pick(value)` is called when one is chosen.
 */
export function suggest(input, find, pick, name) {
  const list = el("ul", { class: "suggestions", role: "listbox", id: `suggestions-${++made}`, "aria-label": name, hidden: true });
  input.after(list);
  for (const [key, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id, autocomplete: "off",
  })) input.setAttribute(key, value);
  let found = [];
  let active = -1;
  let asked = 0;
  let typed = false;

  const close = () => {
    asked++;
    typed = false;
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (place) => {
    const { value } = found[place];
    close();
    pick(value);
  };
  const mark = (place) => {
    active = place;
    [...list.children].forEach((item, each) => item.setAttribute("aria-selected", String(each === place)));
    if (place < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[place].id);
    list.children[place].scrollIntoView({ block: "nearest" });
  };
  const show = (options) => {
    found = options;
    list.replaceChildren(...options.map((option, place) => el(
      "li",
      { role: "option", id: `${list.id}-${place}`, "aria-selected": "false",
        onpointerdown: (event) => { event.preventDefault(); choose(place); } },
      el("span", {}, option.label ?? option.value),
      option.hint ? el("span", { class: "hint" }, option.hint) : null,
    )));
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(options.length > 0));
    mark(-1);
  };
  const look = async () => {
    const turn = ++asked;
    let options = [];
    try {
      options = await find(input.value.trim());
    } catch {
      // Suggestions are a help; what is wrong shows when the question is asked.
    }
    if (turn === asked && document.activeElement === input) show(options);
  };
  const soon = later(() => typed && look(), 80);
  input.addEventListener("input", () => { typed = true; soon(); });
  input.addEventListener("focus", () => input.dataset.quiet || look());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const open = !list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return void look();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark(((active + 1 + step + found.length + 1) % (found.length + 1)) - 1);
    } else if (event.key === "Enter" && open && active >= 0) {
      event.preventDefault();
      event.stopImmediatePropagation();
      choose(active);
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (event.key === "Enter") close();
  });
  return { close };
}
