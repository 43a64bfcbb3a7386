"""Finds the rate up to which a job keeps up: which rate to try next, when latency has climbed, and where the knee is.

Pure decisions on measured steps; who measures them is another module's business. The rate is doubled while the job
keeps up, and the gap between the last rate that it bore and the first that it did not is then halved a few times.

Flink: nothing; its benchmarks raise the rate by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

KEEPS_UP = 0.95
"""The share of the wanted rate that must be read: below it a backlog grows."""
CLIMB = 4.0
"""Latency has climbed when it is so many times that of an idle job,"""
CLIMB_MS = 500.0
"""and at least by this much, since an epoch with more records takes its time."""
MOST_STEPS = 40


@dataclass(frozen=True)
class Step:
    """What was measured at one rate.

    Attributes:
        rate: Records per second that were due, over all sources.
        achieved: Records per second that were read.
        epochs: How many epochs this is measured over.
        p50: Latency from a record's due time to its visible output, in ms, of the slowest sink; None if not known.
        p95: The same that 95 of 100 records stay below.
        p99: The same that 99 of 100 records stay below.
        max: The greatest.
    """

    rate: float
    achieved: float
    epochs: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @property
    def keeps_up(self) -> bool:
        """Whether no backlog grows."""
        return self.achieved >= KEEPS_UP * self.rate


@dataclass(frozen=True)
class Peak:
    """What a search has found.

    Attributes:
        steps: All that was measured, in the order of the rates.
        knee: The highest rate at which the job keeps up and latency has not climbed, None if there is none.
        peak: The most records per second that were read at any rate.
        limit_ms: The latency from which on it counts as climbed.
        is_bounded: Whether a rate was found that is too much; else the knee is only the highest that was tried.
    """

    steps: tuple[Step, ...]
    knee: Step | None
    peak: float
    limit_ms: float | None
    is_bounded: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)


class Search:
    """Says which rate to measure next.

    Args:
        first: The first rate.
        most: No rate above this is tried.
        refinements: How often the gap between enough and too much is halved.
        limit_ms: The latency that is too much; without it, that is judged by the latency of the lowest rate.
    """

    def __init__(self, first: float, most: float, refinements: int = 3, limit_ms: float | None = None) -> None:
        self._first = min(first, most)
        self._most = most
        self._left = refinements
        self._limit = limit_ms
        self._steps: list[Step] = []

    def learn(self, step: Step) -> None:
        """Take a measured step into account."""
        self._steps.append(step)

    def next_rate(self) -> float | None:
        """Return the next rate, None if there is nothing more to learn."""
        if not self._steps:
            return self._first
        if len(self._steps) >= MOST_STEPS:
            return None
        good, bad = self._bounds()
        if bad is None:
            assert good is not None
            return min(2 * good, self._most) if good < self._most else None
        if good is None:
            # Even the first was too much: go down until something is not.
            return bad / 4 if bad >= 4 else None
        if not self._left or bad / good < 1.05:
            return None
        self._left -= 1
        return math.sqrt(good * bad)

    def result(self) -> Peak:
        """Return what is known so far."""
        good, bad = self._bounds()
        steps = tuple(sorted(self._steps, key=lambda step: step.rate))
        knee = next((step for step in steps if step.rate == good), None)
        peak = max((step.achieved for step in steps), default=0.0)
        return Peak(steps, knee, peak, limit_of(steps, self._limit), bad is not None)

    def _bounds(self) -> tuple[float | None, float | None]:
        """Return the highest rate below the lowest that was too much, and that one."""
        limit = limit_of(self._steps, self._limit)
        too_much = [step.rate for step in self._steps if not is_enough(step, limit)]
        bad = min(too_much, default=None)
        enough = [step.rate for step in self._steps if is_enough(step, limit) and (bad is None or step.rate < bad)]
        return max(enough, default=None), bad


def limit_of(steps: Sequence[Step], given: float | None = None) -> float | None:
    """Return the latency from which on it has climbed, None if none was measured."""
    if given is not None:
        return given
    known = [step.p95 for step in steps if step.p95 is not None and step.keeps_up]
    # The least of all: the very first rate is measured while a job is still warming up.
    return max(CLIMB * min(known), min(known) + CLIMB_MS) if known else None


def is_enough(step: Step, limit_ms: float | None) -> bool:
    """Whether a job bears a rate: it keeps up, and its latency has not climbed."""
    return step.keeps_up and (limit_ms is None or step.p95 is None or step.p95 <= limit_ms)
