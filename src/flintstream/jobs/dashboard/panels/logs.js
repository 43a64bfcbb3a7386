// The program's own output, as it comes. Asked for piece by piece from where the last piece ended; the newest part is
// kept, so that a job that writes for days does not fill the browser.

import * as api from "../api.js";
import { field, problemBox } from "../dialogs.js";
import { h, replace, setText } from "../dom.js";
import { bytes } from "../format.js";

const TAIL = 64 * 1024;
const PIECE = 256 * 1024;
const KEPT = 400_000;
const PAUSE_MS = 1000;

export function logsPanel(feed, more) {
  const stream = { name: more === "err" ? "err" : "out", offset: -TAIL };
  let text = "";
  let timer = 0;
  let closed = false;
  let round = 0;

  const output = h("pre", { class: "log", role: "log", "aria-live": "off", tabindex: "0", "aria-label": "Output of the program" });
  const size = h("span", { class: "hint" });
  const trouble = h("div");
  const followBox = h("input", { type: "checkbox", checked: true });
  const filter = h("input", { type: "search", placeholder: "Lines with this text", "aria-label": "Show lines with this text", oninput: () => show() });
  const choose = ["out", "err"].map((name) => h("input", { type: "radio", name: "stream", value: name, checked: name === stream.name, onchange: () => change(name) }));
  const element = h("section", { class: "panel", "aria-label": "Logs" },
    h("div", { class: "logbar" },
      h("fieldset", { class: "segments" }, h("legend", { class: "unseen" }, "Which output"),
        field("Output", choose[0]), field("Errors and log", choose[1])),
      filter, field("Follow", followBox), size),
    trouble, output);

  function change(name) {
    Object.assign(stream, { name, offset: -TAIL });
    text = "";
    show();
    read();
  }

  async function read() {
    clearTimeout(timer);
    round += 1;
    const mine = round;
    try {
      const piece = await api.log(feed.id, stream.name, stream.offset, PIECE);
      if (closed || mine !== round) return;
      take(piece);
      replace(trouble);
      timer = setTimeout(read, piece.text && piece.next_offset < piece.size ? 0 : PAUSE_MS);
    } catch (problem) {
      if (closed || mine !== round) return;
      if (problem.status !== 0) replace(trouble, problemBox(problem));
      timer = setTimeout(read, PAUSE_MS * 3);
    }
  }

  function take(piece) {
    const isFirst = stream.offset < 0;
    stream.offset = piece.next_offset;
    setText(size, `${bytes(piece.size)} in all`);
    if (!piece.text && !isFirst) return;
    text = (text + piece.text).slice(-KEPT);
    show();
  }

  function show() {
    const wanted = filter.value.toLowerCase();
    const lines = wanted ? text.split("\n").filter((line) => line.toLowerCase().includes(wanted)).join("\n") : text;
    const nothing = wanted ? "No line with this text." : "Nothing written yet.";
    setText(output, lines || nothing);
    if (followBox.checked) output.scrollTop = output.scrollHeight;
  }

  // Whoever scrolls up wants to read: the log stands still until they are back at its end.
  output.addEventListener("scroll", () => {
    const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 8;
    if (atEnd !== followBox.checked) followBox.checked = atEnd;
  });
  followBox.addEventListener("change", () => {
    if (followBox.checked) output.scrollTop = output.scrollHeight;
  });

  read();
  return {
    element,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
