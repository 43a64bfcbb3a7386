// The dataflow: the live graph, the chosen operator in detail, and all operators as a table, which is also what a
// screen reader gets instead of the drawing.

import { h, setAttribute, setText } from "../dom.js";
import { bytes, duration, isNumber, percent, rate, watermark, whole } from "../format.js";
import { Graph } from "../graph.js";
import { facts, liveTable, meter, panel } from "../parts.js";

/** The panel; `more` is the uid of the operator to show. */
export function dataflowPanel(feed, more) {
  const to = (uid) => `#/jobs/${encodeURIComponent(feed.id)}/dataflow${uid ? `/${encodeURIComponent(uid)}` : ""}`;
  const graph = new Graph((uid) => {
    location.hash = uid === chosen ? to(null) : to(uid);
  });
  const slow = h("p", { class: "said warn", role: "status", hidden: true });
  const detail = operatorDetail(feed, to);
  const table = operatorTable(feed, to);
  const element = h("div", { class: "stack" },
    h("section", { class: "panel", "aria-label": "Dataflow graph" }, slow, graph.element),
    detail.element,
    panel("Operators", table));
  let chosen = more ?? null;

  function update() {
    const { plan, status } = feed;
    graph.show(plan?.picture ?? null);
    graph.update(status);
    graph.choose(chosen);
    const slowest = Object.entries(status.operators ?? {}).find(([, each]) => each.slowest)?.[0];
    slow.hidden = !slowest || feed.hasEnded;
    if (slowest) setText(slow, slowText(feed, slowest));
    detail.update(chosen);
    table.update((plan?.operators ?? []).map((each) => ({ ...each, now: status.operators?.[each.uid] ?? {}, chosen: each.uid === chosen })));
  }

  return {
    element,
    update,
    go(uid) {
      chosen = uid ?? null;
      update();
      if (chosen) detail.element.scrollIntoView({ block: "nearest" });
    },
    close: () => graph.close(),
  };
}

function slowText(feed, uid) {
  const { status } = feed;
  const backlog = Object.values(status.sources ?? {}).map((each) => each.lag_records).filter(isNumber);
  const waiting = backlog.length ? ` ${whole(backlog.reduce((a, b) => a + b, 0))} records wait in the sources.` : "";
  return `Slowest operator: ${feed.nameOf(uid)}, busy ${percent(status.operators[uid].busy)} of the time.${waiting}`;
}

function operatorDetail(feed, to) {
  const title = h("h2");
  const list = facts("facts dense");
  const states = h("p");
  const element = h("section", { class: "panel detail", "aria-live": "off", "aria-label": "Chosen operator", hidden: true },
    h("div", { class: "headrow" }, title, h("a", { href: to(null), class: "quiet" }, "Close")), list, states);

  function update(uid) {
    const operator = feed.plan?.operators.find((each) => each.uid === uid);
    element.hidden = !operator;
    if (!operator) return;
    setText(title, operator.name);
    list.update(pairs(operator, feed.status));
    const queryable = operator.queryable ?? [];
    states.hidden = queryable.length === 0;
    states.replaceChildren(...(queryable.length ? ["Queryable state: ", ...queryable.flatMap((name, index) => [
      index ? ", " : "", h("a", { href: `#/jobs/${encodeURIComponent(feed.id)}/state/${encodeURIComponent(name)}` }, name)])] : []));
  }

  return { element, update };
}

function pairs(operator, status) {
  const now = status.operators?.[operator.uid] ?? {};
  const source = status.sources?.[operator.uid];
  const latency = status.sinks?.[operator.uid]?.latency_ms;
  return [
    ["Kind", operator.kind], ["Uid", operator.uid], ["Written at", operator.location ?? "–"],
    ["Level", whole(operator.level)], ["Parallelism", whole(operator.parallelism)], ["Path", operator.path],
    ["Records in", `${rate(now.records_in_per_second)}, ${whole(now.records_in)} in all`],
    ["Records out", `${rate(now.records_out_per_second)}, ${whole(now.records_out)} in all`],
    ["Bytes in", `${bytes(now.bytes_in_per_second)}/s, ${bytes(now.bytes_in)} in all`],
    ["Bytes out", `${bytes(now.bytes_out_per_second)}/s, ${bytes(now.bytes_out)} in all`],
    ["Watermark", watermark(now.watermark)], ["Watermark lag", duration(now.watermark_lag_ms)],
    ["Busy", percent(now.busy)], ["Waiting", percent(now.waiting)],
    ["State", `${whole(now.state_entries)} entries, ${bytes(now.state_bytes)}`],
    ["Late records", whole(now.late)], ["Dead letters", whole(now.dead_letters)],
    ...(source ? [["Backlog", source.backlog_text || `${whole(source.lag_records)} records, ${duration(source.lag_ms)}`]] : []),
    ...(latency ? [["Latency", `p50 ${duration(latency.p50)}, p95 ${duration(latency.p95)}, p99 ${duration(latency.p99)}, max ${duration(latency.max)}`]] : []),
  ];
}

function operatorTable(feed, to) {
  const share = (kind, read) => () => {
    const bar = meter(kind);
    const box = h("span", {}, bar);
    box.update = (each) => bar.update(read(each.now));
    return box;
  };
  const table = liveTable({
    caption: "Operators and their live numbers",
    nothing: "The operators appear when the job's driver has started.",
    keyOf: (each) => each.uid,
    columns: [
      { name: "Operator", head: true, make: (each) => nameCell(each, to) },
      { name: "Level", number: true, text: (each) => whole(each.level) },
      { name: "Parallel", number: true, text: (each) => whole(each.parallelism) },
      { name: "In", number: true, text: (each) => rate(each.now.records_in_per_second) },
      { name: "Out", number: true, text: (each) => rate(each.now.records_out_per_second) },
      { name: "Bytes in", number: true, text: (each) => `${bytes(each.now.bytes_in_per_second)}/s` },
      { name: "Bytes out", number: true, text: (each) => `${bytes(each.now.bytes_out_per_second)}/s` },
      { name: "Watermark lag", number: true, text: (each) => duration(each.now.watermark_lag_ms) },
      { name: "Busy", make: share("busy", (now) => now.busy) },
      { name: "Waiting", make: share("waiting", (now) => now.waiting) },
      { name: "State", number: true, text: (each) => (each.now.state_entries ? `${whole(each.now.state_entries)} · ${bytes(each.now.state_bytes)}` : "–") },
      { name: "Late", number: true, text: (each) => whole(each.now.late) },
    ],
  });
  table.classList.add("cards", "dense");
  return table;
}

function nameCell(operator, to) {
  const link = h("a", { href: to(operator.uid) });
  const kind = h("small");
  const mark = h("span", { class: "badge", "data-tone": "warn", hidden: true }, "slowest");
  const box = h("span", { class: "opcell" }, link, mark, kind);
  box.update = (each) => {
    setText(link, each.name);
    setAttribute(link, "aria-current", each.chosen ? "true" : null);
    setText(kind, [each.kind, each.path].filter(Boolean).join(", "));
    mark.hidden = !each.now.slowest;
  };
  return box;
}
