// Asking with a picture: dropped anywhere, pasted, or chosen; its facts, and its neighbours.

import { get, imagePath, post } from "./api.js";
import { announce, byId, count, el, toggle } from "./dom.js";
import { factList } from "./detail.js";
import { FRESH, store } from "./state.js";
import { withToken } from "./token.js";

const held = new Map(); // { file, address } by name: a picture cannot be part of a link, but going back to it works
let largest = Infinity;

export function startPicture(service) {
  largest = service.max_upload_bytes;
  const file = byId("file");
  const drop = byId("drop");
  byId("choose").addEventListener("click", () => file.click());
  file.addEventListener("change", () => { use(file.files[0]); file.value = ""; });
  document.addEventListener("paste", (event) => {
    const pasted = [...(event.clipboardData?.files ?? [])].find(isPicture);
    if (!pasted) return;
    event.preventDefault();
    use(pasted);
  });
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); toggle(drop, true); } });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) toggle(drop, false); });
  document.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    toggle(drop, false);
    use(event.dataTransfer.files[0]);
  });
}

const isPicture = (file) => file.type.startsWith("image/");

function use(file) {
  if (!file) return;
  if (!isPicture(file)) return announce(`${file.name} is not a picture.`);
  if (file.size > largest) return announce(`${file.name} is too large; at most ${Math.round(largest / 1e6)} MB can be sent.`);
  const picture = `${file.name} (${count(file.size, "byte")})`; // the size makes two pictures of one name two states
  if (held.has(picture)) URL.revokeObjectURL(held.get(picture).address);
  held.set(picture, { file, address: URL.createObjectURL(file) });
  store.set({ ...FRESH, q: "", not: [], and: [], or: [], picture, stage: null, other: "" });
}

export const isHeld = (picture) => held.has(picture);

/** A page of the neighbours of the picture that was given. */
export function neighbours(state, where, k) {
  return async (offset, signal) => {
    const form = new FormData();
    form.append("image", held.get(state.picture).file);
    form.append("index", state.index);
    form.append("k", k);
    form.append("offset", offset);
    if (where) form.append("where", where);
    return post("/search/image", form, signal);
  };
}

/** A page of the pictures like one of the index. */
export function similar(state, where, k) {
  return (offset, signal) => get(`${imagePath(state.like)}/similar`, { index: state.index, stage: state.stage, k, offset, where }, signal);
}

/** Show the picture that is asked with, and its facts once they are known. */
export function showReference(state, facts) {
  const place = byId("reference");
  toggle(place, Boolean(state.picture || state.like));
  if (place.hidden) return;
  const own = Boolean(state.picture);
  const source = own ? held.get(state.picture).address : `/api/v1${imagePath(state.like)}/thumb?index=${encodeURIComponent(state.index)}`;
  const said = el("p", { class: "hint", role: "status" });
  place.replaceChildren(
    el("img", { src: source, alt: own ? "Your picture" : `Picture ${state.like}` }),
    el("div", {}, el("h2", {}, own ? "What the model sees in it" : "More like this"), factList(facts),
      el("div", { class: "actions" },
        own ? el("button", { type: "button", id: "add-picture", onclick: (event) => add(state, event.target, said) }, "Add to the index") : null,
        el("button", { type: "button", class: "quiet", onclick: () => history.back() }, "Back")), said),
  );
}

async function add(state, button, said) {
  try {
    button.disabled = true;
    const added = await withToken(() => {
      const form = new FormData();
      form.append("image", held.get(state.picture).file);
      form.append("index", state.index);
      return post("/images", form);
    });
    if (added) said.textContent = `Added as ${added.id}; the index holds ${count(added.images, "picture")} now.`;
    else button.disabled = false;
  } catch (error) {
    said.textContent = error.message;
    button.disabled = false;
  }
}
