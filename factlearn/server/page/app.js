// The page: what it shows follows from the state in the address; see state.js.

import { Offline, ServiceError, get, post, takeTokenFromAddress, token } from "./api.js";
import { showDetail, startDetail } from "./detail.js";
import { announce, byId, count, el, number, toggle } from "./dom.js";
import { showFilters, startFilters } from "./filters.js";
import { isHeld, neighbours, showReference, similar, startPicture } from "./picture.js";
import { ask, factsOf, recent, remember, showUnderstood, startBox } from "./query.js";
import { showButtons, showRemember } from "./remember.js";
import { ResultList, showPicks } from "./results.js";
import { showSelection } from "./selection.js";
import { EMPTY, store, whereOf } from "./state.js";
import { openSession, startToken } from "./token.js";
import { showTravel, stageName, stageOf } from "./travel.js";

const PAGE = 48;
const PANELS = ["filters", "travel", "remember"];
const RETRY = 3000;

let service = null;
let runs = [];
let lists = [];
let understood = null;
let boxed = ""; // the query in the box; what is being typed over it is left alone

/** What is asked for, and of which pictures, as the service takes it. */
const question = (state) => ({
  q: state.q, not: state.not, and: state.and, or: state.or, where: whereOf(state.filters),
  weights: state.weights.some((each) => each !== 1) ? state.weights.join(",") : null,
});

/** What the results depend on; anything else changes without asking again. */
const depends = (state) => JSON.stringify([
  state.q, state.not, state.and, state.or, state.weights, state.index, state.other, state.stage, state.sort, state.filters, state.like, state.picture,
]);

async function start() {
  takeTokenFromAddress();
  startTheme();
  service = await introduce();
  startToken();
  startBox();
  startFilters();
  startPicture(service);
  startDetail(() => lists[0]?.hits ?? [], (id) => lists[0]?.drop(id));
  startIndexChoice();
  for (const panel of PANELS) {
    byId(`open-${panel}`).addEventListener("click", () => store.set({ panel: store.get().panel === panel ? "" : panel }));
  }
  byId("mark-cut").addEventListener("click", () => lists[0] && store.set({ cut: lists[0].suggestCut() }, { replace: true }));
  byId("home").addEventListener("click", (event) => {
    event.preventDefault();
    store.set({ ...EMPTY, index: store.get().index });
  });
  toggle(byId("tools"), true);
  store.listen(update);
  store.read();
  get("/runs").then((answer) => { runs = answer.runs; }, () => {});
}

/** What the service says about itself; where reading needs the token, it is asked for, once for all tabs. */
async function introduce() {
  try {
    const found = await get("");
    if (found.token_to_read && token.get()) await openSession();
    if (found.indexes.length) return found;
  } catch (error) {
    if (error.status !== 401) throw error;
    token.set(null); // a wrong one
  }
  await openSession();
  return get("");
}

async function refresh() {
  service = await get("");
  ({ runs } = await get("/runs"));
}

/** Bring the page in line with the state. */
function update(state, before) {
  const served = service.indexes.find(({ name }) => name === state.index);
  if (!served) return store.set({ index: service.indexes[0].name }, { replace: true });
  const asked = depends(state) !== depends(before) || !lists.length;
  if (asked && (state.q !== boxed || !state.q)) byId("box").value = boxed = state.q;
  if (asked) search(state, served);
  else if (state.cut !== before.cut) showCut();
  if (state.pick !== before.pick) {
    showPicks(state.pick);
    showButtons(state);
  }
  showSelection(state);
  if (asked || state.panel !== before.panel) showPanels(state);
  if (asked || state.show !== before.show) showDetail(state);
}

function search(state, served) {
  for (const list of lists) list.stop();
  lists = [];
  document.title = state.q ? `${state.q} · factlearn` : "factlearn";
  byId("index").value = state.index;
  toggle(byId("message"), false);
  toggle(byId("reference"), false);
  toggle(byId("mark-cut"), false);
  toggle(byId("sort").parentElement, Boolean(state.q && !state.like));
  byId("lists").replaceChildren();
  if (!served.ready) return explain(`${served.name} cannot be searched`, served.reason ?? "It is not ready.", button("Try again", tryAgain));
  if (!state.q && !state.like && !state.picture) return welcome(state, served);
  if (state.picture && !isHeld(state.picture)) {
    return explain("Pictures are not part of links", "Choose, drop or paste the picture again to see its facts and neighbours.");
  }
  const other = service.indexes.find(({ name, ready }) => name === state.other && name !== state.index && ready);
  const names = state.q && other ? [state.index, other.name] : [state.index];
  lists = names.map((name) => makeList(state, name, names.length > 1));
  byId("lists").classList.toggle("two", names.length > 1);
  byId("lists").replaceChildren(...lists.map((list) => list.element));
  if (!state.q) {
    understood = null;
    showUnderstood(null);
    showReference(state, null);
  }
  busy(true);
  for (const list of lists) list.load();
}

function makeList(state, index, titled) {
  const info = service.indexes.find(({ name }) => name === index);
  const stage = stageOf(info, state.stage);
  const where = whereOf(state.filters);
  const first = index === state.index;
  const asked = {
    ...question(state), index, k: PAGE, sort: state.sort,
    stage: state.stage !== null && stage?.stage === state.stage ? state.stage : null,
  };
  let fetchPage = (offset, signal) => get("/search", { ...asked, offset }, signal);
  if (state.picture) fetchPage = neighbours(state, where, PAGE);
  else if (state.like) fetchPage = similar(state, where, PAGE);
  const title = titled ? `${index}${stage ? `, after ${stageName(stage)}` : ""}` : null;
  const list = new ResultList({
    title,
    fetchPage,
    onPage: (page, opening) => { busy(false); if (first) arrived(list, state, page, opening); },
    onError: (error, opening) => { busy(false); failed(error, opening); },
  });
  return list;
}

/** A page of the first list is there. */
function arrived(list, state, page, opening) {
  banner(null);
  if (opening && page.understood) {
    understood = page.understood;
    showUnderstood(understood, state.weights);
    if (page.hits.length) remember(state.q);
    if (store.get().panel === "travel") showPanels(store.get());
    if (store.get().show) showDetail(store.get());
  } else if (opening) showReference(state, page.facts);
  toggle(byId("mark-cut"), list.cut === null && !state.sort && list.hits.length > 1);
  if (!list.hits.length) return nothing(state);
  tell(list, state, page);
  showPicks(store.get().pick);
}

function tell(list, state, page) {
  const known = list.cut !== null && !state.sort ? ` · ${number(list.cut)} above the cut` : "";
  const where = Object.keys(state.filters).length ? " that pass the filters" : "";
  const total = page.images && !where ? ` of ${number(page.images)}` : "";
  const first = where ? "The first " : "";
  const shown = list.next === null ? `${count(list.hits.length, "picture")}${where}` : `${first}${number(list.hits.length)}${total} pictures${where}`;
  const time = page.seconds < 1 ? `${Math.max(1, Math.round(page.seconds * 1000))} ms` : `${page.seconds.toFixed(1)} s`;
  announce(`${shown}${known} · ${time}`);
}

function showCut() {
  for (const list of lists) list.showCut();
  const [list] = lists;
  toggle(byId("mark-cut"), Boolean(list) && list.cut === null && list.hits.length > 1);
  if (list?.cut !== null && list) announce(`${count(list.cut, "picture")} above the cut`);
}

async function showPanels(state) {
  for (const panel of PANELS) {
    toggle(byId(panel), state.panel === panel);
    byId(`open-${panel}`).setAttribute("aria-expanded", String(state.panel === panel));
  }
  const complain = (error) => error.name !== "AbortError" && byId(state.panel)?.replaceChildren(el("p", { class: "error" }, error.message));
  showFilters(state).catch(complain);
  // A service that has just started may not have known its runs yet.
  if (state.panel && !service.indexes.every(({ run }) => run)) await refresh().catch(() => {});
  if (state.panel === "travel") showTravel(state, service, state.q && understood ? question(state) : {}).catch(complain);
  if (state.panel === "remember") showRemember(state, service, runs).catch(complain);
}

// What is shown where there are no pictures

function explain(title, text, ...more) {
  busy(false);
  byId("message").replaceChildren(el("h2", {}, title), el("p", {}, text), ...more.filter(Boolean));
  toggle(byId("message"), true);
  announce("");
}

const button = (text, action) => el("button", { type: "button", class: "pill", onclick: action }, text);

async function welcome(state, served) {
  understood = null;
  showUnderstood(null);
  const place = el("ul", { class: "examples" });
  const earlier = recent().slice(0, 6);
  explain("Ask for a fact", `${count(served.images, "picture")}, ${count(served.facts, "known fact")}. Type a fact or a sentence, or ask with a picture: drop, paste or choose one.`,
    el("h3", {}, "Try"), place, earlier.length ? el("h3", {}, "Recent") : null,
    earlier.length ? el("div", { class: "pills" }, earlier.map((text) => button(text, () => ask(text)))) : null);
  try {
    const queries = examples((await factsOf(state.index)).map(({ fact }) => fact));
    const { answers } = await post("/search", { index: state.index, queries, k: 1 });
    place.replaceChildren(...queries.map((text, each) => example(text, answers[each].hits[0])));
  } catch {
    place.previousElementSibling?.remove(); // an invitation, nothing more
  }
}

/** A query with the picture that answers it best. */
function example(text, hit) {
  return el("li", {}, el("button", { type: "button", onclick: () => ask(text) },
    hit ? el("img", { src: hit.thumb, alt: "", width: 128, height: 128 }) : null, el("span", {}, text)));
}

/** A few facts of different predicates, one with an open unit first. */
function examples(facts) {
  const parts = facts.map((fact) => fact.slice(1, -1).split(", ")).filter((units) => units.length === 3);
  const seen = new Set();
  const varied = parts.filter((units) => !seen.has(units[1]) && seen.add(units[1])).slice(0, 7);
  const chosen = varied.length ? [`<*, ${varied[0][1]}, *>`, ...varied.map((units) => `<${units.join(", ")}>`)] : facts.slice(0, 6);
  return chosen.slice(0, 8);
}

function nothing(state) {
  const ways = [];
  if (Object.keys(state.filters).length) ways.push(button("Without the filters", () => store.set({ filters: {} })));
  if (state.not.length) ways.push(button("Without the exclusions", () => store.set({ not: [] })));
  explain("No picture answers this", ways.length ? "Ask for less:" : "Open a unit with ∗, or ask for something else.", el("div", { class: "pills" }, ways));
}

function failed(error, opening) {
  if (error instanceof Offline) return offline();
  if (!opening) return announce(error.message);
  const asked = error instanceof ServiceError && error.status < 500;
  if (!store.get().q) showReference(store.get(), []);
  if (asked && store.get().q) showUnderstood(null);
  explain(asked ? "That cannot be answered" : "The service is in trouble", error.message,
    asked ? null : button("Try again", tryAgain));
}

/** Search as before, once the service has said how things stand now. */
async function tryAgain() {
  await refresh().catch(() => {});
  search(store.get(), service.indexes.find(({ name }) => name === store.get().index));
}

function banner(text) {
  byId("banner").textContent = text ?? "";
  toggle(byId("banner"), Boolean(text));
}

/** Say so, and go on by itself once the service is back. */
function offline() {
  banner("The service cannot be reached. Is it still running? Trying again…");
  byId("lists").replaceChildren();
  const again = async () => {
    try {
      const now = await get("");
      banner(null);
      if (!service) return start();
      service = now;
      search(store.get(), service.indexes.find(({ name }) => name === store.get().index));
    } catch (error) {
      if (error instanceof Offline) setTimeout(again, RETRY);
      else explain("The service is in trouble", error.message);
    }
  };
  setTimeout(again, RETRY);
}

let waiting = 0;

/** A line at the top, for answers that take longer than an instant. */
function busy(on) {
  clearTimeout(waiting);
  if (on) waiting = setTimeout(() => toggle(byId("progress"), true), 150);
  else toggle(byId("progress"), false);
  byId("results").setAttribute("aria-busy", String(on));
}

function startIndexChoice() {
  const names = service.indexes.map(({ name }) => name);
  byId("index").replaceChildren(...names.map((name) => el("option", { value: name }, name)));
  toggle(byId("index-choice"), names.length > 1);
  byId("index").addEventListener("change", (event) =>
    store.set({ index: event.target.value, other: "", stage: null, filters: {}, sort: "", cut: null, like: "", show: "", pick: [] }));
}

function startTheme() {
  const choices = ["system", "light", "dark"];
  const signs = { system: "◐", light: "☀", dark: "☾" };
  const show = (choice) => {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    byId("theme").textContent = signs[choice];
    byId("theme").setAttribute("aria-label", `Colours: ${choice === "system" ? "as the system" : choice}`);
  };
  show(document.documentElement.dataset.theme ?? "system");
  byId("theme").addEventListener("click", () => {
    const next = choices[(choices.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % 3];
    localStorage.setItem("factlearn-theme", next);
    show(next);
  });
}

start().catch((error) => (error instanceof Offline ? offline() : explain("The service is in trouble", error.message)));
