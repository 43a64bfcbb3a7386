// What failed, where in the user's program, and whether the job went on after it.

import { h, keyed, setText } from "../dom.js";
import { ago, moment, whole } from "../format.js";

export function exceptionsPanel(feed) {
  const empty = h("p", { class: "panel nothing" }, "Nothing has failed.");
  const list = h("ol", { class: "exceptions", "aria-label": "Exceptions, newest first" });
  const element = h("div", { class: "stack" }, empty, list);

  function update() {
    const failures = [...feed.exceptions].map((each, index) => ({ ...each, index })).reverse();
    empty.hidden = failures.length > 0;
    list.hidden = failures.length === 0;
    keyed(list, failures, (each) => `${each.at_ms} ${each.index}`, (each) => card(feed, each));
  }

  return { element, update };
}

function card(feed, failure) {
  const age = h("span");
  const item = h(
    "li",
    { class: "panel exception" },
    h("div", { class: "headrow" }, h("h2", {}, failure.type ?? "Failure"), h("span", { class: "badge", "data-tone": failure.restarted ? "warn" : "bad" }, failure.restarted ? "restarted" : "ended the job")),
    h("p", { class: "message" }, failure.message ?? ""),
    h("p", { class: "where" },
      failure.location ? h("code", { class: "location" }, failure.location) : "no line of your program",
      failure.operator ? ` in ${feed.nameOf(failure.operator)}` : "",
      ` · ${moment(failure.at_ms)}, `, age, failure.epoch === null || failure.epoch === undefined ? "" : ` · epoch ${whole(failure.epoch)}`),
    failure.traceback ? h("details", {}, h("summary", {}, "Traceback"), h("pre", { tabindex: "0" }, failure.traceback)) : null,
  );
  item.update = () => setText(age, ago(failure.at_ms));
  return item;
}
