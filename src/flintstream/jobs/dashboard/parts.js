// Small parts that many pages are made of: status words, tiles, bars, live tables.

import { h, keyed, setAttribute, setStyle, setText } from "./dom.js";
import { isNumber, percent, statusText, tone } from "./format.js";

/** A job's status as a coloured word. */
export function badge(status) {
  const element = h("span", { class: "badge" });
  element.update = (now) => {
    setAttribute(element, "data-tone", tone(now));
    setText(element, statusText(now));
  };
  element.update(status);
  return element;
}

/** A number with its name. `update(text, hint)` changes it. */
export function tile(name, { kind = "" } = {}) {
  const value = h("dd", {}, "–");
  const hint = h("dd", { class: "hint" });
  const element = h("div", { class: `tile ${kind}` }, h("dt", {}, name), value, hint);
  element.update = (text, more = "") => {
    setText(value, text);
    setText(hint, more);
    hint.hidden = more === "";
  };
  element.update("–");
  return element;
}

/** A share as a bar and a percentage. `update(share)` changes it. */
export function meter(kind) {
  const bar = h("i", { "aria-hidden": "true" });
  const text = h("span");
  const element = h("span", { class: `meter ${kind}` }, h("span", { class: "track", "aria-hidden": "true" }, bar), text);
  element.update = (share) => {
    const known = isNumber(share) ? Math.max(0, Math.min(1, share)) : 0;
    setStyle(bar, "inline-size", `${(known * 100).toFixed(0)}%`);
    setAttribute(element, "data-level", known > 0.9 ? "high" : known > 0.7 ? "mid" : "low");
    setText(text, percent(share));
  };
  return element;
}

/** A section with a heading. */
export function panel(title, ...children) {
  return h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), children);
}

/**
 * A table that is kept in step with its items.
 *
 * @param caption what the table is, for screen readers
 * @param columns `{name, text(item)}` or `{name, make(item)}` whose element has `update(item)`; `number: true` aligns
 *   right, `head: true` marks the column that names the row
 * @param keyOf what tells items apart
 * @param nothing what to say when there are none
 */
export function liveTable({ caption, columns, keyOf, nothing, row = () => ({}) }) {
  const body = h("tbody");
  const empty = h("p", { class: "nothing" }, nothing);
  const heads = columns.map((column) =>
    h("th", { scope: "col", class: column.number ? "number" : null, title: column.hint ?? null }, column.name));
  const table = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, heads)), body);
  const scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  const element = h("div", { class: "tablebox" }, scroll, empty);

  function cell(column, item) {
    const made = column.make?.(item);
    const place = h(column.head ? "th" : "td", {
      scope: column.head ? "row" : null,
      class: column.number ? "number" : null,
      "data-label": column.name,
    }, made ?? "");
    place.update = (now) => (made ? made.update?.(now) : setText(place, column.text(now)));
    return place;
  }

  element.update = (items) => {
    empty.hidden = items.length > 0;
    scroll.hidden = items.length === 0;
    keyed(body, items, keyOf, (item) => {
      const cells = columns.map((column) => cell(column, item));
      const line = h("tr", row(item), cells);
      line.update = (now) => cells.forEach((each) => each.update(now));
      return line;
    });
  };
  element.rows = body;
  return element;
}

/** A list of names and values: `update([[name, text], ...])`. */
export function facts(className = "facts") {
  const element = h("dl", { class: className });
  element.update = (pairs) => {
    keyed(element, pairs, ([name]) => name, ([name]) => {
      const value = h("dd");
      const item = h("div", {}, h("dt", {}, name), value);
      item.update = ([, text]) => {
        if (text instanceof Node) {
          if (value.firstChild !== text) value.replaceChildren(text);
        } else setText(value, text);
      };
      return item;
    });
  };
  return element;
}
