// Queryable state: look up a key, read many of them, watch one while it changes.

import * as api from "../api.js";
import { field, problemBox } from "../dialogs.js";
import { announce, h, replace, setText } from "../dom.js";
import { clock, plain, whole } from "../format.js";
import { follow } from "../live.js";
import { panel } from "../parts.js";

const PAGE = 50;
const KEPT = 30;

export function statePanel(feed, more) {
  let states = [];
  let watched = null;
  const select = h("select", { name: "state", required: true, onchange: () => { stopWatching(); showFields(); } });
  const key = h("input", { type: "text", name: "key", autocomplete: "off", spellcheck: "false" });
  const windowInput = h("input", { type: "text", name: "window", autocomplete: "off", spellcheck: "false", placeholder: "start,end" });
  const consistency = h("select", { name: "consistency" },
    h("option", { value: "committed" }, "Committed"), h("option", { value: "uncommitted" }, "Uncommitted: the running epoch too"));
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const watchButton = h("button", { type: "button", onclick: () => (watched ? stopWatching() : watch()) }, "Watch");
  const form = h("form", { class: "queryform", onsubmit: lookUp },
    field("State", select),
    field("Key", key, "Text, a number, or JSON such as [\"a\", 1]. For a scan: how keys begin."),
    field("Window", windowInput, "Only for the content of windows."),
    field("Read", consistency),
    h("div", { class: "buttons left" },
      h("button", { type: "submit", class: "primary" }, "Look up"),
      h("button", { type: "button", onclick: () => scan() }, "Scan"),
      watchButton));
  const none = h("p", { class: "nothing", hidden: true }, "This job has no queryable state. Mark one in the program: ",
    h("code", {}, "descriptor.set_queryable(\"name\")"), " or ", h("code", {}, "stream.key_by(...).as_queryable_state(\"name\")"), ".");
  const element = h("div", { class: "stack" }, panel("Queryable state", none, form), h("section", { class: "panel", "aria-label": "Answer" }, answer));

  const uncommitted = consistency.options[1];
  const windowField = windowInput.closest(".field");

  /** Windows and uncommitted reads are only for states that have them. */
  function showFields() {
    const state = chosen() ?? {};
    windowField.hidden = !state.windowed;
    if (!state.windowed) windowInput.value = "";
    uncommitted.disabled = !state.uncommitted;
    if (!state.uncommitted) consistency.value = "committed";
  }

  const chosen = () => states[select.selectedIndex];
  const options = () => ({ consistency: consistency.value, window: windowInput.value.trim() });

  async function load() {
    try {
      states = await api.states(feed.id);
    } catch (problem) {
      if (problem.status !== 401) replace(answer, problemBox(problem));
      states = [];
    }
    none.hidden = states.length > 0;
    form.hidden = states.length === 0;
    replace(select, states.map((each) => h("option", { selected: each.name === more }, `${each.name} of ${each.operator_name ?? feed.nameOf(each.operator)}`)));
    showFields();
  }

  async function lookUp(event) {
    event.preventDefault();
    stopWatching();
    if (!key.value) {
      key.focus();
      replace(answer, h("p", { class: "nothing" }, "Give a key to look up, or scan for all of them."));
      return;
    }
    await show(() => api.lookUp(feed.id, chosen(), key.value, options()), (found) => oneValue(key.value, found));
  }

  async function scan(after) {
    stopWatching();
    const prefix = key.value;
    const page = { prefix, limit: PAGE, after };
    await show(() => api.scan(feed.id, chosen(), page), (found) => manyValues(found, (next) => scan(next)));
  }

  async function show(load_, draw) {
    try {
      replace(answer, draw(await load_()));
    } catch (problem) {
      replace(answer, problemBox(problem));
    }
  }

  function watch() {
    if (!key.value) {
      key.focus();
      return;
    }
    const changes = h("ol", { class: "changes", "aria-label": "Changes, newest first" });
    const title = h("h2", {}, `Watching ${key.value}`);
    const note = h("p", { class: "hint" }, "Waiting for the first value");
    replace(answer, title, note, changes);
    watchButton.textContent = "Stop watching";
    watched = follow(api.watchPath(feed.id, chosen(), key.value), ["state"], {
      onUp: () => setText(note, "Live: each change is pushed as its epoch is committed."),
      onDown: () => setText(note, "Connection lost, trying again."),
      onEvent: (_, found) => {
        for (const change of found.changes) {
          changes.prepend(h("li", {}, h("span", { class: "hint" }, `${clock(Date.now())} · epoch ${whole(found.epoch)}`), h("pre", {}, valueText(change))));
        }
        while (changes.children.length > KEPT) changes.lastElementChild.remove();
        announce(`${key.value} changed`);
      },
    });
  }

  function stopWatching() {
    watched?.close();
    watched = null;
    watchButton.textContent = "Watch";
  }

  load();
  return { element, close: stopWatching };
}

const valueText = (found) => (found.found === false ? "no value" : plain(found.value ?? null));

function oneValue(key, found) {
  const words = `As of epoch ${whole(found.epoch)}${found.committed === false ? ", uncommitted" : ", committed"}`;
  return [h("h2", {}, key), h("pre", { class: "value" }, valueText(found)), h("p", { class: "hint" }, words)];
}

function manyValues(found, next) {
  const { entries = [], after = null } = found;
  const rows = entries.map((each) => h("tr", {}, h("th", { scope: "row" }, plain(each.key)), h("td", {}, h("pre", {}, valueText(each)))));
  return [
    h("h2", {}, `${whole(entries.length)} keys`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Keys and values" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Value"))), h("tbody", {}, rows))),
    h("p", { class: "hint" }, `As of epoch ${whole(found.epoch)}`),
    after === null ? null : h("button", { type: "button", onclick: () => next(after) }, "More"),
  ];
}
