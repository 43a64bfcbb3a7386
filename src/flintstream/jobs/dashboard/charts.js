// Lines over time, drawn as SVG by hand. A chart is one <figure>: its title, a legend with the newest values, the
// drawing (the pointer or the arrow keys read a moment from it), and the same numbers as a table on demand.

import { freshId, h, keyed, replace, s, setAttribute, setText } from "./dom.js";
import { clock, isNumber } from "./format.js";

const HEIGHT = 180;
const MARGIN = { top: 10, right: 12, bottom: 22, left: 58 };
const TABLE_ROWS = 60;

/** Round numbers that cover 0 to `top` in a few steps. */
export function ticks(top, count = 4, base = 10) {
  if (!(top > 0)) return [0, 1];
  if (base === 1024 && top >= 1024) {
    const unit = 1024 ** Math.floor(Math.log2(top) / 10);
    return ticks(top / unit, count).map((mark) => mark * unit);
  }
  const rough = top / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((each) => each >= rough);
  const marks = [];
  for (let mark = 0; mark < top + step * 0.999; mark += step) marks.push(Number(mark.toPrecision(12)));
  return marks;
}

/** The path of a line through points; a gap where a value is missing. */
export function path(points, x, y) {
  let text = "";
  let pen = "M";
  for (const [at, value] of points) {
    if (!isNumber(value)) {
      pen = "M";
      continue;
    }
    text += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

/** A small line without axes. `aria-hidden`: the number stands next to it. */
export function sparkline(values, width = 120, height = 28) {
  const shown = values.filter(isNumber);
  const top = Math.max(1e-9, ...shown);
  const x = (index) => (values.length < 2 ? width : (index / (values.length - 1)) * (width - 2) + 1);
  const y = (value) => height - 2 - (value / top) * (height - 4);
  const points = values.map((value, index) => [index, value]);
  const line = path(points, x, y);
  const ends = [values.findIndex(isNumber), values.findLastIndex(isNumber)].map(x);
  const area = shown.length > 1 ? `${line}L${ends[1]} ${height}L${ends[0]} ${height}Z` : "";
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", preserveAspectRatio: "none" },
    s("path", { class: "area", d: area }),
    s("path", { class: "line", d: line }),
  );
}

/** A chart of one or more lines. Call `update(series)` with `[{name, points: [[ms, value], ...]}, ...]`. */
export class Chart {
  constructor({ title, format, note = "", base = 10 }) {
    this.base = base;
    this.format = format;
    this.title = title;
    this.series = [];
    this.at = null;
    this.stamp = "";
    const titleId = freshId("chart");
    this.legend = h("ul", { class: "legend" });
    this.moment = h("span", { class: "moment" });
    this.svg = s("svg", { class: "chart", role: "img", tabindex: "0", height: HEIGHT });
    this.empty = h("p", { class: "nothing" }, "No numbers yet.");
    this.body = h("tbody");
    this.head = h("tr");
    this.table = h(
      "details",
      { class: "numbers", ontoggle: () => this.fillTable() },
      h("summary", {}, "As a table"),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title} as a table` },
        h("table", {}, h("thead", {}, this.head), this.body)),
    );
    this.element = h(
      "figure",
      { class: "panel figure", "aria-labelledby": titleId },
      h("figcaption", {}, h("h2", { id: titleId }, title), note ? h("small", {}, note) : null),
      h("div", { class: "legendrow" }, this.legend, this.moment),
      this.svg,
      this.empty,
      this.table,
    );
    this.svg.addEventListener("pointermove", (event) => this.point(event.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.svg);
  }

  /** Stop watching the size; the element may go. */
  close() {
    this.watcher.disconnect();
  }

  update(series) {
    const shown = series.filter((each) => each.points.some(([, value]) => isNumber(value)));
    const stamp = JSON.stringify(shown.map(({ name, points }) => [name, points.length, points[0], points.at(-1)]));
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.series = shown;
    this.times = [...new Set(shown.flatMap((each) => each.points.map(([at]) => at)))].sort((a, b) => a - b);
    this.draw();
    if (this.table.open) this.fillTable();
  }

  draw() {
    const { width } = this.svg.getBoundingClientRect();
    const isEmpty = this.series.length === 0;
    this.empty.hidden = !isEmpty;
    this.table.hidden = isEmpty;
    setAttribute(this.svg, "hidden", isEmpty);
    if (isEmpty || width < 80) {
      replace(this.svg);
      keyed(this.legend, [], String, () => null);
      return;
    }
    const values = this.series.flatMap((each) => each.points.map(([, value]) => value)).filter(isNumber);
    const marks = ticks(Math.max(...values), 4, this.base);
    const top = marks.at(-1);
    const [first, last] = [this.times[0], Math.max(this.times.at(-1), this.times[0] + 1000)];
    this.x = (at) => MARGIN.left + ((at - first) / (last - first)) * (width - MARGIN.left - MARGIN.right);
    this.y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    setAttribute(this.svg, "viewBox", `0 0 ${width} ${HEIGHT}`);
    this.cursor = s("line", { class: "cursor", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: "hidden" });
    replace(
      this.svg,
      marks.map((mark) => this.grid(mark, width)),
      this.timeMarks(first, last, width),
      this.series.map((each, index) => s("path", { class: `line c${index % 6}`, d: path(each.points, this.x, this.y) })),
      this.series.map((each, index) => this.lastDot(each, index)),
      this.cursor,
    );
    this.describe();
    this.showMoment();
  }

  grid(mark, width) {
    const y = this.y(mark);
    return [
      s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
      s("text", { class: "axis", x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, this.format(mark)),
    ];
  }

  timeMarks(first, last, width) {
    const count = Math.max(1, Math.min(5, Math.floor((width - MARGIN.left) / 130)));
    return Array.from({ length: count + 1 }, (_, index) => {
      const at = first + ((last - first) * index) / count;
      const anchor = index === 0 ? "start" : index === count ? "end" : "middle";
      return s("text", { class: "axis", x: this.x(at), y: HEIGHT - 5, "text-anchor": anchor }, clock(at));
    });
  }

  lastDot(each, index) {
    const newest = each.points.findLast(([, value]) => isNumber(value));
    return s("circle", { class: `dot c${index % 6}`, cx: this.x(newest[0]), cy: this.y(newest[1]), r: 3 });
  }

  describe() {
    const parts = this.series.map((each) => {
      const values = each.points.map(([, value]) => value).filter(isNumber);
      return `${each.name} now ${this.format(values.at(-1))}, highest ${this.format(Math.max(...values))}`;
    });
    setAttribute(this.svg, "aria-label", `${this.title}: ${parts.join("; ")}. Arrow keys read single moments.`);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.times?.length) return;
    event.preventDefault();
    const here = this.at === null ? this.times.length - 1 : this.times.indexOf(this.at);
    const index = this.at === null && Number.isFinite(step) ? here : here + step;
    this.at = this.times[Math.max(0, Math.min(this.times.length - 1, index))];
    this.showMoment();
  }

  point(offset) {
    if (!this.times?.length) return;
    if (offset === null) this.at = null;
    else {
      const distance = (at) => Math.abs(this.x(at) - offset);
      this.at = this.times.reduce((best, at) => (distance(at) < distance(best) ? at : best));
    }
    this.showMoment();
  }

  showMoment() {
    if (this.at !== null && !this.times.includes(this.at)) this.at = null;
    const x = this.at === null ? 0 : this.x(this.at);
    setAttribute(this.cursor, "x1", x);
    setAttribute(this.cursor, "x2", x);
    setAttribute(this.cursor, "visibility", this.at === null ? "hidden" : "visible");
    setText(this.moment, this.at === null ? "" : clock(this.at));
    const rows = this.series.map((each, index) => ({ index, name: each.name, text: this.format(this.valueOf(each)) }));
    keyed(this.legend, rows, (row) => `${row.index} ${row.name}`, (row) => {
      const value = h("b");
      const item = h("li", {}, h("i", { class: `key c${row.index % 6}`, "aria-hidden": "true" }), `${row.name} `, value);
      item.update = ({ text }) => setText(value, text);
      return item;
    });
    if (this.at !== null) {
      const words = rows.map((row) => `${row.name} ${row.text}`).join("; ");
      setAttribute(this.svg, "aria-label", `${this.title} at ${clock(this.at)}: ${words}`);
    }
  }

  valueOf(each) {
    if (this.at === null) return each.points.findLast(([, value]) => isNumber(value))?.[1];
    return each.points.find(([at]) => at === this.at)?.[1];
  }

  fillTable() {
    if (!this.table.open) return;
    replace(this.head, h("th", { scope: "col" }, "Time"), this.series.map(({ name }) => h("th", { scope: "col" }, name)));
    const maps = this.series.map((each) => new Map(each.points));
    const times = this.times.slice(-TABLE_ROWS).reverse();
    replace(this.body, times.map((at) =>
      h("tr", {}, h("th", { scope: "row" }, clock(at)), maps.map((map) => h("td", {}, this.format(map.get(at)))))));
  }
}
