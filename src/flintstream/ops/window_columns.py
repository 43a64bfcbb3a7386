"""Event-time windows with built-in aggregates, computed on columns: what they share, and tumbling ones.

A run becomes one partial result per window by a single grouped aggregation, whatever the number of records; no Python
code runs per record or per key. Since a record that comes after its window fired is late, all records of a run can be
folded before any of its windows fires, and the result is that of the record path. For the same reason records that
cannot be late may be folded before the shuffle already: they come here as partial results.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.queryable import Queryable
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.batch import I64, Batch, Stamp, Values
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.queryable import mark_table
from flintstream.ops.run import Run
from flintstream.ops.selectors import ConstantKey, FieldKey, KeySource
from flintstream.ops.window_fold import Folder, WindowFolder, with_groups
from flintstream.ops.window_keys import joined_key
from flintstream.state.codec import Kind, decode, encode
from flintstream.state.keygroups import hash_column
from flintstream.state.partials import PartialTable


class ColumnOperator(Operator):
    """What all windows on columns share: their state, late records, rows of results.

    With `is_bare` the only aggregate's results are emitted as they are.
    """

    is_bare = False
    queryable: Queryable | None = None

    def __init__(self, assigner: Any, folder: Folder, key: KeySource, late_tag: str | None) -> None:
        self._assigner = assigner
        self._folder = folder
        self._key_names = names_of_key(key)
        self._late_tag = late_tag

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._table = ctx.backend.table(f"{ctx.uid}/windows", lambda: PartialTable(self._merge))
        if self.queryable is not None:
            results = self.queryable.results
            mark_table(ctx, self.queryable, f"{ctx.uid}/windows", "columns", results=results, grid=self._grid_of())

    def _grid_of(self) -> list[int] | None:
        """Return size, slide and offset of windows on a grid."""
        return None

    def _merge(self, table: pa.Table) -> pa.Table:
        return with_groups(self._folder.merge(table), self._ctx.backend.max_parallelism)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a window is always behind an exchange"
        raise AssertionError(msg)

    @property
    def is_waiting(self) -> bool:
        """Whether something was taken in that a run must still work up, even one without records."""
        return False

    @abstractmethod
    def add_partial(self, start: int, part: pa.Table) -> None:
        """Take in what was folded before the shuffle, with its key groups."""

    def _take_late(self, lost: Batch, out: Output) -> None:
        missed = None
        if self._ctx.logs_late:
            missed = [self._assigner.assign_windows(None, time, None) for time in lost.timestamps.tolist()]
        self._ctx.count_late_batch(lost, missed)
        if self._late_tag is not None:
            out.emit(lost, self._late_tag)

    def _records(self, merged: pa.Table, starts: I64, ends: I64) -> Values:
        """Return the results as rows: the key's fields, the window's borders, the aggregates."""
        if self.is_bare:
            return Values(None, *self._folder.aggregates[0][1].result(merged))
        names = [*self._key_names]
        columns, kinds = self._keys(*joined_key(merged))
        for name, times in (("window_start", starts), ("window_end", ends)):
            names.append(name)
            columns.append(pa.array(times))
            kinds.append("int")
        for name, aggregate in self._folder.aggregates:
            column, kind = aggregate.result(merged)
            names.append(name)
            columns.append(column)
            kinds.append(kind)
        return Values(None, pa.StructArray.from_arrays(columns, names), ["row", names, kinds])

    def _keys(self, key: pa.Array, kind: Kind) -> tuple[list[pa.Array], list[Kind]]:
        """Return the key as one column, or field by field where several fields are the key."""
        width = len(self._key_names)
        if width < 2:
            return [key][:width], [kind][:width]
        if type(kind) is list and kind[0] == "tuple":
            return [key.field(index) for index in range(width)], list(kind[1])
        fields = [encode(list(field)) for field in zip(*decode(key, kind), strict=True)]
        return [array for array, _ in fields], [inner for _, inner in fields]


class ColumnWindowOperator(ColumnOperator):
    """Built-in aggregates per key and tumbling window."""

    def __init__(
        self, assigner: Any, key: KeySource, aggregates: Sequence[tuple[str, Aggregate]], late_tag: str | None
    ) -> None:
        self._grid = WindowFolder(assigner, aggregates)
        super().__init__(assigner, self._grid, key, late_tag)

    def _grid_of(self) -> list[int] | None:
        return [self._grid.size, self._grid.slide, self._grid.offset]

    def process_run(self, run: Run, out: Output) -> None:
        if len(run.batch):
            self._fold(run, out)
        self._fire(run, out)

    def add_partial(self, start: int, part: pa.Table) -> None:
        self._table.add(start, part)

    def _fold(self, run: Run, out: Output) -> None:
        batch = run.batch
        assert batch.watermarks is not None
        starts = self._grid.starts(batch.timestamps)
        late = self._grid.last_ends(starts) - 1 <= batch.watermarks
        if late.any():
            self._take_late(batch.take(np.flatnonzero(late)), out)
            kept = np.flatnonzero(~late)
            if not len(kept):
                return
            batch, starts = batch.take(kept), starts[kept]
        self._put(batch, starts)

    def _put(self, batch: Batch, starts: I64) -> None:
        """Fold records into their slices."""
        for start, part in self._partials(batch, starts):
            self._table.add(start, part)

    def _partials(self, batch: Batch, starts: I64) -> Iterator[tuple[int, pa.Table]]:
        assert batch.keys is not None
        for start, part in self._grid.partials(batch.values, batch.keys, starts, batch.timestamps):
            yield start, with_groups(part, self._ctx.backend.max_parallelism)

    def _fire(self, run: Run, out: Output) -> None:
        size = self._grid.size
        for start in sorted(start for start in self._table.windows if start + size - 1 <= run.end):
            self._emit(self._table.pop(start), start, start + size, run, out)

    def _emit(self, rows: pa.Table, start: int, end: int, run: Run, out: Output) -> None:
        """Emit a window's results, in an order that does not depend on the parallelism."""
        merged = self._folder.merge(rows).combine_chunks()
        hashes = (hash_column(*joined_key(merged)) >> np.uint64(1)).astype(np.int64)
        order = np.argsort(hashes)
        merged = merged.take(pa.array(order))
        hashes, count = hashes[order], merged.num_rows
        last = end - 1
        step = int(np.searchsorted(run.watermarks, last))
        stamp: Stamp = [np.full(count, column[step]) for column in run.stamp]
        stamp += [np.full(count, last), hashes, np.zeros(count, np.int64)]
        records = self._records(merged, np.full(count, start), np.full(count, end))
        out.emit(Batch(records, np.full(count, last), stamp, run.before(np.full(count, step))))


def names_of_key(key: KeySource) -> list[str]:
    """Return the names of the fields that a key has in a row of results; that of a whole stream has none."""
    if isinstance(key, ConstantKey):
        return []
    return [str(field) for field in key.fields] if isinstance(key, FieldKey) else ["key"]
