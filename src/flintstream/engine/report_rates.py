"""Rates over the newest seconds, from totals that are noted after every epoch.

A few points are kept, never more than the span needs, however short epochs are. While an epoch is at work nothing is
known of it yet, so the rate is that of the time before it; while nothing is at work, time counts, and the rate falls.

Flink: MeterView, which has a slot for every five seconds of a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Totals = Mapping[str, tuple[float, ...]]
SPAN_SECONDS = 10.0
_LEAST_GAP = 0.25


class Rates:
    """Totals of the last seconds, by name."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, Totals]] = deque()

    def begin(self, moment: float, totals: Totals) -> None:
        """Count from these totals on: what was there before was not done now."""
        self._points.clear()
        self._points.append((moment, totals))

    def note(self, moment: float, totals: Totals) -> None:
        """Take in totals as they are at a moment."""
        points = self._points
        if len(points) > 1 and moment - points[-2][0] < _LEAST_GAP:
            points.pop()
        points.append((moment, totals))
        while len(points) > 2 and points[1][0] <= moment - SPAN_SECONDS:
            points.popleft()

    def per_second(self, until: float | None = None) -> dict[str, tuple[float, ...]]:
        """Return how fast each total grew, up to the newest point, or up to a moment if it is later."""
        if not self._points:
            return {}
        end, newest = self._points[-1]
        end = max(end, until or end)
        start, oldest = self._points[0]
        for moment, totals in self._points:
            if moment > end - SPAN_SECONDS:
                break
            start, oldest = moment, totals
        seconds = end - start
        zeros = (0.0,) * max(map(len, newest.values()), default=0)
        if seconds <= 0:
            return {name: zeros[: len(values)] for name, values in newest.items()}
        return {
            name: tuple((new - old) / seconds for new, old in zip(values, oldest.get(name, zeros), strict=False))
            for name, values in newest.items()
        }

    @property
    def seconds(self) -> float:
        """How long the time is that the points cover."""
        return self._points[-1][0] - self._points[0][0] if self._points else 0.0
