// Curves over the stages of learning, drawn by hand as SVG.

import { el, svg } from "./dom.js";

const HEIGHT = 200;
const EDGE = { left: 34, right: 12, top: 10, bottom: 26 };

const y = (value) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - value);

/** `series`: [{ name, kind, values: [0..1 or null] }], one value per label; `now` is the place of the marker. */
export function chart(labels, series, now, title, width) {
  const places = labels.length;
  const x = (place) => EDGE.left + ((width - EDGE.left - EDGE.right) * (places > 1 ? place / (places - 1) : 0.5));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": title },
    [0, 0.25, 0.5, 0.75, 1].map((value) => [
      svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value), class: "rule" }),
      svg("text", { x: EDGE.left - 6, y: y(value) + 4, class: "axis end" }, String(value)),
    ]).flat(),
    labels.map((label, place) => svg("text", { x: x(place), y: HEIGHT - 6, class: `axis ${end(place, places)}` }, label)),
    now < 0 ? null : svg("line", { x1: x(now), x2: x(now), y1: EDGE.top, y2: HEIGHT - EDGE.bottom, class: "now" }),
    series.map(({ values, kind }) => curve(values, kind, x)),
  );
  const legend = el("ul", { class: "legend" }, series.map(({ name, kind, values }) =>
    el("li", { class: kind }, name, now >= 0 && values[now] !== null && values[now] !== undefined ? ` ${values[now].toFixed(2)}` : "")));
  return el("figure", { class: "curves" }, el("figcaption", {}, title), drawing, legend, figures(labels, series));
}

const end = (place, places) => (places === 1 ? "middle" : place === 0 ? "start" : place === places - 1 ? "end" : "middle");

function curve(values, kind, x) {
  const known = values.map((value, place) => [value, place]).filter(([value]) => value !== null && value !== undefined);
  const points = known.map(([value, place]) => `${x(place)},${y(value)}`).join(" ");
  return svg("g", { class: `curve ${kind}` }, svg("polyline", { points }),
    known.map(([value, place]) => svg("circle", { cx: x(place), cy: y(value), r: 4 })));
}

/** The same as numbers, for those who cannot see curves. */
function figures(labels, series) {
  const cell = (value) => el("td", {}, value === null || value === undefined ? "–" : value.toFixed(3));
  return el("details", {}, el("summary", {}, "As numbers"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "after"), labels.map((label) => el("th", { scope: "col" }, label)))),
    el("tbody", {}, series.map(({ name, values }) => el("tr", {}, el("th", { scope: "row" }, name), values.map(cell)))))));
}
