// Everything the page knows of one job, kept fresh by the manager's events. Panels read it and are told of changes;
// they never ask the manager for these things themselves, so switching panels costs nothing.

import * as api from "./api.js";
import { announce } from "./dom.js";
import { hasEnded, isNumber, statusText } from "./format.js";
import { follow, showConnection } from "./live.js";

const MOST_EPOCHS = 2000;
const MOST_SAMPLES = 900;
const RETRY_MS = 2000;

export class Feed {
  constructor(id) {
    this.id = id;
    this.view = null;
    this.status = {};
    this.plan = null;
    this.planOf = null;
    this.epochs = [];
    this.samples = [];
    this.exceptions = [];
    this.problem = null;
    this.listeners = new Set();
    this.busy = new Set();
    this.again = new Set();
  }

  /** Call `react(feed)` now and at every change; returns how to stop that. */
  subscribe(react) {
    this.listeners.add(react);
    react(this);
    return () => this.listeners.delete(react);
  }

  tell() {
    for (const react of [...this.listeners]) react(this);
  }

  async start() {
    try {
      this.view = await api.job(this.id);
    } catch (problem) {
      this.problem = problem;
      showConnection(problem.status === 0 ? "lost" : problem.status === 401 ? "token" : "live");
      this.tell();
      if (problem.status === 0 && !this.closed) setTimeout(() => this.closed || this.start(), RETRY_MS);
      return;
    }
    this.problem = null;
    this.tell();
    if (this.closed) return;
    this.refreshAll();
    this.stream = follow(api.eventsPath(this.id), ["status", "gone"], {
      onUp: () => showConnection("live"),
      onDown: () => showConnection("lost"),
      onEvent: (name, data) => (name === "gone" ? this.leave(data) : this.take(data)),
    });
  }

  close() {
    this.closed = true;
    this.stream?.close();
    this.listeners.clear();
  }

  /** The job was removed from the history. */
  leave(problem) {
    this.stream?.close();
    this.problem = problem;
    this.tell();
  }

  take({ job, status }) {
    const before = this.view?.status;
    const attempt = this.attemptKey();
    const epoch = this.newestEpoch();
    if (job) this.view = job;
    if (status) this.status = status;
    this.sample();
    const isOther = this.attemptKey() !== attempt;
    if (this.view.status !== before) announce(`Job ${this.view.name}: ${statusText(this.view.status)}`);
    if (this.view.status !== before || isOther) this.refresh("exceptions", () => this.loadExceptions());
    if (isOther || this.plan === null || this.mayHaveNewNames(epoch)) this.refresh("plan", () => this.loadPlan());
    // A job that starts from an older savepoint counts its epochs from there again.
    if (isOther) this.epochs = [];
    if (isOther || this.newestEpoch() !== epoch) this.refresh("epochs", () => this.loadEpochs());
    this.tell();
  }

  attemptKey() {
    return `${this.view?.attempt} ${this.view?.restarts} ${this.status.attempt}`;
  }

  /** Which states can be queried is known when the first epochs are done. */
  mayHaveNewNames(before) {
    const now = this.newestEpoch();
    return now !== before && (now ?? 0) - (this.firstEpoch ??= now ?? 0) < 10;
  }

  newestEpoch() {
    return this.status.checkpoint?.epoch ?? this.status.epoch;
  }

  sample() {
    const { updated_ms: at } = this.status;
    if (!isNumber(at) || at === this.samples.at(-1)?.at) return;
    const { watermark_lag_ms: lag, memory, sources } = this.status;
    this.samples.push({ at, lag, memory, sources });
    if (this.samples.length > MOST_SAMPLES) this.samples.splice(0, this.samples.length - MOST_SAMPLES);
  }

  refreshAll() {
    this.refresh("plan", () => this.loadPlan());
    this.refresh("epochs", () => this.loadEpochs());
    this.refresh("exceptions", () => this.loadExceptions());
  }

  /** Load something once at a time; wishes that come meanwhile are one more round. What is not there yet is no error. */
  async refresh(what, load) {
    if (this.busy.has(what)) {
      this.again.add(what);
      return;
    }
    this.busy.add(what);
    try {
      await load();
      if (!this.closed) this.tell();
    } catch {
      // the connection's own banner tells of a manager that is away
    } finally {
      this.busy.delete(what);
    }
    if (this.again.delete(what) && !this.closed) this.refresh(what, load);
  }

  async loadPlan() {
    const plan = await api.plan(this.id);
    this.plan = plan && plan.operators ? plan : null;
  }

  async loadEpochs() {
    const known = this.epochs;
    const last = known.at(-1);
    const fresh = await api.epochs(this.id, last?.epoch);
    if (this.epochs !== known) return; // another attempt began meanwhile
    const news = last ? fresh.filter((each) => each.epoch > last.epoch && each.committed_ms >= last.committed_ms) : fresh;
    this.epochs = [...known, ...news].sort((a, b) => a.committed_ms - b.committed_ms).slice(-MOST_EPOCHS);
  }

  async loadExceptions() {
    this.exceptions = await api.exceptions(this.id);
  }

  get hasEnded() {
    return hasEnded(this.view?.status);
  }

  /** The name of an operator by its uid. */
  nameOf(uid) {
    return this.plan?.operators.find((each) => each.uid === uid)?.name ?? uid;
  }
}
