// Elements without a framework. Text always goes in as text, never as markup: the names of jobs, operators, keys and
// log lines belong to the user's programs, and may hold anything.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: `h("p", {class: "note"}, "text", child)`. Functions become listeners, true and false flags. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same in SVG. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") throw new Error("inline styles are forbidden by the page's policy: use a class or setStyle");
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Put new children in place of the old ones. */
export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Change a text only if it differs, so that a selection in it and a screen reader's place stay. */
export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

/** Change an attribute only if it differs; null removes it. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Set a style property through the object model, which the page's policy allows. */
export function setStyle(element, name, value) {
  element.style.setProperty(name, value);
}

/**
 * Keep the children of `parent` in step with `items`: elements live as long as their key, so focus and scrolling stay.
 * `make(item)` returns an element with a method `update(item)`, or a plain element.
 */
export function keyed(parent, items, keyOf, make) {
  const old = parent.keyedChildren ?? new Map();
  const now = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const element = old.get(key) ?? make(item);
    now.set(key, element);
    element.update?.(item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const [key, element] of old) if (now.get(key) !== element) element.remove();
  parent.keyedChildren = now;
}

let ids = 0;

/** An id that no other element has. */
export function freshId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** Say something to screen readers, once, without moving the focus. */
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region && region.textContent !== text) region.textContent = text;
}
