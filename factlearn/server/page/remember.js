// Remember these: chosen facts or pictures become important, so that learning more does not forget them.

import { follow, post, remove } from "./api.js";
import { announce, bar, byId, count, el, number } from "./dom.js";
import { factsOf } from "./query.js";
import { store } from "./state.js";
import { withToken } from "./token.js";

const SHOWN = 8;
const chosen = new Set();
let job = null;
let known = [];
let able = null; // why not, or null
let drawn = null; // the index whose facts can be chosen

/** Draw the panel for the index; `runs` tells which methods can remember. */
export async function showRemember(state, service, runs) {
  const info = service.indexes.find(({ name }) => name === state.index);
  const run = runs.find(({ name }) => name === info?.run);
  if (!info?.run) able = `The run behind ${state.index} is not known; start the service with --run.`;
  else if (run && !run.remembers) able = `${run.title} has no importance to adapt; serve a run learned with MAS, for example.`;
  else able = null;
  known = await factsOf(state.index);
  if (able || drawn !== state.index || !byId("job")) {
    chosen.clear();
    draw();
  } else showButtons(state);
  drawn = state.index;
}

function draw() {
  const panel = byId("remember");
  if (able) return panel.replaceChildren(el("h2", {}, "Remember"), el("p", { class: "hint" }, able));
  panel.replaceChildren(
    el("h2", {}, "Remember"),
    el("p", { class: "hint" }, "Choose facts here, or select pictures below. What the model needs to know them will change less when it keeps learning; new facts become a little harder to learn. The result is a new run beside the old one, which stays as it is."),
    el("div", { class: "remember-columns" },
      el("div", {}, factChoice(), el("div", { class: "actions" },
        el("button", { type: "button", class: "primary", id: "remember-facts", onclick: () => start({ facts: [...chosen] }) }),
        el("button", { type: "button", id: "remember-pictures", onclick: () => start({ images: store.get().pick }) }))),
      el("div", { id: "job", "aria-live": "polite" })),
  );
  drawJob();
}

function drawJob() {
  byId("job").replaceChildren(job ? jobView() : el("p", { class: "hint" }, "Here you will see the progress, and then how firmly each fact is held."));
  showButtons(store.get());
}

/** What can be remembered now: the chosen facts, the selected pictures, and nothing while a job runs. */
export function showButtons(state) {
  const [facts, pictures] = [byId("remember-facts"), byId("remember-pictures")];
  if (!facts) return;
  facts.textContent = chosen.size ? `Remember ${count(chosen.size, "fact")}` : "Remember facts";
  facts.disabled = !chosen.size || busy();
  pictures.textContent = state.pick.length ? `Remember ${count(state.pick.length, "selected picture")}` : "Remember selected pictures";
  pictures.disabled = !state.pick.length || busy();
}

const busy = () => job !== null && (job.state === "queued" || job.state === "running");

function factChoice() {
  const list = el("div", { class: "fact-choice", role: "group", "aria-label": "Facts", tabindex: "0" });
  const fill = (text) => {
    const words = text.toLowerCase().split(/[\s<>,*]+/).filter(Boolean);
    const fitting = known.filter(({ fact }) => words.every((word) => fact.toLowerCase().includes(word)))
      .sort((a, b) => chosen.has(b.fact) - chosen.has(a.fact));
    list.replaceChildren(...fitting.slice(0, 200).map(({ fact, images }) => el("label", { class: "value" },
      el("input", { type: "checkbox", checked: chosen.has(fact), onchange: (event) => choose(fact, event.target.checked) }),
      el("span", {}, fact), el("span", { class: "hint" }, number(images)))));
  };
  fill("");
  return el("div", {}, el("input", { type: "search", placeholder: "Find facts, e.g. riding", "aria-label": "Find facts to remember", oninput: (event) => fill(event.target.value) }), list);
}

function choose(fact, on) {
  if (on) chosen.add(fact);
  else chosen.delete(fact);
  showButtons(store.get());
}

/** Start the job for facts or for pictures. */
export async function start(what) {
  if (store.get().panel !== "remember") store.set({ panel: "remember" });
  try {
    const begun = await withToken(() => post("/importance", { index: store.get().index, ...what }));
    if (!begun) return;
    changed(begun);
    follow(begun.id, changed);
  } catch (error) {
    fail(error.message);
  }
}

function fail(text) {
  byId("job")?.replaceChildren(el("p", { class: "error", role: "alert" }, text));
}

function changed(now) {
  const ended = job?.state !== now.state && now.state === "done";
  job = now;
  if (!byId("job")) return;
  if (busy() && byId("job").querySelector("progress")) showProgress(byId("job").querySelector("progress"));
  else drawJob();
  if (ended) announce(`Done: ${firmer(now.result.facts)}`);
}

function showProgress(progress) {
  progress.setAttribute("aria-label", job.what);
  byId("job").querySelector("p")?.replaceChildren(job.what);
  if (!job.total) return;
  progress.max = job.total;
  progress.value = job.done;
  progress.nextElementSibling.textContent = `${number(job.done)} of ${number(job.total)}`;
}

function jobView() {
  if (busy()) {
    const progress = el("progress", { "aria-label": job.what });
    const view = el("div", { class: "job" }, el("p", {}, job.what), el("div", { class: "progress-line" }, progress, el("span", { class: "hint" })),
      el("button", { type: "button", onclick: () => withToken(() => remove(`/jobs/${job.id}`)).catch((error) => fail(error.message)) }, "Cancel"));
    showProgress(progress);
    return view;
  }
  if (job.state === "failed") return el("p", { class: "error" }, job.error ?? "It failed.");
  if (job.state === "cancelled") return el("p", {}, "Cancelled; nothing was changed.");
  return firmness(job.result);
}

/** Before and after, one row per fact, most gained first. */
function firmness({ run, facts }) {
  const most = Math.max(...facts.flatMap(({ before, after }) => [before, after]), 1e-9);
  const rows = facts.map(({ fact, before, after }) => el("li", {},
    el("span", { class: "firm-fact" }, fact, el("span", { class: after > before ? "gain" : "loss" }, ` ×${(after / Math.max(before, 1e-9)).toFixed(2)}`)),
    bar("before", before / most, before.toFixed(2), "muted"), bar("now", after / most, after.toFixed(2), "plain")));
  return el("div", { class: "firmness" },
    el("p", {}, rows.length ? `${firmer(facts)}, most gained first. ` : "Done. ", "The new run is ", el("strong", {}, run), "."),
    el("ol", { class: "firm" }, rows.slice(0, SHOWN)),
    rows.length > SHOWN ? el("details", {}, el("summary", {}, `${rows.length - SHOWN} more`), el("ol", { class: "firm" }, rows.slice(SHOWN))) : null);
}

function firmer(facts) {
  const gained = facts.filter(({ before, after }) => after > before).length;
  return `${number(gained)} of ${count(facts.length, "fact")} are held more firmly than before`;
}
