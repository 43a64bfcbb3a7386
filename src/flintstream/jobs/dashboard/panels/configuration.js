// How the job was submitted and what its settings are. Secrets come from the manager as stars.

import * as api from "../api.js";
import { h, setText } from "../dom.js";
import { moment, plain, whole } from "../format.js";
import { facts, liveTable, panel } from "../parts.js";

export function configurationPanel(feed) {
  const job = facts();
  const guarantee = h("p", { class: "lines" });
  let settings = {};
  const filter = h("input", { type: "search", placeholder: "Part of a key or value", "aria-label": "Show settings with this text", oninput: () => show() });
  const table = liveTable({
    caption: "Settings",
    nothing: "No settings.",
    keyOf: ([key]) => key,
    columns: [
      { name: "Key", head: true, text: ([key]) => key },
      { name: "Value", text: ([, value]) => plain(value) },
    ],
  });
  const element = h("div", { class: "stack" }, panel("As it was submitted", job), panel("Guarantee", guarantee),
    panel("Settings", h("div", { class: "logbar" }, filter), table));

  function show() {
    const wanted = filter.value.toLowerCase();
    const rows = Object.entries({ ...settings, ...(feed.plan?.configuration ?? {}) });
    table.update(rows.filter(([key, value]) => `${key} ${plain(value)}`.toLowerCase().includes(wanted)).sort());
  }

  function update() {
    const { view, plan } = feed;
    const spec = view.spec ?? {};
    job.update([
      ["Id", view.id], ["Name", view.name], ["Submitted", moment(view.submitted_ms)],
      ["Program", spec.program ?? spec.module ?? "–"], ["Entry", spec.entry ?? "–"],
      ["Arguments", (spec.arguments ?? []).join(" ") || "–"],
      ["Started from savepoint", spec.savepoint ?? "–"],
      ["Runtime", plan ? `${plan.runtime}${plan.master ? `, ${plan.master}` : ""}` : (spec.master ?? "–")],
      ["Parallelism", whole(view.parallelism)], ["Highest parallelism", whole(plan?.max_parallelism)],
      ["Scaling", view.scaling ?? "manual"], ["Checkpoints in", view.checkpoint_dir ?? "–"],
      ["Versions", plan ? [`Flintstream ${plan.flintstream}`, plan.spark ? `Spark ${plan.spark}` : "", `Python ${plan.python}`].filter(Boolean).join(", ") : "–"],
      ["Driver's process", whole(plan?.pid)],
      ["Spark's own page", plan?.spark_ui && /^https?:\/\//.test(plan.spark_ui) ? linkTo(plan.spark_ui) : "–"],
    ].filter(([, text]) => text !== "–"));
    setText(guarantee, plan?.guarantee?.text || plan?.guarantee?.level || view.guarantee || "It is known when the job's driver has started.");
    show();
  }

  let link = null;
  function linkTo(url) {
    if (link?.getAttribute("href") !== url) link = h("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, url);
    return link;
  }

  api.configuration(feed.id).then((found) => {
    settings = found;
    show();
  }, () => {});
  return { element, update };
}
