// All jobs of this manager: how many run, how fast, on how many slots; and who the manager is.

import * as api from "../api.js";
import { sparkline } from "../charts.js";
import { problemBox } from "../dialogs.js";
import { announce, h, keyed, replace, setAttribute, setText } from "../dom.js";
import { ago, duration, hasEnded, isNumber, moment, rate, statusText, tone, whole } from "../format.js";
import { follow, showConnection } from "../live.js";
import { badge, facts, liveTable, panel, tile } from "../parts.js";

const MOST_POINTS = 90;
const RETRY_MS = 2000;

/** The page of all jobs. */
export function overviewPage() {
  document.title = "Jobs – Flintstream";
  const history = new Map();
  const total = [];
  const statuses = new Map();
  let filter = "";
  let latest = { overview: {}, jobs: null };

  const tiles = {
    running: tile("Running jobs"),
    slots: tile("Slots in use"),
    workers: tile("Task managers"),
    rate: tile("Records in", { kind: "wide" }),
  };
  const totalLine = h("dd", { class: "sparkbox" });
  tiles.rate.append(totalLine);
  const search = h("input", { type: "search", placeholder: "Name or id", "aria-label": "Show jobs by name or id", oninput: () => { filter = search.value.trim().toLowerCase(); show(); } });
  const searchBox = h("div", { class: "searchbox", hidden: true }, search);
  const counts = h("ul", { class: "counts", "aria-label": "Jobs by status" });
  const active = jobTable("Jobs at work", "No job is at work.", history, false);
  const ended = jobTable("Jobs that have ended", "No job has ended yet.", history, true);
  const endedBox = panel("Ended", ended);
  const first = emptyState();
  const managerFacts = facts();
  const workerTable = liveTable({
    caption: "Task managers",
    nothing: "No task manager has reported yet.",
    keyOf: (each) => each.id,
    columns: [
      { name: "Task manager", head: true, text: (each) => each.id },
      { name: "Host", text: (each) => each.host ?? "–" },
      { name: "Cores", number: true, text: (each) => whole(each.cores) },
      { name: "Slots", number: true, text: (each) => whole(each.slots) },
      { name: "Free", number: true, text: (each) => whole(each.free) },
    ],
  });
  const roles = facts();
  const rolesBox = panel("Who is who, in Flink's words", roles);
  const trouble = h("div");
  const jobsBox = h("div", { class: "stack" }, h("div", { class: "headrow" }, h("h2", {}, "Jobs"), counts, searchBox), panel("At work", active), endedBox);
  const element = h(
    "div",
    { class: "stack" },
    h("h1", { class: "unseen" }, "All jobs"),
    trouble,
    h("dl", { class: "tiles" }, tiles.running, tiles.slots, tiles.workers, tiles.rate),
    first,
    jobsBox,
    h("div", { class: "columns" }, panel("Manager", managerFacts), panel("Workers", workerTable)),
    rolesBox,
  );

  function take(data) {
    latest = { overview: data.overview ?? latest.overview, jobs: data.jobs ?? latest.jobs };
    replace(trouble);
    let sum = 0;
    for (const job of latest.jobs ?? []) {
      const now = job.status_now?.records_in_per_second;
      const points = history.get(job.id) ?? [];
      points.push(isNumber(now) && !hasEnded(job.status) ? now : null);
      history.set(job.id, points.slice(-MOST_POINTS));
      if (isNumber(now) && !hasEnded(job.status)) sum += now;
      const before = statuses.get(job.id);
      if (before && before !== job.status) announce(`Job ${job.name}: ${statusText(job.status)}`);
      statuses.set(job.id, job.status);
    }
    total.push(latest.overview.records_in_per_second ?? sum);
    total.splice(0, total.length - MOST_POINTS);
    show();
  }

  function show() {
    const { overview, jobs } = latest;
    if (jobs === null) return;
    const matches = (job) => job.name.toLowerCase().includes(filter) || job.id.startsWith(filter);
    const shown = [...jobs].sort((a, b) => b.submitted_ms - a.submitted_ms).filter(matches);
    active.update(shown.filter((job) => !hasEnded(job.status)));
    ended.update(shown.filter((job) => hasEnded(job.status)));
    endedBox.hidden = !jobs.some((job) => hasEnded(job.status));
    searchBox.hidden = jobs.length < 6 && filter === "";
    first.hidden = jobs.length > 0;
    jobsBox.hidden = jobs.length === 0;
    keyed(counts, countsOf(jobs), ([status]) => status, countBadge);
    const waiting = jobs.filter((job) => job.status === "CREATED").length;
    const running = jobs.filter((job) => job.status === "RUNNING").length;
    tiles.running.update(whole(running), waiting ? `${waiting} waiting for a slot` : `${jobs.length} known`);
    const slots = overview.slots ?? {};
    tiles.slots.update(`${whole(slots.used)} of ${whole(slots.total)}`);
    const workers = overview.task_managers ?? [];
    tiles.workers.update(whole(workers.length));
    tiles.rate.update(rate(total.at(-1)));
    replace(totalLine, sparkline(total, 240, 34));
    workerTable.update(workers);
    managerFacts.update(managerPairs(overview));
    roles.update(Object.entries(overview.roles ?? {}));
    rolesBox.hidden = !overview.roles;
  }

  let stream = null;
  let isClosed = false;

  async function start() {
    try {
      const [overview, jobs] = await Promise.all([api.overview(), api.jobs()]);
      take({ overview, jobs });
    } catch (problem) {
      if (problem.status === 401 || isClosed) return;
      replace(trouble, problemBox(problem));
      showConnection(problem.status === 0 ? "lost" : "live");
      setTimeout(() => isClosed || start(), RETRY_MS);
      return;
    }
    if (isClosed) return;
    stream = follow(api.eventsPath(null), ["overview"], {
      onUp: () => showConnection("live"),
      onDown: () => showConnection("lost"),
      onEvent: (_, data) => take(data),
    });
  }

  start();
  const clock = setInterval(show, 1000);

  return {
    element,
    close() {
      isClosed = true;
      stream?.close();
      clearInterval(clock);
    },
  };
}

function countsOf(jobs) {
  const counts = new Map();
  for (const { status } of jobs) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a.localeCompare(b));
}

function countBadge([status]) {
  const word = h("span", { class: "badge", "data-tone": tone(status) });
  const item = h("li", {}, word);
  item.update = ([, count]) => setText(word, `${whole(count)} ${statusText(status)}`);
  return item;
}

function managerPairs(overview) {
  const leader = overview.leader ?? {};
  return [
    ["Version", overview.version ?? "–"],
    ["Leader", leader.url ?? "–"],
    ["Running since", moment(overview.started_ms)],
    ["This manager", overview.is_leader === false ? "stands by, and takes over if the leader dies" : "leads"],
    ["Spark", overview.spark ?? "–"],
    ["Python", overview.python ?? "–"],
  ].filter(([, text]) => text !== "–");
}

function emptyState() {
  return h(
    "section",
    { class: "panel welcome", hidden: true },
    h("h2", {}, "No jobs yet"),
    h("p", {}, "A job that you submit shows up here at once. In a terminal:"),
    h("pre", {}, "flintstream run --detached app.py\nflintstream demo"),
  );
}

function jobTable(caption, nothing, history, isPast) {
  const past = [
    { name: "Ended", text: (job) => moment(job.ended_ms) },
    { name: "Ran for", text: (job) => (isNumber(job.started_ms) ? duration((job.ended_ms ?? Date.now()) - job.started_ms) : "–") },
    { name: "Why", text: (job) => (job.error ?? "").split("\n")[0].slice(0, 200) || "–" },
  ];
  const present = [
    { name: "Records in", number: true, make: (job) => rateCell(job, history) },
    { name: "Records out", number: true, text: (job) => rate(job.status_now?.records_out_per_second) },
    { name: "Epoch", number: true, text: (job) => whole(job.status_now?.epoch) },
    { name: "Watermark lag", number: true, text: (job) => duration(job.status_now?.watermark_lag_ms) },
    { name: "Parallelism", number: true, text: (job) => whole(job.parallelism) },
    { name: "Restarts", number: true, text: (job) => whole(job.restarts) },
    { name: "Running for", text: (job) => (isNumber(job.started_ms) ? duration(Math.floor((Date.now() - job.started_ms) / 1000) * 1000) : `waits since ${ago(job.submitted_ms)}`) },
  ];
  const table = liveTable({
    caption,
    nothing,
    keyOf: (job) => job.id,
    columns: [
      { name: "Job", head: true, make: nameCell },
      { name: "Status", make: (job) => { const word = badge(job.status); const box = h("span", {}, word); box.update = (now) => word.update(now.status); return box; } },
      ...(isPast ? past : present),
    ],
  });
  table.classList.add("cards");
  return table;
}

function nameCell(job) {
  const link = h("a", { href: `#/jobs/${encodeURIComponent(job.id)}`, class: "jobname" });
  const id = h("small", { class: "mono" }, job.id.slice(0, 8));
  const box = h("span", { class: "jobcell" }, link, id);
  box.update = (now) => {
    setText(link, now.name);
    setAttribute(link, "title", now.name);
  };
  return box;
}

function rateCell(job, history) {
  const text = h("b");
  const line = h("span", { class: "sparkbox" });
  const box = h("span", { class: "ratecell" }, line, text);
  let drawn = "";
  box.update = (now) => {
    setText(text, rate(now.status_now?.records_in_per_second));
    const points = history.get(now.id) ?? [];
    const stamp = points.join(" ");
    if (stamp === drawn) return;
    drawn = stamp;
    replace(line, sparkline(points, 96, 24));
  };
  return box;
}
