// Where records went: those that came too late, those that failed, and the ledger, which proves that each edge of the
// graph received exactly what was sent to it.

import { Chart } from "../charts.js";
import { h, setText } from "../dom.js";
import { compact, duration, whole } from "../format.js";
import { liveTable, panel, tile } from "../parts.js";
import { overEpochs } from "../series.js";

export function recordsPanel(feed) {
  const tiles = { late: tile("Late records"), dead: tile("Dead letters"), skew: tile("Event-time skew"), ledger: tile("Ledger") };
  const chart = new Chart({ title: "Late records", format: compact, note: "Of each epoch" });
  const operators = liveTable({
    caption: "Late records and dead letters of each operator",
    nothing: "No operator has dropped a record.",
    keyOf: (each) => each.uid,
    columns: [
      { name: "Operator", head: true, text: (each) => each.name },
      { name: "Late", number: true, text: (each) => whole(each.late) },
      { name: "Dead letters", number: true, text: (each) => whole(each.dead_letters) },
    ],
  });
  const word = h("p");
  const ledger = liveTable({
    caption: "Ledger: records sent and received on each edge",
    nothing: "No edge has carried records between levels yet.",
    keyOf: (each) => each.edge,
    columns: [
      { name: "Edge", head: true, text: (each) => each.name },
      { name: "Sent", number: true, text: (each) => whole(each.sent) },
      { name: "Received", number: true, text: (each) => whole(each.received) },
      { name: "Balance", text: (each) => (each.sent === each.received ? "even" : `${whole(each.received - each.sent)}`) },
    ],
  });
  const element = h("div", { class: "stack" },
    h("dl", { class: "tiles small" }, Object.values(tiles)),
    h("div", { class: "columns" }, chart.element, panel("By operator", operators)),
    panel("Ledger", word, ledger));

  function update() {
    const { epochs, plan, status } = feed;
    const edges = (status.ledger?.edges ?? []).map((each) => ({ ...each, name: `${feed.nameOf(each.from)} to ${feed.nameOf(each.to)}` }));
    const uneven = edges.filter((each) => each.sent !== each.received).length;
    tiles.late.update(whole(status.late));
    tiles.dead.update(whole(status.dead_letters));
    tiles.skew.update(duration(status.event_time_skew_ms));
    tiles.ledger.update(edges.length === 0 ? "–" : uneven === 0 ? "even" : `${uneven} uneven`, edges.length ? `${edges.length} ${edges.length === 1 ? "edge" : "edges"}` : "");
    setText(word, "An epoch is committed only if each edge received what was sent on it.");
    chart.update([{ name: "late", points: overEpochs(epochs, (each) => each.late) }]);
    operators.update((plan?.operators ?? [])
      .map((each) => ({ uid: each.uid, name: each.name, late: 0, dead_letters: 0, ...pick(status.operators?.[each.uid]) }))
      .filter((each) => each.late > 0 || each.dead_letters > 0));
    ledger.update(edges);
  }

  return { element, update, close: () => chart.close() };
}

const pick = (numbers) => ({ late: numbers?.late ?? 0, dead_letters: numbers?.dead_letters ?? 0 });
