// The token that allows changes: asked for when it is needed, kept until the tab is closed.

import { ServiceError, post, token } from "./api.js";
import { announce, byId, el } from "./dom.js";

const dialog = byId("token-dialog");

/** Do something that needs the token; ask for it if there is none, or if it is refused. */
export async function withToken(work) {
  if (!token.get() && !(await askForToken("Changes need the token that the service printed when it started."))) return null;
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status !== 401) {
      announce(error.message);
      throw error;
    }
    token.set(null);
    return (await askForToken(error.message)) ? withToken(work) : null;
  }
}

/** True once a token was given; false if the person changed their mind. */
export function askForToken(reason) {
  return new Promise((resolve) => {
    let given = false;
    const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
    const done = (event) => {
      event.preventDefault();
      given = Boolean(field.value.trim());
      token.set(field.value.trim());
      dialog.close();
    };
    dialog.replaceChildren(el("form", { onsubmit: done },
      el("h2", { id: "token-title" }, "Token"),
      el("p", {}, reason),
      el("label", { for: "token" }, "Token"), field,
      el("p", { class: "hint" }, "It is kept in this tab only, until the tab is closed."),
      el("div", { class: "actions" },
        el("button", { type: "submit", class: "primary" }, "Use it"),
        token.get() ? el("button", { type: "button", onclick: () => { token.set(null); dialog.close(); } }, "Forget it") : null,
        el("button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
    dialog.addEventListener("close", () => { showToken(); resolve(given); }, { once: true });
    dialog.showModal();
  });
}

/** Where even reading needs the token: a cookie for pictures and events, which send no header. */
export async function openSession() {
  while (!token.get() && !(await askForToken("This service needs a token to read."))) { /* nothing can be shown without it */ }
  try {
    await post("/session");
  } catch (error) {
    if (error.status !== 401) throw error;
    token.set(null);
    await openSession();
  }
}

/** Say in the header whether there is a token. */
export function showToken() {
  const button = byId("unlock");
  button.textContent = token.get() ? "Token ✓" : "Token";
  button.title = token.get() ? "Changes are allowed in this tab" : "Enter the token that allows changes";
}

export function startToken() {
  byId("unlock").addEventListener("click", () => askForToken("It allows adding, removing and remembering pictures."));
  showToken();
}
