// What the page shows, as a value; its address says all of it, so that every state is a link.

const PLAIN = ["q", "index", "other", "sort", "like", "show", "picture", "panel"];
const NUMBERS = ["stage", "cut"];
const LISTS = ["not", "and", "or", "pick"];
const MOST_PICKS = 50; // in the address; more are only kept in the page

export const EMPTY = {
  q: "",
  index: "",
  other: "",
  sort: "",
  like: "",
  show: "",
  picture: "",
  panel: "",
  stage: null,
  cut: null,
  not: [],
  and: [],
  or: [],
  pick: [],
  weights: [1, 1, 1],
  filters: {},
};

/** The state that an address says; what it does not say, or says wrongly, is as at the start. */
export function fromAddress(search) {
  const given = new URLSearchParams(search);
  const state = structuredClone(EMPTY);
  for (const name of PLAIN) state[name] = given.get(name) ?? "";
  for (const name of NUMBERS) {
    const value = given.get(name);
    if (value !== null && /^\d{1,9}$/.test(value)) state[name] = Number(value);
  }
  for (const name of LISTS) state[name] = given.getAll(name);
  const weights = (given.get("weights") ?? "").split(",").map(Number);
  if (weights.length === 3 && weights.every((each) => each > 0 && each <= 100)) state.weights = weights;
  for (const [name, value] of given) {
    const filter = /^(is|has|min|max)\.(.+)$/.exec(name);
    if (filter) addFilter(state.filters, filter[2], filter[1], value);
  }
  return state;
}

function addFilter(filters, column, kind, value) {
  const filter = (filters[column] ??= {});
  if (kind === "is") (filter.is ??= []).push(value);
  else filter[kind] = value;
}

/** The address of a state. */
export function toAddress(state) {
  const made = new URLSearchParams();
  for (const name of PLAIN) if (state[name]) made.set(name, state[name]);
  for (const name of NUMBERS) if (state[name] !== null) made.set(name, state[name]);
  for (const name of LISTS) {
    if (name === "pick" && state.pick.length > MOST_PICKS) continue;
    for (const each of state[name]) made.append(name, each);
  }
  if (state.weights.some((each) => each !== 1)) made.set("weights", state.weights.join(","));
  for (const [column, filter] of Object.entries(state.filters)) {
    for (const each of filter.is ?? []) made.append(`is.${column}`, each);
    for (const kind of ["has", "min", "max"]) if (filter[kind]) made.set(`${kind}.${column}`, filter[kind]);
  }
  const said = made.toString();
  return location.pathname + (said ? `?${said}` : "");
}

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
const TAKEN = /^(and|or|not|in|like|is|null|id|path|facts?|model|bytes|modified|sha256|metadata\..*)$/i; // mean something else
const named = (column) => (/^[A-Za-z_][\w.-]*$/.test(column) && !TAKEN.test(column) ? column : `\`metadata.${column}\``);
const escaped = (text) => text.replaceAll("%", "_"); // `like` has no escape: any character will do

/** The filters in the language of the index: `split = 'test' and year >= 1990`. */
export function whereOf(filters) {
  const parts = [];
  for (const [column, filter] of Object.entries(filters)) {
    const name = named(column);
    if (filter.is?.length) parts.push(`${name} in (${filter.is.map(quoted).join(", ")})`);
    if (filter.has) parts.push(`${name} like ${quoted(`%${escaped(filter.has)}%`)}`);
    if (filter.min && isFinite(filter.min)) parts.push(`${name} >= ${Number(filter.min)}`);
    if (filter.max && isFinite(filter.max)) parts.push(`${name} <= ${Number(filter.max)}`);
  }
  return parts.join(" and ");
}

let current = structuredClone(EMPTY);
const listeners = [];

export const store = {
  get: () => current,
  listen: (listener) => listeners.push(listener),

  /** Change the state. A new entry in the history, unless `replace`: for what is dragged or ticked. */
  set(patch, { replace = false } = {}) {
    const before = current;
    current = { ...current, ...patch };
    const address = toAddress(current);
    if (replace || address === toAddress(before)) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    for (const listener of listeners) listener(current, before);
  },

  /** Take the state from the address: at the start, and when going back or forward. */
  read() {
    const before = current;
    current = fromAddress(location.search);
    for (const listener of listeners) listener(current, before);
  },
};

window.addEventListener("popstate", () => store.read());

/** What a new question forgets: where one was in the answer to the last. */
export const FRESH = { cut: null, like: "", show: "", picture: "", pick: [] };
