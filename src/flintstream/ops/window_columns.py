"""Tumbling event-time windows with built-in aggregates, computed on columns.

A run becomes one partial result per window by a single grouped aggregation, whatever the number of records; no Python
code runs per record or per key. Since a record that comes after its window fired is late, all records of a run can be
folded before any of its windows fires, and the result is that of the record path. For the same reason records that
cannot be late may be folded before the shuffle already: they come here as partial results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.ops.aggregates import Aggregate
from flintstream.ops.batch import Batch, Stamp, Values
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.selectors import FieldKey, KeySource
from flintstream.ops.window_fold import WindowFolder, with_groups
from flintstream.ops.window_keys import joined_key
from flintstream.state.codec import Kind, decode, encode
from flintstream.state.keygroups import hash_column
from flintstream.state.partials import PartialTable


class ColumnWindowOperator(Operator):
    """Counts, sums, minima, maxima and averages per key and window."""

    def __init__(
        self, assigner: Any, key: KeySource, aggregates: Sequence[tuple[str, Aggregate]], late_tag: str | None
    ) -> None:
        self._folder = WindowFolder(assigner, aggregates)
        self._key_names = [str(field) for field in key.fields] if isinstance(key, FieldKey) else ["key"]
        self._late_tag = late_tag

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._table = ctx.backend.table(f"{ctx.uid}/windows", lambda: PartialTable(self._merge))

    def _merge(self, table: pa.Table) -> pa.Table:
        return with_groups(self._folder.merge(table), self._ctx.backend.max_parallelism)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a window is always behind an exchange"
        raise AssertionError(msg)

    def process_run(self, run: Run, out: Output) -> None:
        if len(run.batch):
            self._fold(run, out)
        self._fire(run, out)

    def add_partial(self, start: int, part: pa.Table) -> None:
        """Take in a partial result that was made before the shuffle, with its key groups."""
        self._table.add(start, part)

    def _fold(self, run: Run, out: Output) -> None:
        batch = run.batch
        assert batch.watermarks is not None
        starts = self._folder.starts(batch.timestamps)
        late = starts + (self._folder.size - 1) <= batch.watermarks
        if late.any():
            lost = np.flatnonzero(late)
            self._ctx.count("late", len(lost))
            if self._late_tag is not None:
                out.emit(batch.take(lost), self._late_tag)
            kept = np.flatnonzero(~late)
            if not len(kept):
                return
            batch, starts = batch.take(kept), starts[kept]
        assert batch.keys is not None
        for start, part in self._folder.partials(batch.values, batch.keys, starts):
            self._table.add(start, with_groups(part, self._ctx.backend.max_parallelism))

    def _fire(self, run: Run, out: Output) -> None:
        last = self._folder.size - 1
        for start in sorted(start for start in self._table.windows if start + last <= run.end):
            out.emit(self._result(start, run))

    def _result(self, start: int, run: Run) -> Batch:
        """Return a window's results, in an order that does not depend on the parallelism."""
        merged = self._folder.merge(self._table.pop(start)).combine_chunks()
        hashes = (hash_column(*joined_key(merged)) >> np.uint64(1)).astype(np.int64)
        order = np.argsort(hashes, kind="stable")
        merged = merged.take(pa.array(order))
        hashes, count = hashes[order], merged.num_rows
        last = start + self._folder.size - 1
        step = int(np.searchsorted(run.watermarks, last))
        stamp: Stamp = [np.full(count, column[step]) for column in run.stamp]
        stamp += [np.full(count, last), hashes, np.zeros(count, np.int64)]
        return Batch(self._records(merged, start), np.full(count, last), stamp, np.full(count, run.watermarks[step]))

    def _records(self, merged: pa.Table, start: int) -> Values:
        """Return the results as rows: the key's fields, the window's borders, the aggregates."""
        count = merged.num_rows
        names = [*self._key_names]
        columns, kinds = self._keys(*joined_key(merged))
        for name, value in (("window_start", start), ("window_end", start + self._folder.size)):
            names.append(name)
            columns.append(pa.array(np.full(count, value, np.int64)))
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
        if width == 1:
            return [key], [kind]
        if type(kind) is list and kind[0] == "tuple":
            return [key.field(index) for index in range(width)], list(kind[1])
        fields = [encode(list(field)) for field in zip(*decode(key, kind), strict=True)]
        return [array for array, _ in fields], [inner for _, inner in fields]
