"""Derives a job's status from what is wanted, what its keeper wrote and what its driver reported; a pure function.

Flink: JobStatus, as the Dispatcher answers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flintstream.jobs.orders import KeeperState
from flintstream.jobs.store import Record

FINAL = frozenset({"FINISHED", "FAILED", "CANCELED"})
_OF_DRIVER = frozenset({"RUNNING", "RESTARTING", "FAILING"})


def status_of(
    record: Record,
    state: KeeperState | None,
    is_alive: bool,
    report: Mapping[str, Any],
    plan: Mapping[str, Any],
) -> str:
    """Return the status of a job that had not ended when it was last looked at."""
    is_current = state is not None and state.start >= record.start
    if state is not None and is_current and state.state in FINAL:
        return state.state
    if record.wanted == "canceled":
        return "CANCELLING" if is_alive else "CANCELED"
    if not is_alive:
        if record.wanted == "stopped":
            return "FINISHED"
        if record.status == "CREATED":
            return "CREATED"
        return "INITIALIZING" if record.attempt == 0 else "RECONCILING"
    if state is None or not is_current:
        return "INITIALIZING" if record.attempt == 0 else "RESTARTING"
    if state.state != "RUNNING":
        return state.state
    # What is shown of a job that runs must be of the driver that runs.
    if not is_of(report, state) or not is_of(plan, state):
        return "INITIALIZING" if state.attempt == 1 else "RESTARTING"
    told = str(report.get("status"))
    if told == "CREATED":
        return "INITIALIZING"
    # A driver that is about to leave still runs.
    return told if told in _OF_DRIVER else "RUNNING"


def is_of(report: Mapping[str, Any], state: KeeperState) -> bool:
    """Whether a report is that of the driver which runs now, and not of one before it."""
    return report.get("attempt") == state.attempt


def changes_of(
    record: Record,
    state: KeeperState | None,
    is_alive: bool,
    report: Mapping[str, Any],
    plan: Mapping[str, Any],
    directory: Path,
) -> dict[str, Any]:
    """Return what is new of a job, by the columns of its record; `directory` is where its program runs."""
    found: dict[str, Any] = {"status": status_of(record, state, is_alive, report, plan)}
    if state is not None:
        inside = report.get("restarts") if state.child_pid is not None and is_of(report, state) else 0
        found |= {"attempt": state.attempt, "restarts": state.restarts + (inside if isinstance(inside, int) else 0)}
        if record.started_ms is None:
            found["started_ms"] = state.child_started_ms
    if found["status"] in FINAL:
        has_said = state is not None and state.has_ended and state.start >= record.start
        found["ended_ms"] = state.ended_ms if has_said and state is not None else None
        found["error"] = state.error if has_said and state is not None else None
    if state is not None and is_of(plan, state):
        found |= _of_plan(plan, directory)
    return {name: value for name, value in found.items() if getattr(record, name) != value}


def _of_plan(plan: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    where, guarantee, widest = plan.get("checkpoint_dir"), plan.get("guarantee"), plan.get("parallelism")
    if isinstance(where, str):
        found["seen_checkpoint_dir"] = where if "://" in where else str(directory / where)
    if isinstance(guarantee, Mapping) and isinstance(guarantee.get("level"), str):
        found["guarantee"] = guarantee["level"]
    if isinstance(widest, int):
        found["seen_parallelism"] = widest
    return found
