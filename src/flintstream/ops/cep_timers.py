"""When the partial matches of keys are over, where nobody waits for the very moment: by stretches of time.

If no result comes of it, it is enough that a partial match whose time is over is gone when its key's next record comes
and when state is written. So no timer has a place in an order: keys are thrown together by stretches of time, and a
stretch that has passed is given back as a whole. The rows of the changelog are those of a `TimerTable`, so that either
reads what the other wrote.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from flintstream.state.table import GONE, Table, write_rows
from flintstream.state.timers import TimerTable

_STRETCHES = 1024
"""In how many stretches a pattern's time is cut: one of them is looked at key by key whenever time advances."""


class _Stretch:
    """The timers of a stretch as key -> time: `kept` are in a changelog, `fresh` are not yet."""

    __slots__ = ("fresh", "kept")

    def __init__(self) -> None:
        self.kept: dict[Any, int] = {}
        self.fresh: dict[Any, int] = {}


class ExpiryTimers(TimerTable):
    """Rows `(key, None, time)`, at most one for a key; none is ever `due`, all that have passed are swept at once."""

    def __init__(self, name: str, window_ms: int) -> None:
        super().__init__(name)
        self._width = max(1, window_ms // _STRETCHES)
        self._stretches: dict[int, _Stretch] = {}
        self._queue: list[int] = []
        self._gone: list[tuple[Any, None, int]] = []

    def _stretch(self, number: int) -> _Stretch:
        stretch = self._stretches.get(number)
        if stretch is None:
            stretch = self._stretches[number] = _Stretch()
            heapq.heappush(self._queue, number)
        return stretch

    def register(self, key: Any, namespace: Any, time: int) -> None:
        """Set the timer of a key that has none."""
        number = time // self._width
        stretch = self._stretches.get(number) or self._stretch(number)
        stretch.fresh[key] = time

    def unregister(self, key: Any, namespace: Any, time: int) -> None:
        stretch = self._stretches.get(time // self._width)
        if stretch is not None and stretch.fresh.pop(key, None) is None and stretch.kept.pop(key, None) is not None:
            self._gone.append((key, None, time))

    def sweep(self, until: int) -> list[Any]:
        """Remove the timers not after `until` and return their keys, in no order."""
        found: list[Any] = []
        queue, width = self._queue, self._width
        while queue and (queue[0] + 1) * width - 1 <= until:
            self._remove(found, self._stretches.pop(heapq.heappop(queue)))
        if queue and queue[0] * width <= until:
            self._remove_some(found, self._stretches[queue[0]], until)
        return found

    def _remove(self, found: list[Any], stretch: _Stretch) -> None:
        found += stretch.kept
        found += stretch.fresh
        self._gone.extend((key, None, time) for key, time in stretch.kept.items())

    def _remove_some(self, found: list[Any], stretch: _Stretch, until: int) -> None:
        over = _Stretch()
        over.kept = {key: time for key, time in stretch.kept.items() if time <= until}
        over.fresh = {key: time for key, time in stretch.fresh.items() if time <= until}
        for key in over.kept:
            del stretch.kept[key]
        for key in over.fresh:
            del stretch.fresh[key]
        self._remove(found, over)

    def _entries(self, fresh_only: bool) -> Iterator[tuple[Any, None, int]]:
        for stretch in self._stretches.values():
            for timers in (stretch.fresh,) if fresh_only else (stretch.kept, stretch.fresh):
                for key, time in timers.items():
                    yield key, None, time

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        fresh = list(self._entries(fresh_only=True))
        # Removals first: a timer may have been taken back and set again.
        values = [GONE] * len(self._gone) + [True] * len(fresh)
        return write_rows(self, [*self._gone, *fresh], values, max_parallelism) if values else None

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        entries = list(self._entries(fresh_only=False))
        return write_rows(self, entries, [True] * len(entries), max_parallelism) if entries else None

    def mark_clean(self) -> None:
        self._gone.clear()
        for stretch in self._stretches.values():
            if stretch.fresh:
                stretch.kept.update(stretch.fresh)
                stretch.fresh.clear()

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        Table.apply(self, batch, keep_gone)

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        for key, _, time in entries:
            self._stretch(time // self._width).kept[key] = time

    def unload(self, entry: Any) -> None:
        key, _, time = entry
        stretch = self._stretches.get(time // self._width)
        if stretch is not None and stretch.kept.get(key) == time:
            del stretch.kept[key]

    def clear(self) -> None:
        super().clear()
        self._stretches.clear()
        self._queue.clear()
        self._gone.clear()

    def at_most(self) -> int:
        return len(self)

    def __len__(self) -> int:
        return sum(len(stretch.kept) + len(stretch.fresh) for stretch in self._stretches.values())
