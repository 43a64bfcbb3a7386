"""Decides when a job whose parallelism follows its backlog is to run wider or narrower: numbers in, a number out.

Work is taken to spread evenly: an operator that is busy `b` of the time on `n` tasks is busy `b * n / m` on `m`. The
target lies between the two bounds at which something is done, and a step is taken only if it does not lead beyond the
other bound, so that under an even load the answer settles and stays. Nothing is done on a passing whim either: what is
seen must hold for a while, and a job that was just restarted is left alone until its backlog has had time to go.

Flink: the autoscaler of Flink's Kubernetes operator (JobVertexScaler), and Reactive Mode.
Differs from Flink: the whole job has one parallelism, and it runs on one machine or on Spark's executors as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

TOO_BUSY, TOO_IDLE, TARGET = 0.85, 0.4, 0.6
LATE_MS = 5_000
"""A backlog that would take longer than this to read is one."""
UP_AFTER_MS, DOWN_AFTER_MS, REST_MS = 10_000, 60_000, 30_000


@dataclass(frozen=True)
class Load:
    """What a job's report says of its load.

    Attributes:
        busy: The share of time that its busiest operator works, 0 to 1.
        backlog_ms: How long what its sources have already would take to read; None if nobody knows.
    """

    busy: float
    backlog_ms: float | None

    @staticmethod
    def of(status: Mapping[str, Any]) -> Load | None:
        """Read the load out of a job's report; None while a driver is at its first epoch, of which nothing is known."""
        if status.get("checkpoint") is None and status.get("epoch_started_ms") is not None:
            return None
        operators = [each for each in _mapping(status.get("operators")).values() if isinstance(each, Mapping)]
        busy = max((_number(each.get("busy")) or 0.0 for each in operators), default=0.0)
        rate = _number(status.get("records_in_per_second")) or 0.0
        found: list[float] = []
        for each in _mapping(status.get("sources")).values():
            lag_ms, lag = _number(_mapping(each).get("lag_ms")), _number(_mapping(each).get("lag_records"))
            if lag_ms is not None:
                found.append(lag_ms)
            elif lag is not None:
                found.append(lag / rate * 1000 if rate else (math.inf if lag else 0.0))
        return Load(min(max(busy, 0.0), 1.0), max(found) if found else None)


@dataclass(frozen=True)
class Scaling:
    """What is remembered between two looks at one job.

    Attributes:
        changed_ms: When its parallelism was last changed, or it was first looked at.
        high_ms: Since when there is too much to do, None if there is not.
        low_ms: Since when there is too little to do, None if there is not.
        high_backlog_ms: How long the backlog was then.
    """

    changed_ms: int
    high_ms: int | None = None
    low_ms: int | None = None
    high_backlog_ms: float = 0.0


def decide(
    before: Scaling, now_ms: int, load: Load | None, parallelism: int, least: int, most: int
) -> tuple[Scaling, int | None]:
    """Return what to remember, and the parallelism that the job is to have, None if it has the right one."""
    if not least <= parallelism <= most:
        return Scaling(now_ms), min(max(parallelism, least), most)
    if load is None:
        # The time to rest counts from when the job does what it is for: Spark may take long to start.
        return Scaling(now_ms), None
    if now_ms - before.changed_ms < REST_MS:
        return Scaling(before.changed_ms), None
    backlog = load.backlog_ms or 0.0
    is_late = backlog > LATE_MS
    if (load.busy > TOO_BUSY or is_late) and parallelism < most:
        since = before.high_ms
        if since is None:
            return Scaling(before.changed_ms, high_ms=now_ms, high_backlog_ms=backlog), None
        # A backlog that shrinks goes by itself.
        is_shrinking = is_late and backlog < before.high_backlog_ms
        if now_ms - since < UP_AFTER_MS or is_shrinking:
            return replace(before, low_ms=None), None
        return Scaling(now_ms), min(most, wider(parallelism, load.busy))
    if load.busy < TOO_IDLE and not is_late and parallelism > least:
        target = max(least, narrower(parallelism, load.busy))
        since = before.low_ms
        if since is None or target == parallelism:
            return Scaling(before.changed_ms, low_ms=now_ms if since is None else since), None
        return (Scaling(now_ms), target) if now_ms - since >= DOWN_AFTER_MS else (replace(before, high_ms=None), None)
    return Scaling(before.changed_ms), None


def wider(parallelism: int, busy: float) -> int:
    """Return the next parallelism for a job with too much to do: what its load needs, at most twice as much.

    >>> wider(2, 1.0), wider(4, 0.9), wider(1, 1.0)
    (4, 6, 2)
    """
    needed = math.ceil(parallelism * busy / TARGET)
    return max(parallelism + 1, min(needed, 2 * parallelism))


def narrower(parallelism: int, busy: float) -> int:
    """Return the next parallelism for a job with too little to do: what its load needs, at least half as much.

    >>> narrower(8, 0.1), narrower(4, 0.35), narrower(2, 0.39)
    (4, 3, 2)
    """
    needed = math.ceil(parallelism * busy / TARGET)
    return max(1, min(parallelism, max(needed, math.ceil(parallelism / 2))))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
