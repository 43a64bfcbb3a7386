// Server-sent events that come back by themselves, and the page's word on whether they come at all.

import { renewSession } from "./api.js";
import { announce, setText } from "./dom.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
// Browsers open few connections to one server: pages that nobody looks at give theirs up.
const HIDDEN_MS = 30_000;
const WORDS = { connecting: "Connecting", live: "Live", lost: "Connection lost", token: "Token needed" };

/** Show how the page is connected. */
export function showConnection(state) {
  const place = document.getElementById("connection");
  const before = place.dataset.state;
  if (before === state) return;
  place.dataset.state = state;
  setText(document.getElementById("connection-text"), WORDS[state]);
  const banner = document.getElementById("lost");
  banner.hidden = state !== "lost";
  setText(banner, state === "lost" ? "No connection to the manager. What you see may be old; trying again." : "");
  if (before === "lost" && state === "live") announce("Connected to the manager again");
}

/**
 * Follow a stream of events until `close()` is called. `onEvent(name, data)` gets parsed JSON; `onUp` is called at each
 * (re)connection, `onDown` when the connection breaks.
 */
export function follow(path, names, { onEvent, onUp = () => {}, onDown = () => {} }) {
  let source = null;
  let timer = 0;
  let wait = FIRST_WAIT_MS;
  let closed = false;

  function open() {
    source?.close();
    const mine = new EventSource(path);
    source = mine;
    mine.addEventListener("open", () => {
      wait = FIRST_WAIT_MS;
      onUp();
    });
    for (const name of names) {
      mine.addEventListener(name, (event) => {
        if (typeof event.data !== "string") return;
        let data;
        try {
          data = JSON.parse(event.data);
        } catch {
          return; // half an event of a server that goes down; the next one is whole
        }
        onEvent(name, data);
      });
    }
    mine.addEventListener("error", () => {
      mine.close();
      if (closed || mine !== source) return;
      onDown();
      timer = setTimeout(() => renewSession().then(() => closed || open()), wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    });
  }

  function look() {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => source.close(), HIDDEN_MS);
    else if (source.readyState === EventSource.CLOSED) open();
  }

  document.addEventListener("visibilitychange", look);
  open();
  return {
    close() {
      closed = true;
      document.removeEventListener("visibilitychange", look);
      clearTimeout(timer);
      source?.close();
    },
  };
}
