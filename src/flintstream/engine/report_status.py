"""The status document of a job: everything that changes while it runs, put together from what a `JobWatch` keeps.

The **slowest** operator is the one that is busy for the greatest share of time, if it is so for more than 70 % of it,
or for more than 20 % while a source has more than the job takes: then it is what the rest waits for.

Flink: busyTimeMsPerSecond and isBackPressured, by which its dashboard colours operators.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flintstream.engine.manifest import Manifest
from flintstream.engine.measures import memory_of
from flintstream.engine.report_numbers import (
    event_time_skew,
    job_watermark,
    lag_of,
    records_of,
    sinks_of,
    sources_of,
    state_bytes,
    user_metrics,
    watermarks_of,
)
from flintstream.engine.report_plan import Host
from flintstream.model.dead_letters import DEAD_LETTERS
from flintstream.planner.plan import Plan

BUSY_ALONE = 0.7
BUSY_BEHIND = 0.2


@dataclass(slots=True)
class Traffic:
    """What an operator did since the driver started, over all its tasks."""

    busy: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class Facts:
    """What is known of a job besides its rates."""

    started_ms: int
    status: str = "CREATED"
    restarts: int = 0
    manifest: Manifest | None = None
    epoch_seconds: float | None = None
    epoch_started_ms: float | None = None
    checkpoint: dict[str, Any] = field(default_factory=dict[str, Any])
    sent: dict[int, int] = field(default_factory=dict[int, int])
    received: dict[int, int] = field(default_factory=dict[int, int])
    workers: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])


def status_document(
    plan: Plan, facts: Facts, host: Host, attempt: int, now: float, shown: Mapping[str, Any]
) -> dict[str, Any]:
    """Return where a job stands; `shown` has rates, traffic, sources and sinks as its watch knows them."""
    manifest = facts.manifest
    marks = watermarks_of(plan, manifest)
    operators = _operators(plan, facts, host, now, shown, marks)
    watermark = job_watermark(marks)
    sources, sinks = sources_of(plan), sinks_of(plan)

    def total(uids: list[str], name: str) -> Any:
        return sum(operators[uid][name] for uid in uids)

    return {
        "status": facts.status,
        "attempt": attempt,
        "restarts": facts.restarts,
        "updated_ms": int(now),
        "started_ms": facts.started_ms,
        "epoch": 0 if manifest is None else manifest.epoch,
        "epoch_seconds": facts.epoch_seconds,
        "epoch_started_ms": None if facts.epoch_started_ms is None else int(facts.epoch_started_ms),
        "watermark": watermark,
        "watermark_lag_ms": lag_of(watermark, now),
        "event_time_skew_ms": event_time_skew(manifest),
        "records_in": total(sources, "records_in"),
        "records_out": total(sinks, "records_in"),
        "records_in_per_second": total(sources, "records_in_per_second"),
        "records_out_per_second": total(sinks, "records_in_per_second"),
        "late": total(list(operators), "late"),
        "dead_letters": total(list(operators), "dead_letters"),
        "operators": operators,
        "sources": shown["sources"],
        "sinks": shown["sinks"],
        "checkpoint": dict(facts.checkpoint) or None,
        "ledger": {"edges": _ledger(plan, facts)},
        "memory": _memory(facts, host),
        "metrics": user_metrics(manifest),
    }


def _operators(
    plan: Plan, facts: Facts, host: Host, now: float, shown: Mapping[str, Any], marks: Mapping[str, int | None]
) -> dict[str, dict[str, Any]]:
    manifest = facts.manifest
    counters = {} if manifest is None else manifest.counters
    entries = {} if manifest is None else manifest.entries
    records, sizes = records_of(plan, manifest), state_bytes(manifest)
    found: dict[str, dict[str, Any]] = {}
    for op in plan.operators:
        rates = shown["rates"].get(op.uid, (0.0,) * 5)
        traffic: Traffic = shown["traffic"][op.uid]
        busy = min(1.0, max(0.0, rates[4] / min(op.parallelism, host.slots)))
        totals = (*records[op.uid], traffic.bytes_in, traffic.bytes_out)
        names = ("records_in", "records_out", "bytes_in", "bytes_out")
        mine: dict[str, Any] = dict(zip(names, totals, strict=True))
        mine |= {f"{name}_per_second": round(max(0.0, rate), 3) for name, rate in zip(names, rates, strict=False)}
        mine |= {"watermark": marks[op.uid], "watermark_lag_ms": lag_of(marks[op.uid], now)}
        mine |= {"busy": round(busy, 4), "waiting": round(1.0 - busy, 4), "busy_seconds": round(traffic.busy, 6)}
        mine |= {"state_entries": entries.get(op.uid, 0), "state_bytes": sizes.get(op.uid, 0)}
        counts = counters.get(op.uid, {})
        mine |= {"late": counts.get("late", 0), "dead_letters": counts.get(DEAD_LETTERS, 0), "slowest": False}
        found[op.uid] = mine
    slowest = slowest_of({uid: each["busy"] for uid, each in found.items()}, is_behind=shown["is_behind"])
    if slowest is not None and facts.status == "RUNNING":
        found[slowest]["slowest"] = True
    return found


def slowest_of(busy: Mapping[str, float], *, is_behind: bool) -> str | None:
    """Return the operator that the others wait for, by the rule above; None if the job has time to spare."""
    uid = max(busy, key=lambda each: busy[each], default=None)
    return uid if uid is not None and busy[uid] > (BUSY_BEHIND if is_behind else BUSY_ALONE) else None


def _ledger(plan: Plan, facts: Facts) -> list[dict[str, Any]]:
    return [
        {
            "edge": link.edge,
            "from": plan.operator(link.source).uid,
            "to": plan.operator(link.target).uid,
            "sent": facts.sent.get(link.edge, 0),
            "received": facts.received.get(link.edge, 0),
        }
        for link in plan.links
        if link.edge is not None
    ]


def _memory(facts: Facts, host: Host) -> dict[str, int | None]:
    """Return the memory of the driver, of the workers that ran the newest epoch, and of the driver's JVM."""
    others = [memory for (_, pid), memory in facts.workers.items() if pid != os.getpid()]
    return {
        "driver_bytes": memory_of(os.getpid()),
        "workers_bytes": sum(others) if others else None,
        "jvm_bytes": host.jvm_memory(),
    }
