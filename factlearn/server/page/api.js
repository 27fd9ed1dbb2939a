// Requests to the service. Errors carry the sentence that the service gave; the token lives as long as the tab.

const BASE = "/api/v1";
const KEY = "factlearn-token";
const LONGEST_WAIT = 10;

export class ServiceError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The service cannot be reached at all. */
export class Offline extends Error {}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

/** Take the token out of `#token=...`, where `factlearn serve` prints it, and out of the address bar. */
export function takeTokenFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  token.set(found);
  history.replaceState(null, "", location.pathname + location.search);
}

/** Query parameters from an object: lists repeat, empty values are left out. */
export function parameters(values) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") made.append(name, each);
    }
  }
  return made;
}

async function ask(path, options = {}, again = true) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(BASE + path, { ...options, headers, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Offline("The service cannot be reached.");
  }
  if (response.ok) return response;
  const wait = Number(response.headers.get("Retry-After"));
  const busy = response.status === 429 || response.status === 503;
  if (busy && again && wait > 0 && wait <= LONGEST_WAIT) {
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
    return ask(path, options, false);
  }
  throw new ServiceError(response.status, await sentence(response));
}

async function sentence(response) {
  try {
    return (await response.json()).detail;
  } catch {
    return `The service answered with status ${response.status}.`;
  }
}

const path = (name, values) => {
  const asked = parameters(values ?? {}).toString();
  return asked ? `${name}?${asked}` : name;
};

export const get = async (name, values, signal) => (await ask(path(name, values), { signal })).json();

/** POST an object as JSON, or a form as it is. */
export async function post(name, body, signal) {
  const form = body instanceof FormData;
  const headers = form || !body ? {} : { "Content-Type": "application/json" };
  const response = await ask(name, { method: "POST", headers, body: form || !body ? body : JSON.stringify(body), signal });
  return response.status === 204 ? null : response.json();
}

export const remove = async (name, values) => (await ask(path(name, values), { method: "DELETE" })).json();

/** POST that is answered with a file. */
export async function postForFile(name, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await ask(name, { method: "POST", headers, body: JSON.stringify(body) });
  return response.blob();
}

export const imagePath = (id) => `/images/${encodeURIComponent(id)}`;

/** Follow a job until it ends; `each` is called with every change. Returns a function that stops following. */
export function follow(job, each) {
  const source = new EventSource(`${BASE}/jobs/${encodeURIComponent(job)}/events`);
  source.addEventListener("job", (event) => {
    const now = JSON.parse(event.data);
    if (["done", "failed", "cancelled"].includes(now.state)) source.close();
    each(now);
  });
  return () => source.close();
}
