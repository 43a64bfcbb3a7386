"""Timers of one operator in one partition: ordered, de-duplicated, deletable, part of its state.

Due timers come in the order (time, hash of the key, place of the namespace), which depends neither on the parallelism
nor on a restart between registering and firing. `due` is the earliest time, read by operators once per record, so it is
an attribute and not a call.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.windows import TimeWindow
from flintstream.state.codec import kind_of_field
from flintstream.state.keygroups import hash_column, hash_key
from flintstream.state.table import Table, read_entries

NEVER = MAX_TIMESTAMP + 1
"""Later than any watermark: a timer at MAX_TIMESTAMP still fires at the end of the input."""
_SLACK = 64


@lru_cache(maxsize=100_000)
def order_of(key: Any) -> int:
    """Return a key's place among timers of the same time, as a non-negative 63-bit number."""
    return hash_key(key) >> 1


def place_of(namespace: Any) -> tuple[int, int]:
    """Return a namespace's place among the timers of one key and time: windows of time come in order."""
    if namespace is None:
        return 0, 0
    if isinstance(namespace, TimeWindow):
        return namespace.start, namespace.end
    return order_of(namespace), 0


class TimerTable(Table):
    """Rows `(key, namespace, time)`; a namespace tells a window's timers from another's and is None otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(name, parts=3, has_value=False)
        self.due: int = NEVER
        self._heap: list[tuple[int, int, tuple[int, int], int, Any]] = []
        self._count = 0

    def register(self, key: Any, namespace: Any, time: int) -> None:
        """Add a timer; one that is there already is not added again."""
        entry = (key, namespace, time)
        if entry not in self.data:
            self.data[entry] = True
            self.dirty.add(entry)
            self._push(entry)

    def unregister(self, key: Any, namespace: Any, time: int) -> None:
        """Remove a timer if it is there."""
        entry = (key, namespace, time)
        if entry in self.data:
            self.delete(entry)
            self._settle()
            if len(self._heap) > 2 * len(self.data) + _SLACK:
                self._forget_deleted()

    def first(self) -> tuple[int, int]:
        """Return time and key hash of the next timer; there must be one."""
        return self._heap[0][:2]

    def pop_due(self, until: int) -> tuple[Any, Any, int, int] | None:
        """Remove and return the next timer not after `until` as (key, namespace, time, key hash)."""
        if self.due > until:
            return None
        time, key_hash, _, _, entry = heapq.heappop(self._heap)
        self.delete(entry)
        self._settle()
        return entry[0], entry[1], time, key_hash

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        # A worker that takes a partition over from another gets all timers at once: they are put in order together.
        if self.data or keep_gone or batch.column("gone").true_count:
            super().apply(batch, keep_gone)
            return
        entries = read_entries(batch, self.parts)
        self.data.update(dict.fromkeys(entries, True))
        column = batch.schema.get_field_index("key")
        orders = hash_column(batch.column(column), kind_of_field(batch.schema.field(column))) >> np.uint64(1)
        numbered = enumerate(zip(orders.tolist(), entries, strict=True), self._count + 1)
        self._heap = [(entry[2], order, place_of(entry[1]), number, entry) for number, (order, entry) in numbered]
        self._count += len(entries)
        heapq.heapify(self._heap)
        self.due = self._heap[0][0] if self._heap else NEVER

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        for entry in entries:
            if entry not in self.data:
                self.data[entry] = True
                self._push(entry)

    def unload(self, entry: Any) -> None:
        super().unload(entry)
        self._settle()

    def clear(self) -> None:
        super().clear()
        self._heap.clear()
        self.due = NEVER

    def _push(self, entry: Any) -> None:
        key, namespace, time = entry
        self._count += 1
        heapq.heappush(self._heap, (time, order_of(key), place_of(namespace), self._count, entry))
        if time < self.due:
            self.due = time

    def _settle(self) -> None:
        """Drop deleted timers from the top, so that `due` is the time of one that is there."""
        heap = self._heap
        while heap and heap[0][4] not in self.data:
            heapq.heappop(heap)
        self.due = heap[0][0] if heap else NEVER

    def _forget_deleted(self) -> None:
        """Drop all deleted timers: one that is moved on and on into the future must not leave a trail in memory."""
        live = {held[4]: held for held in self._heap if held[4] in self.data}
        self._heap = list(live.values())
        heapq.heapify(self._heap)
