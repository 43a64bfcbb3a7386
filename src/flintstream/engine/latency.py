"""How long records take from their receipt until the output of their epoch is to be seen, by sink.

An epoch gives a few samples, each with the number of records that it stands for: its own percentiles are exact over
them. Over many epochs they are kept as buckets that grow by a constant factor, so that their space is bounded and a
percentile is wrong by one per cent at most; the newest half minute and the whole life of the driver are kept apart.

Flink: latency markers and their histograms. Differs from Flink: what is measured is the visible output of real records,
commit included, and not markers that overtake them; time that a record waits in a window by its definition counts in
neither.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

Sample = tuple[float, float]
"""A number, and how many records it stands for."""
_STEP = math.log(1.01 / 0.99)
_MIDDLE = 2.0 / (math.exp(_STEP) + 1.0)
"""What a bucket's upper end is multiplied with to get what is equally far, relatively, from both its ends."""
_LEAST = 0.1
SLOT_MS = 5_000
SLOTS = 6
"""The sliding window is so many slots of so long: half a minute."""
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Spread:
    """How weighted numbers, 0 or greater, are spread, in a bounded space."""

    def __init__(self) -> None:
        self.count = self.total = 0.0
        self.most = 0.0
        self._buckets: dict[int, float] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Take in some numbers."""
        for value, weight in samples:
            bucket = math.ceil(math.log(max(value, _LEAST)) / _STEP)
            self._buckets[bucket] = self._buckets.get(bucket, 0.0) + weight
            self.count += weight
            self.total += value * weight
            self.most = max(self.most, value)

    def merge(self, other: Spread) -> None:
        """Take in all numbers of another one."""
        for bucket, weight in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0.0) + weight
        self.count += other.count
        self.total += other.total
        self.most = max(self.most, other.most)

    def summary(self) -> dict[str, Any] | None:
        """Return percentiles, maximum, mean and count; None if there is nothing."""
        if not self.count:
            return None
        middles = [(math.exp(key * _STEP) * _MIDDLE, self._buckets[key]) for key in sorted(self._buckets)]
        found = {name: min(value, self.most) for name, value in _quantiles(middles, self.count).items()}
        return _rounded({**found, "max": self.most, "mean": self.total / self.count, "count": self.count})


def summary_of(samples: Sequence[Sample]) -> dict[str, Any] | None:
    """Return exact percentiles, maximum, mean and count of some samples; None if there are none."""
    ordered = sorted(samples)
    count = sum(weight for _, weight in ordered)
    if not count:
        return None
    mean = sum(value * weight for value, weight in ordered) / count
    return _rounded({**_quantiles(ordered, count), "max": ordered[-1][0], "mean": mean, "count": count})


def _quantiles(ordered: Sequence[Sample], count: float) -> dict[str, float]:
    """Return of each share the least number that so many are not above; numbers ascend."""
    found: dict[str, float] = {}
    seen, shares = 0.0, list(SHARES.items())
    for value, weight in ordered:
        seen += weight
        # Weights are parts of whole numbers, and their sum may miss one by a hair.
        while shares and seen >= shares[0][1] * count * (1 - 1e-9):
            found[shares.pop(0)[0]] = value
    return found


def _rounded(summary: dict[str, float]) -> dict[str, Any]:
    return {name: round(value) if name == "count" else round(value, 3) for name, value in summary.items()}


class LatencyBook:
    """The latencies of all sinks, by uid."""

    def __init__(self) -> None:
        self._total: dict[str, Spread] = {}
        self._slots: dict[str, deque[tuple[int, Spread]]] = {}

    def note(self, sink: str, samples: Sequence[Sample], now_ms: float) -> None:
        """Take in the latencies of an epoch that is to be seen since `now_ms`."""
        self._total.setdefault(sink, Spread()).add(samples)
        slots = self._slots.setdefault(sink, deque())
        slot = int(now_ms // SLOT_MS)
        if not slots or slots[-1][0] != slot:
            slots.append((slot, Spread()))
        slots[-1][1].add(samples)
        while slots[0][0] <= slot - SLOTS:
            slots.popleft()

    def newest(self, sink: str, now_ms: float) -> dict[str, Any] | None:
        """Return how the latencies of the last half minute are spread."""
        whole = Spread()
        for slot, spread in self._slots.get(sink, ()):
            if slot > int(now_ms // SLOT_MS) - SLOTS:
                whole.merge(spread)
        return whole.summary()

    def total(self, sink: str) -> dict[str, Any] | None:
        """Return how all latencies since the driver started are spread, with their sum."""
        spread = self._total.get(sink)
        summary = None if spread is None else spread.summary()
        return None if spread is None or summary is None else {**summary, "sum": round(spread.total, 3)}
