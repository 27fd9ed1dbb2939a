// A list of pictures: a grid that grows while one scrolls, and the line below which the rest is unlikely to match.

import { bar, count, el, number, percent, toggle } from "./dom.js";
import { store } from "./state.js";

const UNITS = ["subject", "predicate", "object"];
const UNLIKELY = 0.5;

/** How near a unit is, from 0 to 1, from minus its squared distance. */
const nearness = (score) => Math.exp(score);

/** A bar for each unit that was asked for, or all three for a picture's neighbours. */
export function unitBars(scores) {
  return UNITS.filter((unit) => unit in scores).map((unit) =>
    bar(unit, nearness(scores[unit]), (-scores[unit]).toFixed(2), unit, `squared distance ${(-scores[unit]).toFixed(3)}`));
}

export class ResultList {
  /** `fetchPage(offset, signal)` returns { hits, next, cut? }. */
  constructor({ title = null, fetchPage, onPage, onError }) {
    Object.assign(this, { fetchPage, onPage, onError });
    this.hits = [];
    this.cards = []; // one per hit, in the same order
    this.next = 0;
    this.modelCut = null;
    this.stopping = new AbortController();
    this.above = el("ul", { class: "grid", "aria-label": title ? `Pictures: ${title}` : "Pictures" });
    this.below = el("ul", { class: "grid below", "aria-label": "Pictures below the cut" });
    this.line = this.#makeLine();
    this.more = el("button", { type: "button", class: "more", onclick: () => this.load() }, "Show more");
    this.element = el("section", { class: "list" }, title ? el("h2", {}, title) : null, this.above, this.line, this.below, this.more);
    this.element.addEventListener("keydown", (event) => this.#move(event));
    // A busy browser tells several changes at once; the last is how things are.
    this.watcher = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && this.load(), { rootMargin: "800px" });
    this.#wait();
  }

  stop() {
    this.stopping.abort();
    this.watcher.disconnect();
  }

  /** Append the next page. */
  async load() {
    if (this.loading || this.next === null) return;
    this.loading = true;
    this.more.disabled = true;
    try {
      const first = this.next === 0;
      const page = await this.fetchPage(this.next, this.stopping.signal);
      if (first) this.above.replaceChildren();
      this.modelCut ??= page.cut ?? null; // the first page that reaches the line tells where it is, and there it stays
      const from = this.hits.length;
      this.hits.push(...page.hits);
      this.cards.push(...page.hits.map((hit, place) => card(hit, from + place)));
      this.next = page.next;
      this.showCut();
      this.onPage(page, first);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (this.next === 0) this.above.replaceChildren();
      else this.watcher.disconnect(); // the button remains, to try again
      this.onError(error, this.next === 0);
    } finally {
      this.loading = false;
      this.more.disabled = false;
      toggle(this.more, this.next !== null && this.hits.length > 0);
      // Observing anew tells at once whether the end is still in sight.
      this.watcher.unobserve(this.more);
      if (!this.more.hidden) this.watcher.observe(this.more);
    }
  }

  /** Take out a picture that the index no longer holds; what follows has moved up by one. */
  drop(id) {
    const place = this.hits.findIndex((hit) => hit.id === id);
    if (place < 0) return;
    this.hits.splice(place, 1);
    this.cards.splice(place, 1);
    if (this.next !== null) this.next--;
    if (this.modelCut > place) this.modelCut--;
    this.showCut();
  }

  #wait() {
    toggle(this.more, false);
    toggle(this.line, false);
    this.above.replaceChildren(...Array.from({ length: 12 }, () => el("li", { class: "card waiting", "aria-hidden": "true" })));
  }

  /** Where the line is: as moved, otherwise as the model says; null if neither. */
  get cut() {
    return store.get().cut ?? this.modelCut;
  }

  /** A place for a line that the model does not give: below the last likely picture, or at the widest gap of the scores. */
  suggestCut() {
    const scores = this.hits.map((hit) => hit.score);
    if (this.hits.some((hit) => hit.probability !== null)) {
      return this.hits.findLastIndex((hit) => hit.probability >= UNLIKELY) + 1;
    }
    const gaps = scores.slice(1).map((score, place) => scores[place] - score);
    return gaps.length ? gaps.indexOf(Math.max(...gaps)) + 1 : 0;
  }

  /** Put every picture above or below the line. */
  showCut() {
    const { cut } = this;
    const reached = cut !== null && cut <= this.hits.length && this.hits.length > 0 && !store.get().sort;
    const split = reached ? cut : this.cards.length;
    arrange(this.above, this.cards.slice(0, split));
    arrange(this.below, this.cards.slice(split));
    toggle(this.line, reached);
    toggle(this.below, split < this.cards.length);
    if (!reached) return;
    this.slider.max = this.hits.length;
    this.slider.value = cut;
    this.slider.setAttribute("aria-valuetext", `after ${number(cut)} pictures`);
    const own = store.get().cut !== null;
    this.said.textContent = own ? `Your cut, below ${count(cut, "picture")}` : "Below here the model sees other facts";
    toggle(this.reset, own);
    this.reset.textContent = this.modelCut === null ? "Remove" : "As the model says";
  }

  #makeLine() {
    const move = (event) => store.set({ cut: Number(event.target.value) }, { replace: true });
    this.said = el("span", {});
    this.slider = el("input", { type: "range", min: 0, "aria-label": "Move the cut: number of pictures above it", oninput: move });
    this.reset = el("button", { type: "button", class: "link", onclick: () => store.set({ cut: null }, { replace: true }) }, "Reset");
    return el("div", { class: "cut", role: "group", "aria-label": "Cut" },
      this.said, this.slider, this.reset);
  }

  /** Arrows walk through the grid, space selects. */
  #move(event) {
    const link = event.target.closest?.(".card a");
    if (!link) return;
    const links = [...this.element.querySelectorAll(".card a")];
    const place = links.indexOf(link);
    const columns = getComputedStyle(this.above).gridTemplateColumns.split(" ").length;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    const to = event.key === "Home" ? 0 : event.key === "End" ? links.length - 1 : place + (steps[event.key] ?? 0);
    if (event.key === " ") link.parentElement.querySelector("input").click();
    else if (to === place || !links[to]) return;
    else links[to].focus();
    event.preventDefault();
  }
}

/** Make these the children of a list, touching only what is not yet in its place: a moved card would lose the focus. */
function arrange(list, cards) {
  cards.forEach((item, place) => {
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null);
  });
  while (list.children.length > cards.length) list.lastChild.remove();
}

/** One picture of the grid. What explains it shows on hover and focus, and in the detail on tap. */
function card(hit, place) {
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    store.set({ show: hit.id });
  };
  const picture = el("img", { src: hit.thumb, alt: "", loading: place < 12 ? "eager" : "lazy", decoding: "async", width: 256, height: 256 });
  picture.addEventListener("error", () => picture.replaceWith(el("span", { class: "gone" }, "The file is gone")));
  const said = hit.fact ?? hit.name;
  const probability = percent(hit.probability);
  const address = new URL(location.href);
  address.searchParams.set("show", hit.id);
  return el("li", { class: "card", "data-id": hit.id },
    el("a", { href: address.pathname + address.search, onclick: open, "aria-label": `${place + 1}: ${said}${probability ? `, ${probability}` : ""}` },
      picture,
      hit.right === null ? null : el("span", { class: hit.right ? "mark right" : "mark wrong", title: hit.right ? "its label confirms the answer" : "its label says otherwise" }, hit.right ? "✓" : "✗"),
      el("span", { class: "why" }, el("strong", {}, said), probability ? el("span", { class: "probability" }, `${probability} likely`) : null, ...unitBars(hit.scores)),
    ),
    el("label", { class: "pick" },
      el("input", { type: "checkbox", checked: store.get().pick.includes(hit.id), "aria-label": `Select ${hit.name}`, onchange: (event) => pick(hit.id, event.target.checked) })),
  );
}

function pick(id, picked) {
  const others = store.get().pick.filter((each) => each !== id);
  store.set({ pick: picked ? [...others, id] : others }, { replace: true });
}

/** Tick what is selected, after going back or clearing. */
export function showPicks(pickedIds) {
  const picked = new Set(pickedIds);
  for (const item of document.querySelectorAll(".card[data-id]")) {
    const chosen = picked.has(item.dataset.id);
    item.classList.toggle("picked", chosen);
    item.querySelector(".pick input").checked = chosen;
  }
}
