// The dataflow graph: the picture that the planner drew, made live. The numbers of the newest status go into the texts
// that the picture keeps for them, boxes can be chosen by pointer and keyboard, and the slowest operator is marked.

import { h, setAttribute, setText } from "./dom.js";
import { bytes, compact, duration, isNumber, percent, rate, watermark } from "./format.js";

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const NEAR_MS = 20 * 3_600_000;
const ELEMENTS = new Set(["svg", "g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "title", "desc", "defs", "marker"]);
const ATTRIBUTES = /^(class|d|x|y|x1|x2|y1|y2|cx|cy|r|rx|ry|dx|dy|width|height|points|transform|viewBox|data-[a-z-]+|role|id|text-anchor|orient|ref[XY]|marker(Width|Height|-end|Units)|aria-[a-z]+)$/;
const SMALLEST_FIT = 0.72;

/** Read a picture, and keep of it only shapes and texts: whatever else a file may hold does not reach the page. */
export function safePicture(text) {
  // Its own style sheet would be refused by the page's policy, with a complaint: it goes before anything is parsed.
  const bare = text.replace(/<style[^>]*>[^<]*<\/style>/g, "");
  const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  if (root.localName !== "svg") return null;
  return cleaned(root);
}

function cleaned(element) {
  const copy = document.createElementNS("http://www.w3.org/2000/svg", element.localName);
  for (const { name, value } of element.attributes) {
    if (ATTRIBUTES.test(name) && !/url\(\s*['"]?(?!#)/i.test(value)) copy.setAttribute(name, value);
  }
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) copy.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE && ELEMENTS.has(child.localName)) copy.append(cleaned(child));
  }
  return copy;
}

/** What a live text of the picture says. */
export function fieldText(field, value) {
  if (field === "watermark") {
    if (!isNumber(value)) return "";
    if (Math.abs(value) >= 8.64e15) return watermark(value);
    return (Math.abs(Date.now() - value) < NEAR_MS ? CLOCK : DAY).format(new Date(value));
  }
  if (!isNumber(value)) return "";
  if (field === "busy" || field === "waiting") return percent(value);
  if (field.endsWith("_ms") || field.startsWith("latency_")) return duration(value);
  if (field.startsWith("bytes_")) return `${bytes(value, true)}/s`;
  if (field.endsWith("_per_second")) return rate(value);
  return field.includes("bytes") ? bytes(value) : compact(value);
}

function valueOf(status, uid, field) {
  if (field.startsWith("lag_")) return status.sources?.[uid]?.[field];
  if (field.startsWith("latency_")) return status.sinks?.[uid]?.latency_ms?.[field.slice("latency_".length)];
  return status.operators?.[uid]?.[field];
}

/** The live graph. `show(picture)` draws another plan, `update(status)` fills in numbers. */
export class Graph {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.text = undefined;
    this.chosen = null;
    this.fits = null;
    this.size = h("button", { type: "button", class: "quiet small", onclick: () => this.toggle() }, "Actual size");
    this.frame = h("div", { class: "graphframe" });
    this.element = h("div", { class: "graphbox" }, this.frame, h("div", { class: "graphtools" }, this.size));
    this.watcher = new ResizeObserver(() => this.fit());
    this.watcher.observe(this.frame);
  }

  close() {
    this.watcher.disconnect();
  }

  show(picture) {
    if (picture === this.text) return;
    this.text = picture;
    this.svg = picture ? safePicture(picture) : null;
    if (!this.svg) {
      this.frame.replaceChildren(h("p", { class: "nothing" }, "The graph appears when the job's driver has started."));
      this.size.hidden = true;
      return;
    }
    this.natural = Number(this.svg.getAttribute("width")) || 800;
    setAttribute(this.svg, "role", "group");
    setAttribute(this.svg, "aria-roledescription", "dataflow graph");
    this.boxes = new Map();
    for (const box of this.svg.querySelectorAll("g.fs-operator[data-uid]")) this.prepare(box);
    this.texts = [...this.svg.querySelectorAll("text[data-uid][data-field]")];
    this.frame.replaceChildren(this.svg);
    this.fit();
  }

  prepare(box) {
    const uid = box.dataset.uid;
    this.boxes.set(uid, box);
    setAttribute(box, "role", "button");
    setAttribute(box, "tabindex", "0");
    setAttribute(box, "aria-pressed", "false");
    box.addEventListener("click", () => this.onChoose(uid));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.onChoose(uid);
    });
  }

  toggle() {
    this.fits = !this.fitsNow();
    this.fit();
  }

  fitsNow() {
    return this.fits ?? this.frame.clientWidth >= this.natural * SMALLEST_FIT;
  }

  /** Shrink the picture to the page, unless its letters would become too small: then it scrolls. */
  fit() {
    if (!this.svg) return;
    const room = this.frame.clientWidth;
    const needless = room >= this.natural;
    this.size.hidden = needless;
    setAttribute(this.svg, "class", this.fitsNow() || needless ? "fs-graph fits" : "fs-graph");
    setText(this.size, this.fitsNow() ? "Actual size" : "Fit to width");
  }

  choose(uid) {
    this.chosen = uid;
    for (const [each, box] of this.boxes ?? []) {
      box.classList.toggle("chosen", each === uid);
      setAttribute(box, "aria-pressed", String(each === uid));
    }
  }

  update(status) {
    if (!this.svg) return;
    for (const text of this.texts) {
      setText(text, fieldText(text.dataset.field, valueOf(status, text.dataset.uid, text.dataset.field)));
    }
    for (const [uid, box] of this.boxes) {
      const numbers = status.operators?.[uid] ?? {};
      box.classList.toggle("fs-slow", Boolean(numbers.slowest));
      setAttribute(box, "data-load", numbers.busy > 0.9 ? "high" : numbers.busy > 0.7 ? "mid" : "low");
      setAttribute(box, "aria-label", this.spoken(box, uid, numbers));
    }
  }

  spoken(box, uid, numbers) {
    const name = (box.querySelector("title")?.textContent ?? uid).split("\n")[0];
    const slow = numbers.slowest ? ", the slowest operator" : "";
    return `${name}: ${rate(numbers.records_in_per_second)} in, ${rate(numbers.records_out_per_second)} out, ${percent(numbers.busy)} busy${slow}`;
  }
}
