// One picture: large, with what the model sees in it, why it matched, and what is known about it.

import { get, imagePath, remove } from "./api.js";
import { bar, byId, el, percent } from "./dom.js";
import { ask } from "./query.js";
import { unitBars } from "./results.js";
import { FRESH, store } from "./state.js";
import { withToken } from "./token.js";

const dialog = byId("detail");
let findHits = () => [];
let drop = () => {};
let sure = ""; // the picture that a second press removes; kept here, since its facts may arrive between the two

/** `hits()` returns the pictures now in the list, for walking through them; `dropped(id)` takes one out of it. */
export function startDetail(hits, dropped) {
  findHits = hits;
  drop = dropped;
  dialog.addEventListener("close", () => { sure = ""; });
  dialog.addEventListener("close", () => store.get().show && store.set({ show: "" }, { replace: true }));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") step(1);
    if (event.key === "ArrowLeft") step(-1);
  });
}

function step(by) {
  const hits = findHits();
  const to = hits.findIndex((hit) => hit.id === store.get().show) + by;
  if (hits[to]) store.set({ show: hits[to].id }, { replace: true });
}

/** Open, change or close, as the state says. */
export async function showDetail(state) {
  if (!state.show) return dialog.open && dialog.close();
  const hit = findHits().find(({ id }) => id === state.show);
  const parameters = { index: state.index, stage: state.stage };
  draw(state, hit ?? { id: state.show, name: state.show, scores: {}, metadata: {} }, null);
  if (!dialog.open) dialog.showModal();
  try {
    const detail = await get(imagePath(state.show), parameters);
    if (store.get().show === state.show) draw(state, { ...hit, ...detail, scores: hit?.scores ?? {} }, detail.facts);
  } catch (error) {
    dialog.querySelector(".facts")?.replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function draw(state, image, facts) {
  const close = () => dialog.close();
  const focused = dialog.open ? document.activeElement?.dataset?.action : null;
  const size = parametersOf(state, image);
  dialog.replaceChildren(
    el("button", { type: "button", class: "quiet close", "aria-label": "Close", "data-action": "close", onclick: close }, "×"),
    el("img", { class: "large", src: size, alt: image.fact ? `Labelled ${image.fact}` : image.name }),
    el("div", { class: "about" },
      el("h2", {}, image.fact ?? image.name),
      image.right === true ? el("p", { class: "right-note" }, "✓ Its label confirms the answer.") : null,
      image.right === false ? el("p", { class: "wrong-note" }, "✗ Its label says otherwise.") : null,
      percent(image.probability) ? el("p", {}, `Matches with probability ${percent(image.probability)}.`) : null,
      Object.keys(image.scores).length ? el("section", { class: "bars" }, el("h3", {}, "Why it matched"), ...unitBars(image.scores)) : null,
      el("section", { class: "facts" }, el("h3", {}, "What the model sees"), factList(facts)),
      actions(image),
      known(image),
    ),
  );
  if (focused) dialog.querySelector(`[data-action="${focused}"]`)?.focus();
}

function parametersOf(state, image) {
  const index = encodeURIComponent(state.index);
  return `/api/v1${imagePath(image.id)}/thumb?size=512&index=${index}`;
}

/** Facts with their probability, or their evidence where the model gives none; each asks for itself. */
export function factList(facts) {
  if (!facts) return el("p", { class: "hint" }, "Looking…");
  const best = Math.max(...facts.map(({ score }) => score));
  return el("ol", { class: "fact-list" }, facts.slice(0, 5).map(({ fact, score, probability }) => el("li", {},
    el("button", { type: "button", class: "link", title: "Search for it", onclick: () => ask(fact) }, fact),
    bar("", probability ?? Math.exp(score - best), percent(probability) ?? score.toFixed(2), "plain",
      probability === null ? "evidence, relative to the best" : "probability"))));
}

function actions(image) {
  const state = store.get();
  const picked = state.pick.includes(image.id);
  const pick = (event) => {
    const others = store.get().pick.filter((id) => id !== image.id);
    const now = others.length === store.get().pick.length;
    store.set({ pick: now ? [...others, image.id] : others }, { replace: true });
    event.target.textContent = now ? "Selected ✓" : "Select";
  };
  const more = () => store.set({ ...FRESH, like: image.id });
  const gone = () => withToken(async () => {
    await remove(imagePath(image.id), { index: store.get().index });
    drop(image.id);
    store.set({ show: "", pick: store.get().pick.filter((id) => id !== image.id) }, { replace: true });
  });
  const removing = (event) => {
    if (sure === image.id) return gone().catch((error) => { event.target.textContent = error.message; });
    sure = image.id;
    event.target.textContent = "Really remove it?";
  };
  return el("div", { class: "actions" },
    el("button", { type: "button", class: "primary", "data-action": "more", onclick: more }, "More like this"),
    el("button", { type: "button", "data-action": "pick", onclick: pick }, picked ? "Selected ✓" : "Select"),
    el("button", { type: "button", class: "danger", "data-action": "remove", onclick: removing }, sure === image.id ? "Really remove it?" : "Remove"),
  );
}

function known(image) {
  const rows = [["file", image.path ?? image.name], ["id", image.id], ...Object.entries(image.metadata ?? {}), ["model", image.model]];
  return el("dl", { class: "known" }, rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
