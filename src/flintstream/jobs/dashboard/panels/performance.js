// How fast: throughput, latency from receipt to visible output per sink, lag and backlog, memory; each over time.

import { Chart } from "../charts.js";
import { h, keyed } from "../dom.js";
import { bytes, compact, duration, rate, whole } from "../format.js";
import { liveTable, panel } from "../parts.js";
import { highest, overEpochs, rates, thin } from "../series.js";

const PERCENTILES = ["p50", "p95", "p99", "max"];

export function performancePanel(feed) {
  const throughput = new Chart({ title: "Throughput", format: rate, note: "Records a second, over the last 5 s" });
  const lag = new Chart({ title: "Watermark lag and backlog age", format: duration, note: "While this page is open" });
  const memory = new Chart({ title: "Memory", format: bytes, base: 1024, note: "While this page is open" });
  const latencies = new Map();
  const sinks = h("div", { class: "columns contents" });
  const sources = liveTable({
    caption: "Backlog of sources",
    nothing: "No source has reported yet.",
    keyOf: (each) => each.uid,
    columns: [
      { name: "Source", head: true, text: (each) => each.name },
      { name: "Records waiting", number: true, text: (each) => whole(each.lag_records) },
      { name: "Age of the oldest", number: true, text: (each) => duration(each.lag_ms) },
      { name: "In words", text: (each) => each.backlog_text || "–" },
    ],
  });
  const latencyTable = liveTable({
    caption: "Latency of sinks, newest values",
    nothing: "No sink has shown output yet.",
    keyOf: (each) => each.uid,
    columns: [
      { name: "Sink", head: true, text: (each) => each.name },
      ...["p50", "p95", "p99", "max", "mean"].map((name) => ({ name, number: true, text: (each) => duration(each.latency?.[name]) })),
      { name: "Records", number: true, text: (each) => compact(each.latency?.count) },
    ],
  });
  const element = h("div", { class: "stack" },
    h("div", { class: "columns charts" }, throughput.element, sinks, lag.element, memory.element),
    panel("Latency, from receipt of an event to its visible output", latencyTable),
    panel("Backlog", sources));

  function latencyChart(uid) {
    const chart = new Chart({ title: `Latency of ${feed.nameOf(uid)}`, format: duration, note: "From receipt of an event to its visible output" });
    latencies.set(uid, chart);
    chart.element.update = () => chart.update(PERCENTILES.map((name) => ({
      name,
      points: overEpochs(feed.epochs.filter((each) => each.latency_ms?.[uid]), (each) => each.latency_ms[uid][name], highest),
    })));
    return chart.element;
  }

  function update() {
    const { epochs, samples, status } = feed;
    throughput.update([
      { name: "in", points: rates(epochs, "records_in") },
      { name: "out", points: rates(epochs, "records_out") },
    ]);
    const uids = new Set(epochs.flatMap((each) => Object.keys(each.latency_ms ?? {})));
    keyed(sinks, [...uids].sort(), (uid) => uid, latencyChart);
    const over = (read) => thin(samples.map((each) => [each.at, read(each) ?? null]));
    lag.update([
      { name: "watermark lag", points: over((each) => each.lag) },
      ...Object.keys(status.sources ?? {}).map((uid) => ({ name: `backlog of ${feed.nameOf(uid)}`, points: over((each) => each.sources?.[uid]?.lag_ms) })),
    ]);
    memory.update([
      { name: "driver", points: over((each) => each.memory?.driver_bytes) },
      { name: "workers", points: over((each) => each.memory?.workers_bytes) },
      { name: "JVM", points: over((each) => each.memory?.jvm_bytes) },
    ]);
    sources.update(Object.entries(status.sources ?? {}).map(([uid, each]) => ({ uid, name: feed.nameOf(uid), ...each })));
    latencyTable.update(Object.entries(status.sinks ?? {}).map(([uid, each]) => ({ uid, name: feed.nameOf(uid), latency: each.latency_ms })));
  }

  return {
    element,
    update,
    close() {
      for (const chart of [throughput, lag, memory, ...latencies.values()]) chart.close();
    },
  };
}
