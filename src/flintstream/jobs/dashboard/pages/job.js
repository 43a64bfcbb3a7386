// One job: what it is and how it is on top, the buttons that steer it, and a panel of its own for each question.

import { actionBar } from "../actions.js";
import { problemBox } from "../dialogs.js";
import { h, replace, setAttribute, setText } from "../dom.js";
import { Feed } from "../feed.js";
import { ago, duration, isNumber, near, rate, statusText, watermark, whole } from "../format.js";
import { configurationPanel } from "../panels/configuration.js";
import { checkpointsPanel } from "../panels/checkpoints.js";
import { dataflowPanel } from "../panels/dataflow.js";
import { exceptionsPanel } from "../panels/exceptions.js";
import { logsPanel } from "../panels/logs.js";
import { metricsPanel } from "../panels/metrics.js";
import { performancePanel } from "../panels/performance.js";
import { recordsPanel } from "../panels/records.js";
import { statePanel } from "../panels/state.js";
import { badge, tile } from "../parts.js";

const PANELS = {
  dataflow: ["Dataflow", dataflowPanel],
  performance: ["Performance", performancePanel],
  checkpoints: ["Checkpoints", checkpointsPanel],
  records: ["Late & ledger", recordsPanel],
  state: ["State", statePanel],
  metrics: ["Metrics", metricsPanel],
  exceptions: ["Exceptions", exceptionsPanel],
  logs: ["Logs", logsPanel],
  configuration: ["Configuration", configurationPanel],
};

/** The page of the job that `route.id` names, at the panel `route.panel`. */
export function jobPage(route) {
  const feed = new Feed(route.id);
  const name = h("h1", {}, "Job");
  const word = badge("");
  const crumb = h("span", { "aria-current": "page" }, route.id.slice(0, 8));
  const error = h("div", { class: "said bad", hidden: true });
  const trouble = h("div");
  const tiles = Object.fromEntries(
    ["Uptime", "Records in", "Records out", "Watermark lag", "Epoch", "Attempt", "Parallelism", "Guarantee"].map((each) => [each, tile(each, { kind: each === "Guarantee" ? "fine" : "" })]),
  );
  const actions = actionBar(feed);
  const host = h("div", { class: "panelhost" });
  const links = Object.entries(PANELS).map(([key, [title]]) => {
    const count = h("span", { class: "count", hidden: true });
    return { key, count, link: h("a", { href: `#/jobs/${encodeURIComponent(route.id)}/${key}` }, title, count) };
  });
  const nav = h("nav", { class: "tabs", "aria-label": "Parts of this job" }, links.map(({ link }) => link));
  const body = h("div", { class: "stack", hidden: true },
    h("section", { class: "jobhead", "aria-label": "Job" },
      h("div", { class: "titlerow" }, h("div", { class: "title" }, name, word), actions.element),
      error,
      h("dl", { class: "tiles small" }, Object.values(tiles))),
    nav,
    host);
  const element = h("div", { class: "stack" }, trouble, body);
  let panel = null;

  function go({ panel: wanted, more }) {
    const key = PANELS[wanted] ? wanted : "dataflow";
    for (const each of links) setAttribute(each.link, "aria-current", each.key === key ? "page" : null);
    if (panel?.key === key) {
      panel.go?.(more);
      return;
    }
    panel?.stop();
    panel?.close?.();
    panel = PANELS[key][1](feed, more);
    panel.key = key;
    replace(host, panel.element);
    panel.stop = feed.subscribe(() => feed.view && panel.update?.());
    links.find((each) => each.key === key).link.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }

  function show() {
    const { view, status, problem } = feed;
    replace(trouble, problem && problem.status !== 401 ? problemBox(problem) : "");
    if (!view) return;
    body.hidden = false;
    document.title = `${statusText(view.status)} – ${view.name} – Flintstream`;
    setText(name, view.name);
    setText(crumb, view.name);
    word.update(view.status);
    error.hidden = !view.error;
    if (view.error) setText(error, view.error);
    showTiles(tiles, view, status, feed.plan);
    actions.update();
    const failures = feed.exceptions.length;
    const { count } = links.find((each) => each.key === "exceptions");
    count.hidden = failures === 0;
    setText(count, failures === 0 ? "" : ` ${whole(failures)}`);
  }

  feed.subscribe(show);
  feed.start();
  go(route);
  const clock = setInterval(() => feed.view && show(), 1000);
  return {
    element,
    crumbs: [h("a", { href: "#/" }, "Jobs"), crumb],
    go,
    close() {
      clearInterval(clock);
      panel?.close?.();
      feed.close();
    },
  };
}

function showTiles(tiles, view, status, plan) {
  const end = view.ended_ms ?? Date.now();
  const started = view.started_ms;
  tiles.Uptime.update(
    isNumber(started) ? duration(Math.floor((end - started) / 1000) * 1000) : "waiting",
    isNumber(started) ? `since ${near(started)}` : `submitted ${ago(view.submitted_ms)}`,
  );
  tiles["Records in"].update(rate(status.records_in_per_second), `${whole(status.records_in)} in all`);
  tiles["Records out"].update(rate(status.records_out_per_second), `${whole(status.records_out)} in all`);
  tiles["Watermark lag"].update(duration(status.watermark_lag_ms), watermark(status.watermark));
  tiles.Epoch.update(whole(status.epoch), isNumber(status.epoch_seconds) ? `last took ${duration(status.epoch_seconds * 1000)}` : "");
  tiles.Attempt.update(whole(view.attempt), view.restarts === 1 ? "1 restart" : `${whole(view.restarts)} restarts`);
  tiles.Parallelism.update(whole(view.parallelism), view.scaling && view.scaling !== "manual" ? view.scaling : "");
  const level = plan?.guarantee?.level ?? view.guarantee;
  tiles.Guarantee.update(level ?? "–", plan ? `on ${plan.runtime}${plan.master ? `, ${plan.master}` : ""}` : "");
  tiles.Guarantee.title = plan?.guarantee?.text ?? "";
}
