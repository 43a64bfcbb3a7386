// Checkpoints: every epoch is one. How large, how long, how old; and the savepoints that were taken.

import * as api from "../api.js";
import { Chart } from "../charts.js";
import { copyable, problemBox } from "../dialogs.js";
import { h, replace } from "../dom.js";
import { ago, bytes, duration, isNumber, moment, whole } from "../format.js";
import { liveTable, panel, tile } from "../parts.js";
import { highest, overEpochs } from "../series.js";

const SHOWN = 50;
const REREAD_MS = 5000;

export function checkpointsPanel(feed) {
  const tiles = { age: tile("Newest checkpoint"), size: tile("Written by it"), total: tile("All state"), took: tile("It took") };
  const sizes = new Chart({ title: "Size", format: bytes, base: 1024, note: "Written by an epoch, and all that is kept" });
  const times = new Chart({ title: "Duration", format: duration, note: "Of an epoch, its commit included" });
  const table = liveTable({
    caption: `The last ${SHOWN} checkpoints, newest first`,
    nothing: "No epoch has been committed yet.",
    keyOf: (each) => `${each.epoch} ${each.committed_ms}`,
    columns: [
      { name: "Epoch", head: true, number: true, text: (each) => whole(each.epoch) },
      { name: "Committed", text: (each) => moment(each.committed_ms) },
      { name: "Took", number: true, text: (each) => (isNumber(each.seconds) ? duration(each.seconds * 1000) : "–") },
      { name: "Written", number: true, text: (each) => bytes(each.bytes) },
      { name: "All state", number: true, text: (each) => bytes(each.total_bytes) },
      { name: "Entries", number: true, text: (each) => whole(each.state_entries) },
      { name: "Records in", number: true, text: (each) => whole(each.records_in) },
      { name: "Records out", number: true, text: (each) => whole(each.records_out) },
    ],
  });
  table.classList.add("tall");
  const savepoints = savepointTable();
  const trouble = h("div");
  const place = h("p", { class: "place" });
  const element = h("div", { class: "stack" },
    h("dl", { class: "tiles small" }, Object.values(tiles)),
    h("div", { class: "columns" }, sizes.element, times.element),
    panel("Savepoints", trouble, savepoints),
    panel("Checkpoints", place, table));

  async function readSavepoints() {
    try {
      savepoints.update([...(await api.savepoints(feed.id))].sort((a, b) => (b.taken_ms ?? 0) - (a.taken_ms ?? 0)));
      replace(trouble);
    } catch (problem) {
      if (problem.status !== 0) replace(trouble, problemBox(problem));
    }
  }

  function update() {
    const { epochs, status, view } = feed;
    const newest = status.checkpoint ?? {};
    const last = epochs.at(-1) ?? {};
    const seconds = newest.seconds ?? last.seconds;
    tiles.age.update(ago(newest.committed_ms ?? last.committed_ms), `epoch ${whole(newest.epoch ?? last.epoch)}`);
    tiles.size.update(bytes(newest.bytes ?? last.bytes));
    tiles.total.update(bytes(newest.total_bytes ?? last.total_bytes), `${whole(last.state_entries)} entries`);
    tiles.took.update(isNumber(seconds) ? duration(seconds * 1000) : "–");
    sizes.update([
      { name: "written", points: overEpochs(epochs, (each) => each.bytes, highest) },
      { name: "all state", points: overEpochs(epochs, (each) => each.total_bytes, highest) },
    ]);
    times.update([{ name: "epoch", points: overEpochs(epochs, (each) => (isNumber(each.seconds) ? each.seconds * 1000 : null), highest) }]);
    table.update(epochs.slice(-SHOWN).reverse());
    if (view.checkpoint_dir && place.dataset.path !== view.checkpoint_dir) {
      place.dataset.path = view.checkpoint_dir;
      replace(place, "In ", copyable(view.checkpoint_dir, "path of the checkpoints"));
    }
  }

  readSavepoints();
  const timer = setInterval(readSavepoints, REREAD_MS);
  return {
    element,
    update,
    close() {
      clearInterval(timer);
      sizes.close();
      times.close();
    },
  };
}

function savepointTable() {
  return liveTable({
    caption: "Savepoints of this job, newest first",
    nothing: "No savepoint was taken yet. The button “Take savepoint” takes one while the job goes on.",
    keyOf: (each) => each.path,
    columns: [
      { name: "Taken", head: true, text: (each) => moment(each.taken_ms) },
      { name: "Epoch", number: true, text: (each) => whole(each.epoch) },
      { name: "Size", number: true, text: (each) => bytes(each.bytes) },
      { name: "Comment", text: (each) => [each.comment, ...(each.tags ?? [])].filter(Boolean).join(", ") || "–" },
      { name: "Path", make: (each) => copyable(each.path, "path of the savepoint") },
    ],
  });
}
