"""Drives one window operator without an engine: records and watermarks in, emissions with their stamps out.

A **script** is a list of steps. `feed` plays one stretch of it as one run, so where a script is cut into runs is up to
the test; `restart` throws everything in memory away and goes on from the changelogs, as another process would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from flintstream.model.functions import AggregateFunction
from flintstream.model.functions_window import ProcessWindowFunction
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import Batch, Values, sort_order
from flintstream.ops.operator import MAIN, OperatorContext
from flintstream.ops.run import Run, watermarks_before
from flintstream.ops.window import WindowOperator
from flintstream.state.backend import KeyedBackend
from flintstream.state.map_table import MapTable

UID = "window"


class Record(NamedTuple):
    """A record of the input."""

    key: Any
    value: Any
    timestamp: int = MIN_TIMESTAMP


class Watermark(NamedTuple):
    """Event time advances."""

    time: int


Step = Record | Watermark
END = Watermark(MAX_TIMESTAMP)


class Emission(NamedTuple):
    """An output."""

    tag: str
    value: Any
    timestamp: int
    stamp: tuple[int, ...]


class WindowHarness:
    """One operator in one partition; `build` makes a new one after each restart."""

    def __init__(self, build: Callable[[], WindowOperator]) -> None:
        self._build = build
        self._watermark = MIN_TIMESTAMP
        self._now = 0
        self._position = -1
        self._changelogs: list[dict[str, pa.RecordBatch]] = []
        self.late = 0
        self.emitted: list[Emission] = []
        self.spilled: dict[str, dict[Any, Any]] = {}
        self._open()

    def _open(self) -> None:
        self.backend = KeyedBackend(16, range(16))
        for changes in self._changelogs:
            self.backend.apply(changes)
        self.ctx = OperatorContext(UID, "the window", 0, 1, self.backend)
        self.operator = self._build()
        self.operator.open(self.ctx)

    def feed(self, *steps: Step) -> list[Emission]:
        """Play steps as one run and return what they caused."""
        begin = len(self.emitted)
        self.operator.process_run(self._run(steps), self)
        self.late += self.ctx.counters.pop("late", 0)
        return self.emitted[begin:]

    def set_processing_time(self, now: int) -> list[Emission]:
        """Start an epoch at a later processing time and return what that caused."""
        begin = len(self.emitted)
        self._now = now
        self.operator.on_processing_time(now, self._run(()), self)
        return self.emitted[begin:]

    def commit(self) -> dict[str, pa.RecordBatch]:
        """End an epoch: return its changelog, from which a restart goes on."""
        changes = self.backend.delta()
        self._changelogs.append(changes)
        return changes

    def restart(self, build: Callable[[], WindowOperator] | None = None) -> None:
        """Commit, forget everything in memory, and go on from the changelogs, maybe with another operator."""
        self.commit()
        self.operator.close()
        self._build = build or self._build
        self._open()

    def spill(self) -> None:
        """Move out of memory what need not be there, as a partition with too much state does between runs."""
        for name, table in self.backend.spillable().items():
            store = self.spilled.setdefault(name, {})
            touched = {scope for scope, _ in table.dirty} if isinstance(table, MapTable) else table.dirty
            for entry in [*touched, *table.data]:
                store[entry] = table.data.get(entry)
            table.clear()
            table.data.fallback = partial(_look_up, table, store)

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        """Take an output; it must be in stamp order, or every operator downstream goes wrong."""
        assert sort_order(batch.stamp) is None, f"output not in stamp order: {batch.stamp}"
        assert batch.watermarks is not None
        stamps = zip(*(column.tolist() for column in batch.stamp), strict=True)
        rows = zip(batch.values.rows(), batch.timestamps.tolist(), stamps, strict=True)
        self.emitted += [Emission(tag, value, timestamp, stamp) for value, timestamp, stamp in rows]

    def entries(self) -> dict[str, int]:
        """Return the rows that each table holds, without the empty ones."""
        return {name.removeprefix(f"{UID}/"): rows for name, rows in self.backend.entries().items() if rows}

    def values(self, tag: str = MAIN) -> list[Any]:
        """Return all values emitted so far by one output."""
        return [emission.value for emission in self.emitted if emission.tag == tag]

    def _run(self, steps: Sequence[Step]) -> Run:
        start = self._watermark
        records: list[Record] = []
        stamps: list[tuple[int, int, int]] = []
        advances: list[tuple[int, int]] = []
        advance_stamps: list[tuple[int, int, int]] = []
        for step in steps:
            if isinstance(step, Record):
                self._position += 1
                records.append(step)
                stamps.append((self._watermark, 0, self._position))
            elif step.time > self._watermark:
                # A step has the position of the record that caused it, as level 0 gives it.
                advances.append((step.time, len(records)))
                advance_stamps.append((self._watermark, 0, self._position))
                self._watermark = step.time
        watermarks, insertion = _columns(advances, 2)
        batch = Batch(
            Values([record.value for record in records]),
            np.array([record.timestamp for record in records], np.int64),
            _columns(stamps, 3),
            watermarks_before(start, watermarks, insertion, len(records)),
            Values([record.key for record in records]),
        )
        return Run(batch, watermarks, insertion, _columns(advance_stamps, 3), start, self._now)


def _look_up(table: Any, store: dict[Any, Any], entry: Any) -> Any:
    """Return what was moved out of memory, unless memory says that it was removed since."""
    if isinstance(table, MapTable):
        held = store.get(entry) or {}
        return {inner: value for inner, value in held.items() if (entry, inner) not in table.dirty} or None
    return None if entry in table.dirty else store.get(entry)


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Any]:
    return [np.array([row[index] for row in rows], np.int64) for index in range(width)]


def play(
    build: Callable[[], WindowOperator],
    script: Sequence[Step],
    cuts: Iterable[int] = (),
    restarts: Iterable[int] = (),
) -> WindowHarness:
    """Play a script, cut into runs at `cuts`, with a commit and a restart at `restarts`."""
    harness = WindowHarness(build)
    restarts = set(restarts)
    bounds = sorted({0, *cuts, *restarts, len(script)})
    for start, stop in pairwise(bounds):
        if start in restarts:
            harness.restart()
        harness.feed(*script[start:stop])
    return harness


class Total(AggregateFunction):
    """Sum and number of values; the result is `(sum, number)`."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Describe(ProcessWindowFunction[Any, Any, Any, Any]):
    """Emits `(key, start, end, elements)`."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, list(elements)


class Contents(ProcessWindowFunction[Any, Any, Any, Any]):
    """Emits `(key, elements)`, for windows of any kind."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, list(elements)
