"""What the driver adds up over tasks and epochs: the operators' counters, the users' metrics.

Totals are part of the manifest, hence committed with their epoch: a task that is tried twice counts once, and a job
that is started again goes on counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.engine.epoch import TaskReport
from flintstream.engine.manifest import Manifest
from flintstream.ops.metric_totals import Document, fold, result_of
from flintstream.planner.plan import Plan


def counters_after(before: Manifest | None, reports: Sequence[TaskReport], plan: Plan) -> dict[str, dict[str, int]]:
    """Return the counters of all operators after an epoch."""
    uids = {op.id: op.uid for op in plan.operators}
    totals = {uid: dict(counts) for uid, counts in (before.counters if before else {}).items()}
    for report in reports:
        for node, counts in report.counters.items():
            mine = totals.setdefault(uids[node], {})
            for name, amount in counts.items():
                mine[name] = mine.get(name, 0) + amount
    return totals


def queryable_in(reports: Sequence[TaskReport]) -> dict[str, dict[str, Any]]:
    """Return which states others may look up; one that the program asks for late is known once a task has done so."""
    known: dict[str, dict[str, Any]] = {}
    for report in reports:
        for uid, marks in report.queryable.items():
            known.setdefault(uid, {}).update(marks)
    return known


def metrics_after(
    before: Manifest | None, reports: Sequence[TaskReport], plan: Plan, now: int
) -> dict[str, dict[str, Document]]:
    """Return the users' metrics after an epoch of processing time `now`; gauges of subtasks that are gone leave."""
    uids = {op.id: op.uid for op in plan.operators}
    parallelism = {op.uid: op.parallelism for op in plan.operators}
    totals = {
        uid: {name: _of_subtasks(total, parallelism.get(uid)) for name, total in metrics.items()}
        for uid, metrics in (before.metrics if before else {}).items()
    }
    for report in reports:
        for node, metrics in report.metrics.items():
            for name, part in metrics.items():
                mine = totals.setdefault(uids[node], {})
                mine[name] = fold(mine.get(name), part, now)
    return totals


def _of_subtasks(total: Document, count: int | None) -> Document:
    if total["kind"] != "gauge" or count is None:
        return total
    return {**total, "values": {index: value for index, value in total["values"].items() if int(index) < count}}


def results(manifest: Manifest | None) -> dict[str, Any]:
    """Return counters, metrics and the number of entries in state by operator, as the job's result shows them."""
    if manifest is None:
        return {}
    shown: dict[str, Any] = {uid: dict(counts) for uid, counts in manifest.counters.items()}
    for uid, entries in manifest.entries.items():
        if entries:
            shown.setdefault(uid, {})["state_entries"] = entries
    for uid, metrics in manifest.metrics.items():
        shown.setdefault(uid, {}).update({name: result_of(total) for name, total in metrics.items()})
    return shown
