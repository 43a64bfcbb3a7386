// Asks for the manager's token: it is bound to more than this machine, so everybody has to show one.

import * as api from "../api.js";
import { field, problemBox } from "../dialogs.js";
import { h, replace } from "../dom.js";

/** The page with the question; `onDone` is called when the manager has accepted the token. */
export function tokenPage(onDone) {
  document.title = "Token needed – Flintstream";
  const input = h("input", { type: "password", name: "token", required: true, autocomplete: "current-password", autofocus: true });
  const outcome = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Open the dashboard");
  const form = h(
    "form",
    { class: "panel narrow", onsubmit: submit },
    h("h1", {}, "Token needed"),
    h("p", {}, "This manager is reachable from other machines, so it asks who you are. The token is in the file ",
      h("code", {}, "token"), " of the manager's home. It is kept until you close this tab."),
    field("Token", input),
    outcome,
    h("div", { class: "buttons" }, button),
  );

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      await api.logIn(input.value.trim());
      onDone();
    } catch (problem) {
      replace(outcome, problemBox(problem));
      button.disabled = false;
      input.select();
    }
  }

  queueMicrotask(() => input.focus());
  return { element: form, close() {} };
}
