// Starts the page: which page the address names, the colours' button, and the question for a token.

import * as api from "./api.js";
import { h, replace, setText } from "./dom.js";
import { showConnection } from "./live.js";
import { jobPage } from "./pages/job.js";
import { overviewPage } from "./pages/overview.js";
import { tokenPage } from "./pages/token.js";

const main = document.getElementById("main");
let page = null;

/** What the address names: `#/` all jobs, `#/jobs/ID/PANEL/MORE` one of them. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  if (parts[0] === "jobs" && parts[1]) return { name: "job", id: parts[1], panel: parts[2] ?? "dataflow", more: parts[3] };
  return { name: "overview" };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function show() {
  const wanted = route();
  const key = wanted.name === "job" ? `job ${wanted.id}` : wanted.name;
  if (page?.key === key) {
    page.go?.(wanted);
    return;
  }
  open(wanted.name === "job" ? jobPage(wanted) : overviewPage(), key);
}

function open(next, key) {
  const isFirst = page === null;
  page?.close();
  page = next;
  page.key = key;
  replace(main, page.element);
  replace(document.getElementById("crumbs"), page.crumbs ?? "");
  // Whoever follows a link with the keyboard or by ear begins at the new page's start, not at the end of the old one.
  if (!isFirst) main.focus({ preventScroll: true });
  if (!isFirst) scrollTo(0, 0);
}

api.onTokenNeeded(() => {
  if (page?.key === "token") return;
  showConnection("token");
  open(tokenPage(() => {
    page = null;
    showConnection("connecting");
    show();
  }), "token");
});

const themeButton = document.getElementById("theme");
function showTheme(name) {
  const word = { auto: "Auto", light: "Light", dark: "Dark" }[name];
  setText(themeButton, word);
  themeButton.setAttribute("aria-label", `Colours: ${word}`);
  themeButton.title = name === "auto" ? "Colours: as the system has them" : `Colours: ${word}`;
}
themeButton.addEventListener("click", () => showTheme(window.flintstreamTheme.next()));
showTheme(window.flintstreamTheme.current());

replace(
  document.getElementById("foot"),
  h("a", { href: "v1/openapi.json" }, "REST interface (OpenAPI)"),
  h("a", { href: "v1/metrics" }, "Metrics for Prometheus"),
);

// The address names the page, so this link cannot use it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
show();
