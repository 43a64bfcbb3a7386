// Questions before something happens, progress while it does, and what came of it. One dialog for all buttons, built on
// the browser's own <dialog>: focus stays in it and returns to the button, and Escape closes it.

import { announce, freshId, h, replace } from "./dom.js";

/**
 * Ask, then do.
 *
 * @param title what will happen, as a heading
 * @param text one or two sentences on what that means
 * @param fields elements with inputs, or nothing
 * @param label the word on the button that does it
 * @param danger whether it takes something away
 * @param run called with the dialog's form; what it returns goes to `done`
 * @param done returns what to show when it worked: a string, or elements; nothing closes the dialog
 */
export function ask({ title, text, fields = [], label, danger = false, run, done }) {
  const headingId = freshId("dialog");
  const outcome = h("div", { class: "outcome", role: "status", "aria-live": "polite" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, label);
  const leave = h("button", { type: "button", onclick: () => dialog.close() }, "Back");
  const form = h(
    "form",
    { method: "dialog", onsubmit: submit },
    h("h2", { id: headingId }, title),
    text ? h("p", {}, text) : null,
    h("fieldset", { class: "plain" }, fields),
    outcome,
    h("div", { class: "buttons" }, leave, go),
  );
  const dialog = h("dialog", { "aria-labelledby": headingId, class: "ask", onclose: () => dialog.remove() }, form);

  async function submit(event) {
    event.preventDefault();
    const inputs = form.querySelector("fieldset");
    const values = new FormData(form);
    inputs.disabled = true;
    go.disabled = true;
    replace(outcome, h("progress", { "aria-label": `${title}: under way` }), h("span", {}, "Under way"));
    leave.textContent = "Close, it goes on";
    try {
      const result = await run(values);
      finish(done(result));
    } catch (problem) {
      fail(problem);
      inputs.disabled = false;
      go.disabled = false;
      leave.textContent = "Back";
    }
  }

  function finish(content) {
    if (!dialog.open) {
      toast(`${title}: done`, content);
      return;
    }
    if (!content) {
      dialog.close();
      return;
    }
    replace(outcome, h("div", { class: "said good" }, content));
    go.hidden = true;
    leave.textContent = "Close";
    leave.focus();
  }

  function fail(problem) {
    if (dialog.open) replace(outcome, problemBox(problem));
    else toast(`${title}: failed`, problemBox(problem));
  }

  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A problem in words: what, and what to do about it. */
export function problemBox(problem) {
  return h(
    "div",
    { class: "said bad", role: "alert" },
    h("strong", {}, problem.title ?? "Something went wrong"),
    problem.detail || problem.message ? h("p", {}, problem.detail || problem.message) : null,
    problem.remedy ? h("p", { class: "remedy" }, h("span", { class: "word" }, "What to do: "), problem.remedy) : null,
  );
}

/** A message in the corner that stays until it is closed. */
export function toast(title, ...content) {
  const close = h("button", { type: "button", class: "quiet", "aria-label": "Close message" }, "Close");
  const box = h("div", { class: "toast" }, h("div", {}, h("strong", {}, title), content), close);
  close.addEventListener("click", () => box.remove());
  document.getElementById("toasts").append(box);
  announce(title);
}

/** A path with a button that copies it. */
export function copyable(text, what) {
  const button = h("button", { type: "button", class: "quiet small", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      announce(`${what} copied`);
    } catch {
      // Over plain http from another machine the clipboard is closed: the text is selected instead.
      getSelection().selectAllChildren(code);
    }
  });
  const code = h("code", {}, text);
  return h("span", { class: "copyable" }, code, button);
}

/** A labelled input in a dialog or a form. */
export function field(label, input, hint) {
  const id = input.id || freshId("field");
  input.id = id;
  const hintId = hint ? `${id}-hint` : null;
  if (hintId) input.setAttribute("aria-describedby", hintId);
  const isChoice = input.type === "checkbox" || input.type === "radio";
  const name = h("label", { for: id }, label);
  const note = hint ? h("small", { id: hintId }, hint) : null;
  return h("div", { class: isChoice ? "field choice" : "field" }, isChoice ? [input, name] : [name, input], note);
}
