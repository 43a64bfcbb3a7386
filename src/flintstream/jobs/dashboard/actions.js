// The buttons that steer a job. Each one asks first, in words that say what will happen, and shows what came of it.

import * as api from "./api.js";
import { ask, copyable, field, problemBox } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { bytes, moment, whole } from "./format.js";

/** The buttons for the job of a feed. */
export function actionBar(feed) {
  const button = (label, onclick, kind = "") => h("button", { type: "button", class: kind, onclick }, label);
  const savepoint = button("Take savepoint", () => takeSavepoint(feed));
  const rescale = button("Rescale", () => askRescale(feed));
  const restart = button("Restart", () => askRestart(feed));
  const stop = button("Stop", () => askStop(feed));
  const cancel = button("Cancel", () => askCancel(feed), "danger");
  const forget = button("Remove", () => askForget(feed));
  const element = h("div", { class: "actions", role: "group", "aria-label": "Steer this job" },
    savepoint, rescale, restart, stop, cancel, forget);
  return {
    element,
    update() {
      const { status } = feed.view;
      const isLeaving = status === "CANCELLING" || status === "FAILING";
      for (const each of [savepoint, rescale, stop]) each.hidden = feed.hasEnded;
      for (const each of [savepoint, rescale, stop]) each.disabled = status !== "RUNNING";
      cancel.hidden = feed.hasEnded;
      cancel.disabled = isLeaving;
      restart.disabled = isLeaving;
      forget.hidden = !feed.hasEnded;
    },
  };
}

const named = (feed) => `“${feed.view.name}”`;

function askCancel(feed) {
  ask({
    title: "Cancel this job",
    text: `${named(feed)} ends behind its last epoch, without a savepoint. Its checkpoint stays: it can be restarted from there.`,
    label: "Cancel job",
    danger: true,
    run: () => api.cancel(feed.id),
    done: () => "The job is being cancelled.",
  });
}

function askStop(feed) {
  const drain = h("input", { type: "checkbox", name: "drain" });
  ask({
    title: "Stop with a savepoint",
    text: `${named(feed)} takes a savepoint and ends. Nothing is lost: it goes on from the savepoint when you restart it.`,
    fields: [field("Drain: let all windows fire first", drain, "Only for jobs that will not go on: time is moved to its end.")],
    label: "Stop job",
    danger: true,
    run: (values) => api.stop(feed.id, values.has("drain")),
    done: (result) => savepointPath("The job has stopped. Its savepoint:", result),
  });
}

function takeSavepoint(feed) {
  ask({
    title: "Take a savepoint",
    text: `${named(feed)} goes on while its state is written down.`,
    fields: [field("Comment", h("input", { type: "text", name: "comment", maxlength: "500", autocomplete: "off" }), "For you, to tell it from others later.")],
    label: "Take savepoint",
    run: (values) => api.takeSavepoint(feed.id, values.get("comment").trim()),
    done: (result) => savepointPath("The savepoint is written:", result),
  });
}

function savepointPath(words, result) {
  const path = typeof result === "string" ? result : (result?.path ?? "");
  return [h("p", {}, words), path ? copyable(path, "path of the savepoint") : null];
}

function askRescale(feed) {
  const now = feed.view.parallelism ?? 1;
  const most = feed.plan?.max_parallelism ?? 32_768;
  const number = (name, value) => h("input", { type: "number", name, min: "1", max: String(most), step: "1", value: String(value), required: true });
  const choice = (value, checked) => h("input", { type: "radio", name: "how", value, checked });
  const fixed = h("fieldset", { class: "inner deep" }, h("legend", { class: "unseen" }, "A fixed number"), field("Parallelism", number("parallelism", now)));
  const bounds = h("fieldset", { class: "inner deep", disabled: true }, h("legend", { class: "unseen" }, "Bounds"),
    field("At least", number("least", 1)), field("At most", number("most", Math.max(now, navigator.hardwareConcurrency ?? 1))));
  const chosen = (isAuto) => () => {
    fixed.disabled = isAuto;
    bounds.disabled = !isAuto;
  };
  const one = choice("fixed", true);
  const two = choice("auto", false);
  one.addEventListener("change", chosen(false));
  two.addEventListener("change", chosen(true));
  ask({
    title: "Rescale",
    text: `${named(feed)} ends behind its last epoch and starts again from there with another parallelism (now ${whole(now)}). Its output stays exact.`,
    fields: [field("A fixed number", one), fixed, field("Automatic: follow the backlog", two), bounds],
    label: "Rescale job",
    run: (values) => {
      if (values.get("how") === "fixed") return api.rescale(feed.id, { parallelism: Number(values.get("parallelism")) });
      return api.rescale(feed.id, { parallelism: "auto", least: Number(values.get("least")), most: Number(values.get("most")) });
    },
    done: () => "The job is being rescaled.",
  });
}

function askRestart(feed) {
  const places = h("div", { class: "choices" }, h("p", {}, "Reading the history of savepoints"));
  const allow = h("input", { type: "checkbox", name: "allow" });
  const dialog = ask({
    title: "Restart",
    text: feed.hasEnded
      ? `${named(feed)} starts again, from where you choose.`
      : `${named(feed)} ends behind its last epoch, and starts again from where you choose.`,
    fields: [
      h("fieldset", { class: "inner" }, h("legend", {}, "Start from"), places),
      field("Allow state that no operator takes", allow, "State of operators that the program no longer has is dropped."),
    ],
    label: "Restart job",
    run: (values) => api.restart(feed.id, values.get("savepoint") || null, values.has("allow")),
    done: () => "The job is being restarted.",
  });
  fillChoices(feed, places, dialog);
}

async function fillChoices(feed, places, dialog) {
  const choice = (value, checked) => h("input", { type: "radio", name: "savepoint", value, checked });
  const latest = field("Its last epoch", choice("", true), "The newest checkpoint: nothing is done twice.");
  try {
    const found = await api.savepoints(feed.id);
    const rows = [...found].sort((a, b) => (b.taken_ms ?? 0) - (a.taken_ms ?? 0)).map((each) => field(
      `${moment(each.taken_ms)}, epoch ${whole(each.epoch)}${each.comment ? `: ${each.comment}` : ""}`,
      choice(each.path, false),
      [each.path, typeof each.bytes === "number" ? bytes(each.bytes) : ""].filter(Boolean).join(" · "),
    ));
    replace(places, latest, rows, rows.length === 0 ? h("p", { class: "nothing" }, "No savepoints of this job yet.") : null);
  } catch (problem) {
    if (dialog.open) replace(places, latest, problemBox(problem));
  }
}

function askForget(feed) {
  ask({
    title: "Remove from the history",
    text: `${named(feed)}, its logs and its record here are removed. Savepoints outside its own folder stay.`,
    label: "Remove job",
    danger: true,
    run: () => api.forget(feed.id),
    done: () => {
      location.hash = "#/";
      return null;
    },
  });
}
