// The metrics that the user's own functions keep: counters, gauges, meters, histograms.

import { h } from "../dom.js";
import { isNumber, plain } from "../format.js";
import { liveTable, panel } from "../parts.js";

const ORDER = ["rate", "count", "sum", "min", "mean", "p50", "p95", "p99", "max"];

export function metricsPanel(feed) {
  const table = liveTable({
    caption: "Metrics of the program's own functions",
    nothing: "The program registers no metrics. A function gets them from its runtime context: ctx.get_metrics_group().counter(\"seen\").",
    keyOf: (each) => `${each.uid} ${each.name}`,
    columns: [
      { name: "Metric", head: true, text: (each) => each.name },
      { name: "Kind", text: (each) => each.value?.kind ?? "counter" },
      { name: "Operator", text: (each) => each.operator },
      { name: "Value", number: true, text: (each) => inWords(each.value) },
    ],
  });
  const element = h("div", { class: "stack" }, panel("Metrics of the program", table),
    h("p", { class: "nothing" }, "All metrics, these and the system's, are also at ", h("a", { href: "v1/metrics" }, "v1/metrics"), " for Prometheus."));

  function update() {
    const rows = Object.entries(feed.status.metrics ?? {}).flatMap(([uid, values]) =>
      Object.entries(values ?? {}).map(([name, value]) => ({ uid, name, value, operator: feed.nameOf(uid) })));
    rows.sort((a, b) => a.operator.localeCompare(b.operator) || a.name.localeCompare(b.name));
    table.update(rows);
  }

  return { element, update };
}

function inWords(value) {
  if (value === null || typeof value !== "object") return plain(value);
  if (value.kind === "gauge") {
    const each = Object.entries(value.values ?? {});
    return each.length === 1 ? plain(each[0][1]) : each.map(([subtask, number]) => `${plain(number)} (subtask ${subtask})`).join(", ");
  }
  return ORDER.filter((name) => isNumber(value[name])).map((name) => `${name} ${plain(value[name])}`).join(", ");
}
