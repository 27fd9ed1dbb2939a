// The box, and what was understood as three chips that can be changed.

import { get } from "./api.js";
import { byId, count, el, toggle } from "./dom.js";
import { FRESH, store } from "./state.js";
import { suggest } from "./suggest.js";

const UNITS = ["subject", "predicate", "object"];
const WEIGHTS = [0.5, 1, 2, 4];
const RECENT = "factlearn-recent";
const MOST_RECENT = 12;

let knownFacts = { index: null, facts: [] };
let shown = { units: [], rest: [], also: [], either: [] }; // the chips, and the facts that are no single unit

export const recent = () => {
  try {
    return JSON.parse(localStorage.getItem(RECENT)) ?? [];
  } catch {
    return [];
  }
};

/** Remember a query that was answered. */
export function remember(text) {
  const others = recent().filter((each) => each !== text);
  localStorage.setItem(RECENT, JSON.stringify([text, ...others].slice(0, MOST_RECENT)));
}

/** The facts that an index knows, most pictures first; asked for once. */
export async function factsOf(index) {
  if (knownFacts.index !== index) {
    const { facts } = await get("/facts", { index });
    knownFacts = { index, facts: facts.toSorted((a, b) => b.images - a.images) };
  }
  return knownFacts.facts;
}

/** Ask for a text. */
export function ask(text) {
  store.set({ ...FRESH, q: text.trim(), not: [], and: [], or: [], weights: [1, 1, 1] });
}

export function startBox() {
  const box = byId("box");
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(box.value);
  });
  suggest(box, suggestions, (text) => { box.value = text; ask(text); }, "Recent queries and known facts");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}

async function suggestions(text) {
  const words = text.toLowerCase().split(/[\s<>,*]+/).filter(Boolean);
  const fits = (fact) => words.every((word) => fact.toLowerCase().includes(word));
  const earlier = recent().filter((each) => fits(each) && each !== text).slice(0, words.length ? 3 : 6);
  const facts = (await factsOf(store.get().index)).filter(({ fact }) => words.length && fits(fact) && !earlier.includes(fact));
  return [
    ...earlier.map((value) => ({ value, hint: "recent" })),
    ...facts.slice(0, 7).map(({ fact, images }) => ({ value: fact, hint: count(images, "picture") })),
  ];
}

/** What was understood, apart: three units, each possibly negated, and the facts to exclude that are more than one unit. */
function takeApart({ query, without }) {
  const units = UNITS.map((position) => ({ position, value: query[position] ?? "", not: false }));
  const rest = [];
  for (const fact of without) {
    const named = UNITS.filter((position) => fact[position]);
    const unit = units.find(({ position }) => position === named[0]);
    if (named.length === 1 && !unit.value) Object.assign(unit, { value: fact[named[0]], not: true });
    else rest.push(fact.fact);
  }
  return { units, rest };
}

const clean = (text) => text.replace(/[<>,]/g, " ").trim();
const single = (position, value) => `<${UNITS.map((each) => (each === position ? value : "*")).join(", ")}>`;

/** Ask for what the chips say now. */
function askChips(patch = {}) {
  const { units, rest } = shown;
  const open = units.every((unit) => unit.not || !unit.value);
  const q = open ? "" : `<${units.map((unit) => (unit.not || !unit.value ? "*" : unit.value)).join(", ")}>`;
  const not = [...units.filter((unit) => unit.not && unit.value).map((unit) => single(unit.position, unit.value)), ...rest];
  if (open && not.length) return explain("Something has to be asked for before anything can be left out: name one unit.");
  store.set({ ...FRESH, q, not, and: shown.also, or: shown.either, ...patch });
}

function explain(text) {
  byId("notes").textContent = text;
  toggle(byId("notes"), Boolean(text));
}

/** Draw the chips of an answer. */
export function showUnderstood(understood, weights) {
  const chips = byId("chips");
  toggle(chips, Boolean(understood));
  if (!understood) return explain("");
  const focused = document.activeElement?.dataset?.chip;
  shown = { ...takeApart(understood), also: understood.also.map(({ fact }) => fact), either: understood.any_of.map(({ fact }) => fact) };
  chips.replaceChildren(
    ...shown.units.map((unit, place) => chip(unit, place, weights)),
    ...shown.either.map((fact) => extra("or", fact, () => { shown.either = shown.either.filter((each) => each !== fact); })),
    ...shown.also.map((fact) => extra("and", fact, () => { shown.also = shown.also.filter((each) => each !== fact); })),
    ...shown.rest.map((fact) => extra("not", fact, () => { shown.rest = shown.rest.filter((each) => each !== fact); })),
  );
  if (focused) focusAgain(chips.querySelector(`[data-chip="${focused}"]`));
  explain(understood.notes.join(" · "));
  if (understood.alternatives.length) offer(understood.alternatives);
}

/** Give the focus back after drawing anew, without suggesting anything. */
function focusAgain(field) {
  field.dataset.quiet = "true";
  field.focus();
  delete field.dataset.quiet;
}

function offer(alternatives) {
  const notes = byId("notes");
  notes.append(notes.textContent ? " · or did you mean " : "Or did you mean ");
  for (const { fact } of alternatives) notes.append(el("button", { type: "button", class: "link", onclick: () => ask(fact) }, fact), " ");
  toggle(notes, true);
}

function extra(word, fact, drop) {
  const remove = () => { drop(); askChips(); };
  return el(
    "span", { class: `extra ${word}` }, `${word} ${fact} `,
    el("button", { type: "button", class: "quiet", "aria-label": `Remove: ${word} ${fact}`, onclick: remove }, "×"),
  );
}

function chip(unit, place, weights) {
  const { position, value, not } = unit;
  const input = el("input", {
    type: "text", value, placeholder: "anything", "data-chip": position, "aria-label": position,
    autocapitalize: "none", spellcheck: "false", size: Math.max(7, Math.min(16, value.length + 1)),
  });
  const commit = (text) => {
    const next = clean(text) === "*" ? "" : clean(text);
    if (next === unit.value) return;
    Object.assign(unit, { value: next, not: unit.not && Boolean(next) });
    askChips();
  };
  const wrap = el("div", { class: `chip ${position}${not ? " negated" : ""}${value ? "" : " open"}` },
    el("span", { class: "chip-name", "aria-hidden": "true" }, not ? `not ${position}` : position),
    el("div", { class: "chip-field" }, input),
    el("div", { class: "chip-tools" },
      el("button", {
        type: "button", "aria-pressed": String(!value), "aria-label": `Any ${position}`, title: `Any ${position} (wildcard)`,
        "data-chip": `${position}-any`, disabled: !value, onclick: () => commit(""),
      }, "∗"),
      el("button", {
        type: "button", "aria-pressed": String(not), "aria-label": `Without this ${position}`, title: "Leave pictures with it out",
        "data-chip": `${position}-not`, disabled: !value, onclick: () => { unit.not = !unit.not; askChips(); },
      }, "not"),
      weightChoice(position, place, weights, !value || not),
    ),
  );
  suggest(input, (text) => completions(position, text === value ? "" : text), (text) => { input.value = text; commit(text); }, `Known ${position}s`);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") commit(input.value);
    if (event.key === "Escape") input.value = unit.value;
  });
  input.addEventListener("focus", () => input.dataset.quiet || input.select());
  input.addEventListener("change", () => commit(input.value));
  return wrap;
}

function weightChoice(position, place, weights, disabled) {
  const choices = WEIGHTS.includes(weights[place]) ? WEIGHTS : [...WEIGHTS, weights[place]].sort((a, b) => a - b);
  const choose = (event) => {
    const next = weights.slice();
    next[place] = Number(event.target.value);
    askChips({ weights: next });
  };
  return el("select", {
    "aria-label": `Weight of the ${position}`, title: "How much it counts", "data-chip": `${position}-weight`, disabled, onchange: choose,
  }, choices.map((each) => el("option", { value: each, selected: each === weights[place] }, each === 0.5 ? "×½" : `×${each}`)));
}

async function completions(position, prefix) {
  const { units } = await get("/vocabulary", { index: store.get().index, prefix, position, limit: 8 });
  return units.map(({ unit, images }) => ({ value: unit, hint: count(images, "picture") }));
}
