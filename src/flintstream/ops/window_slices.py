"""Sliding event-time windows with built-in aggregates, computed on columns.

A record is folded into its slice once, however many windows hold it. When a window fires, its slices are not all added
up again: as in a queue made of two stacks, the older slices keep the merged rest of the window after them, the newer
ones one running total, so that a window costs two merges, and every slice is merged about three times in its life. This
works for all aggregates, not only for those that can be subtracted. Totals are derived: the state is slices alone.

All records of a run are folded before its windows fire, which is right for those that no fired window could hold. One
that comes behind the watermark, too late for some of its windows and in time for others, waits for the first of those.

Flink: the slice sharing of table.runtime.operators.window.tvf.slicing, which keeps one accumulator per slice, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.batch import I64, Batch
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.window_columns import ColumnWindowOperator
from flintstream.state.partials import PartialTable, concat

Total = tuple[int, pa.Table]
"""The start of a slice, and rows of it or from it on."""


class SliceTotals:
    """Totals over the slices of windows that follow each other."""

    def __init__(self, table: PartialTable, merge: Callable[[pa.Table], pa.Table]) -> None:
        self._table = table
        self._merge = merge
        self._generation = -1
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pushed = MIN_TIMESTAMP
        # Older slices, the oldest last, each with all up to the newest of them; then newer ones and their sum.
        self._older: list[Total] = []
        self._newer: list[Total] = []
        self._sum: pa.Table | None = None
        self._patches: list[Total] = []

    def patch(self, start: int, part: pa.Table) -> None:
        """Tell of rows that came for a slice behind the watermark."""
        if start < self._pushed:
            self._patches.append((start, part))

    def between(self, start: int, end: int) -> pa.Table | None:
        """Return the rows of a window, of which few have one key; both borders only ever grow."""
        if self._generation != self._table.generation:
            self._begin_anew()
            self._generation = self._table.generation
        for slice_start in sorted(s for s in self._table.windows if max(self._pushed, start) <= s < end):
            rows = self._table.merged(slice_start)
            self._newer.append((slice_start, rows))
            self._sum = rows if self._sum is None else self._merge(concat([self._sum, rows]))
        self._pushed = max(self._pushed, end)
        while self._older and self._older[-1][0] < start:
            self._older.pop()
        if not self._older and self._newer and self._newer[0][0] < start:
            self._turn_over(start)
        self._patches = [patch for patch in self._patches if patch[0] >= start]
        parts = [self._older[-1][1]] if self._older else []
        parts += [] if self._sum is None else [self._sum]
        parts += [rows for _, rows in self._patches]
        return concat(parts) if parts else None

    def _turn_over(self, start: int) -> None:
        """Make all slices older ones."""
        rest: pa.Table | None = None
        for slice_start, rows in reversed(self._newer):
            if slice_start >= start:
                rest = rows if rest is None else self._merge(concat([rows, rest]))
                self._older.append((slice_start, rest))
        self._newer, self._sum = [], None


class SlidingColumnOperator(ColumnWindowOperator):
    """Built-in aggregates per key and sliding window."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._totals = SliceTotals(self._table, self._folder.merge)
        self._behind: list[tuple[int, Batch, I64]] = []

    def _put(self, batch: Batch, starts: I64) -> None:
        assert batch.watermarks is not None
        folder = self._grid
        behind = folder.first_ends(starts) - 1 <= batch.watermarks
        if not behind.any():
            super()._put(batch, starts)
            return
        kept = np.flatnonzero(~behind)
        if len(kept):
            super()._put(batch.take(kept), starts[kept])
        # The first end of a window beyond the watermark, on the grid of ends.
        after = batch.watermarks + 2
        opens = after + (folder.offset + folder.size - after) % folder.slide
        for end in np.unique(opens[behind]).tolist():
            rows = np.flatnonzero(behind & (opens == end))
            self._behind.append((end, batch.take(rows), starts[rows]))

    def _fire(self, run: Run, out: Output) -> None:
        folder = self._grid
        for end in self._ends(run):
            self._let_in(end)
            rows = self._totals.between(end - folder.size, end)
            if rows is not None:
                self._emit(rows, end - folder.size, end, run, out)
        self._let_in(None)
        for start in [start for start in self._table.windows if folder.last_ends(start) - 1 <= run.end]:
            self._table.pop(start)

    def _ends(self, run: Run) -> list[int]:
        """Return the ends of the windows that fire in a run and may hold something."""
        folder = self._grid
        slices = {*self._table.windows, *(start for _, _, starts in self._behind for start in starts.tolist())}
        ends: set[int] = set()
        for start in slices:
            first, last = folder.first_ends(start), folder.last_ends(start)
            if run.start >= first - 1:
                first += -(-(run.start + 2 - first) // folder.slide) * folder.slide
            ends.update(range(first, min(last, run.end + 1) + 1, folder.slide))
        return sorted(ends)

    def _let_in(self, end: int | None) -> None:
        """Fold the records behind the watermark that the window ending at `end` is the first to take; None: all."""
        if not self._behind:
            return
        waiting, self._behind = self._behind, []
        for opens, batch, starts in sorted(waiting, key=lambda each: each[0]):
            if end is not None and opens > end:
                self._behind.append((opens, batch, starts))
                continue
            for start, part in self._partials(batch, starts):
                self._table.add(start, part)
                self._totals.patch(start, part)
