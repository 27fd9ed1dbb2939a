// Filters from the columns of the index: values with counts, ranges of numbers, or a part of a text; and sorting.

import { get } from "./api.js";
import { byId, el, later, number } from "./dom.js";
import { store } from "./state.js";

const MANY = 50; // distinct values, above which a column is searched instead of listed
const FEW = 8; // values shown before "more"

let known = { index: null, columns: [] };

/** The columns of an index, asked for once. */
async function columnsOf(index) {
  if (known.index !== index) known = { index, columns: (await get("/columns", { index })).columns };
  return known.columns;
}

/** Draw the filters of the index; what is chosen comes from the state. */
export async function showFilters(state) {
  const columns = await columnsOf(state.index);
  showSorts(state, columns);
  const panel = byId("filters");
  const chosen = Object.keys(state.filters).length;
  byId("open-filters").textContent = chosen ? `Filters (${chosen})` : "Filters";
  const useful = columns.filter((column) => column.metadata && column.distinct > 1);
  panel.replaceChildren(
    el("div", { class: "panel-head" }, el("h2", {}, "Filters"),
      el("button", { type: "button", class: "link", disabled: !chosen, onclick: () => change({}) }, "Clear all")),
    useful.length ? el("div", { class: "facets" }, useful.map((column) => facet(column, state.filters[column.name] ?? {})))
      : el("p", { class: "hint" }, "These pictures have no metadata to filter by."),
  );
}

const change = (filters) => store.set({ filters, cut: null });

/** Change one column's filter; an empty one is dropped. */
function changeColumn(name, patch) {
  const filters = { ...store.get().filters };
  const filter = { ...filters[name], ...patch };
  const active = filter.is?.length || filter.has || filter.min || filter.max;
  if (active) filters[name] = filter;
  else delete filters[name];
  change(filters);
}

function facet(column, filter) {
  const body = column.distinct > MANY ? (column.numeric ? range(column, filter) : part(column, filter)) : values(column, filter);
  return el("fieldset", { class: "facet" }, el("legend", {}, column.name), body);
}

function values(column, filter) {
  const chosen = filter.is ?? [];
  const tick = (value, on) => changeColumn(column.name, { is: on ? [...chosen, value] : chosen.filter((each) => each !== value) });
  const row = ({ value, images }) => el("label", { class: "value" },
    el("input", { type: "checkbox", checked: chosen.includes(value), onchange: (event) => tick(value, event.target.checked) }),
    el("span", {}, value || "(empty)"), el("span", { class: "hint" }, number(images)));
  const first = column.values.filter(({ value }, place) => place < FEW || chosen.includes(value));
  const rest = column.values.filter((each) => !first.includes(each));
  return el("div", {}, first.map(row),
    rest.length ? el("details", {}, el("summary", {}, `${rest.length} more`), rest.map(row)) : null);
}

function part(column, filter) {
  const type = later((event) => changeColumn(column.name, { has: event.target.value.trim() }), 300);
  return el("input", {
    type: "search", value: filter.has ?? "", placeholder: `contains… (${number(column.distinct)} values)`,
    "aria-label": `${column.name} contains`, onchange: type,
  });
}

function range(column, filter) {
  const end = (kind, word) => el("label", {}, `${word} `, el("input", {
    type: "number", step: "any", value: filter[kind] ?? "", onchange: (event) => changeColumn(column.name, { [kind]: event.target.value }),
  }));
  return el("div", { class: "range" }, end("min", "from"), end("max", "to"));
}

function showSorts(state, columns) {
  const named = columns.filter((column) => column.distinct > 1);
  const option = (value, text) => el("option", { value, selected: state.sort === value }, text);
  byId("sort").replaceChildren(option("", "best match"),
    ...named.flatMap(({ name }) => [option(name, `${name} ↑`), option(`-${name}`, `${name} ↓`)]));
}

export function startFilters() {
  byId("sort").addEventListener("change", (event) => store.set({ sort: event.target.value }));
}
