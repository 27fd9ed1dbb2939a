// The bar for selected pictures: remember them, or take them away as a list or as files.

import { postForFile } from "./api.js";
import { announce, byId, count, el, toggle } from "./dom.js";
import { start } from "./remember.js";
import { store } from "./state.js";

export function showSelection({ pick }) {
  const bar = byId("selection");
  toggle(bar, pick.length > 0);
  if (!pick.length) return;
  if (bar.firstChild) return void (bar.querySelector("strong").textContent = count(pick.length, "picture"));
  bar.replaceChildren(
    el("strong", {}, count(pick.length, "picture")),
    el("button", { type: "button", class: "primary", onclick: () => start({ images: store.get().pick }) }, "Remember these"),
    el("span", { class: "downloads" }, "Download ",
      ["csv", "json", "zip"].map((format) => el("button", { type: "button", "aria-label": `Download as ${format}`, onclick: () => download(format) }, format.toUpperCase()))),
    el("button", { type: "button", class: "quiet", onclick: () => store.set({ pick: [] }, { replace: true }) }, "Clear"),
  );
}

async function download(format) {
  const { index, pick } = store.get();
  try {
    const file = await postForFile("/download", { index, ids: pick, format });
    const address = URL.createObjectURL(file);
    el("a", { href: address, download: `${index}-selected.${format}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    announce(`Downloaded ${count(pick.length, "picture")} as ${format}`);
  } catch (error) {
    announce(error.message);
  }
}
