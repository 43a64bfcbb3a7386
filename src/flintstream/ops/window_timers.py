"""Timers of windows that all keys share, held by window instead of one by one.

With the default trigger every key of a window has its timers at the same times. A `TimerTable` keeps a heap entry for
each, which costs more than most aggregates do; here a window has one heap entry and a set of keys, and gives all keys
that are due at once. The rows of the changelog are those of a `TimerTable`, so that either reads what the other wrote.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.ops.batch import I64
from flintstream.state.codec import encode
from flintstream.state.keygroups import hash_column
from flintstream.state.table import GONE, Table, write_rows
from flintstream.state.timers import NEVER, TimerTable, order_of, place_of

_FEW = 32
"""Up to here, hashing keys one by one is faster than making a column of them."""


class TimerGroup:
    """The keys that have a timer at one time of one window: `kept` are in a changelog, `fresh` are not yet.

    Dicts serve as sets, because they remember the order.
    """

    __slots__ = ("fresh", "kept", "time", "window")

    def __init__(self, time: int, window: Any) -> None:
        self.time = time
        self.window = window
        self.kept: dict[Any, None] = {}
        self.fresh: dict[Any, None] = {}

    def __contains__(self, key: Any) -> bool:
        return key in self.fresh or key in self.kept

    def __iter__(self) -> Iterator[Any]:
        yield from self.kept
        yield from self.fresh

    def __len__(self) -> int:
        return len(self.kept) + len(self.fresh)


class WindowTimers(TimerTable):
    """Rows `(key, window, time)`, held as `(time, window) -> keys`; timers of one time come window by window."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._groups: dict[tuple[int, Any], TimerGroup] = {}
        self._queue: list[tuple[int, tuple[int, int], int, TimerGroup]] = []
        self._made = 0
        self._gone: list[tuple[Any, Any, int]] = []

    def group(self, time: int, window: Any) -> TimerGroup:
        """Return the keys with a timer at that time of that window, to be added to; `fresh` is where new ones go."""
        group = self._groups.get((time, window))
        if group is None:
            group = self._groups[time, window] = TimerGroup(time, window)
            self._made += 1
            heapq.heappush(self._queue, (time, place_of(window), self._made, group))
            self.due = min(self.due, time)
        return group

    def groups(self) -> Iterable[TimerGroup]:
        """Return all timers."""
        return self._groups.values()

    def pop_group(self) -> TimerGroup:
        """Remove and return the timers that are due next."""
        group = heapq.heappop(self._queue)[-1]
        del self._groups[group.time, group.window]
        self._gone.extend((key, group.window, group.time) for key in group.kept)
        self._next()
        return group

    def _next(self) -> None:
        """Drop groups without keys from the top, so that `due` is the time of a timer that is there."""
        while self._queue and not self._queue[0][-1]:
            empty = heapq.heappop(self._queue)[-1]
            del self._groups[empty.time, empty.window]
        self.due = self._queue[0][0] if self._queue else NEVER

    def register(self, key: Any, namespace: Any, time: int) -> None:
        group = self.group(time, namespace)
        if key not in group:
            group.fresh[key] = None

    def unregister(self, key: Any, namespace: Any, time: int) -> None:
        group = self._groups.get((time, namespace))
        if group is not None:
            if key in group.kept:
                del group.kept[key]
                self._gone.append((key, namespace, time))
            group.fresh.pop(key, None)
            self._next()

    def pop_due(self, until: int) -> tuple[Any, Any, int, int] | None:
        if self.due > until:
            return None
        group = self._queue[0][-1]
        key = min(group, key=order_of)
        self.unregister(key, group.window, group.time)
        return key, group.window, group.time, order_of(key)

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        fresh = [(key, group.window, group.time) for group in self._groups.values() for key in group.fresh]
        # Removals first: a timer may have been taken back and set again.
        entries = [*self._gone, *fresh]
        values = [GONE] * len(self._gone) + [True] * len(fresh)
        return write_rows(self, entries, values, max_parallelism) if entries else None

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        entries = [(key, group.window, group.time) for group in self._groups.values() for key in group]
        return write_rows(self, entries, [True] * len(entries), max_parallelism) if entries else None

    def mark_clean(self) -> None:
        self._gone.clear()
        for group in self._groups.values():
            group.kept.update(group.fresh)
            group.fresh.clear()

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        Table.apply(self, batch, keep_gone)

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        for key, window, time in entries:
            self.group(time, window).kept[key] = None

    def unload(self, entry: Any) -> None:
        key, window, time = entry
        group = self._groups.get((time, window))
        if group is not None:
            group.kept.pop(key, None)
            self._next()

    def clear(self) -> None:
        super().clear()
        self._groups.clear()
        self._queue.clear()
        self._gone.clear()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))


def in_timer_order(keys: Iterable[Any]) -> tuple[Sequence[Any], I64]:
    """Return keys in the order in which their timers of one time fire, and their places in it, which are hashes."""
    listed = list(keys)
    if len(listed) <= _FEW:
        hashes = np.fromiter(map(order_of, listed), np.int64, len(listed))
    else:
        hashes = (hash_column(*encode(listed)) >> np.uint64(1)).astype(np.int64)
    order = np.argsort(hashes, kind="stable")
    return [listed[index] for index in order.tolist()], hashes[order]
