"""Tumbling event-time windows with built-in aggregates, computed on columns.

A run becomes one partial result per window by a single grouped aggregation, whatever the number of records; no Python
code runs per record or per key. Since a record that comes after its window fired is late, all records of a run can be
folded before any of its windows fires, and the result is that of the record path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import UnsupportedError, describe
from flintstream.ops.aggregates import Aggregate, ColumnAggregate, column_aggregate
from flintstream.ops.batch import Batch, Stamp, Values
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.selectors import FieldKey, KeySource
from flintstream.state.codec import Kind
from flintstream.state.keygroups import hash_column, key_groups
from flintstream.state.partials import PartialTable

_FEW_WINDOWS = 4


class ColumnWindowOperator(Operator):
    """Counts, sums, minima, maxima and averages per key and window."""

    def __init__(
        self,
        assigner: Any,
        key: KeySource,
        aggregates: Sequence[tuple[str, Aggregate]],
        allowed_lateness_ms: int,
        late_tag: str | None,
    ) -> None:
        self._size: int = assigner.size_ms
        self._offset: int = assigner.offset_ms
        self._key_names = [str(field) for field in key.fields] if isinstance(key, FieldKey) else ["key"]
        self._late_tag = late_tag
        self._aggregates: list[tuple[str, ColumnAggregate]] = [
            (name, column_aggregate(aggregate, f"a{index}.")) for index, (name, aggregate) in enumerate(aggregates)
        ]

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._table = ctx.backend.table(f"{ctx.uid}/windows", lambda: PartialTable(self._merge))

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a window is always behind an exchange"
        raise AssertionError(msg)

    def process_run(self, run: Run, out: Output) -> None:
        if len(run.batch):
            self._fold(run, out)
        self._fire(run, out)

    def _fold(self, run: Run, out: Output) -> None:
        batch = run.batch
        assert batch.keys is not None and batch.watermarks is not None
        starts = batch.timestamps - (batch.timestamps - self._offset) % self._size
        late = starts + (self._size - 1) <= batch.watermarks
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
        table = self._columns(batch.values, batch.keys)
        for start, part in self._by_window(starts, table):
            self._table.add(start, self._partial(part))

    def _columns(self, values: Values, keys: Values) -> pa.Table:
        """Return the columns to aggregate: key, and what each aggregate wants of the records."""
        array, kind = keys.column()
        columns = dict(key_columns(array, kind))
        for _, aggregate in self._aggregates:
            columns.update(aggregate.inputs(values))
        return pa.table(columns)

    def _by_window(self, starts: Any, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        distinct = np.unique(starts).tolist()
        if len(distinct) == 1:
            yield distinct[0], table
        elif len(distinct) <= _FEW_WINDOWS:
            for start in distinct:
                yield start, table.filter(pa.array(starts == start))
        else:
            order = np.argsort(starts, kind="stable")
            table = table.take(pa.array(order))
            counts = np.unique(starts[order], return_counts=True)[1].tolist()
            at = 0
            for start, count in zip(distinct, counts, strict=True):
                yield start, table.slice(at, count)
                at += count

    def _partial(self, table: pa.Table) -> pa.Table:
        return self._grouped(table, [step for _, aggregate in self._aggregates for step in aggregate.folds(table)])

    def _merge(self, table: pa.Table) -> pa.Table:
        return self._grouped(table, [step for _, aggregate in self._aggregates for step in aggregate.merges(table)])

    def _grouped(self, table: pa.Table, steps: list[tuple[str, str, str]]) -> pa.Table:
        """Aggregate by key: each step is (input column, Arrow's function, output column)."""
        keys = [name for name in table.column_names if name.startswith("k")]
        keys = [name for name in keys if name != "key_group"]
        options = [(column, function) for column, function, _ in steps]
        grouped = table.group_by(keys, use_threads=False).aggregate(options)
        renamed: dict[str, Any] = {name: grouped.column(name) for name in keys}
        for column, function, output in steps:
            renamed[output] = grouped.column(f"{column}_{function}")
        renamed["key_group"] = self._groups(renamed, keys)
        return pa.table(renamed)

    def _groups(self, columns: dict[str, Any], keys: list[str]) -> pa.Array:
        hashes = hash_column(*joined_key(columns, keys))
        return pa.array(key_groups(hashes, self._ctx.backend.max_parallelism).astype(np.int32))

    def _fire(self, run: Run, out: Output) -> None:
        due = sorted(start for start in self._table.windows if start + self._size - 1 <= run.end)
        fired = [self._result(start, run) for start in due]
        for batch in fired:
            out.emit(batch)

    def _result(self, start: int, run: Run) -> Batch:
        """Return a window's results, in an order that does not depend on the parallelism."""
        merged = self._merge(self._table.pop(start)).combine_chunks()
        keys = [name for name in merged.column_names if name.startswith("k") and name != "key_group"]
        key, kind = joined_key({name: merged.column(name) for name in keys}, keys)
        hashes = (hash_column(key, kind) >> np.uint64(1)).astype(np.int64)
        order = np.argsort(hashes, kind="stable")
        merged = merged.take(pa.array(order))
        hashes, count = hashes[order], merged.num_rows
        last = start + self._size - 1
        step = int(np.searchsorted(run.watermarks, last))
        values = self._records(merged, keys, start)
        stamp: Stamp = [np.full(count, column[step]) for column in run.stamp]
        stamp += [np.full(count, last), hashes, np.zeros(count, np.int64)]
        return Batch(values, np.full(count, last), stamp, np.full(count, run.watermarks[step]))

    def _records(self, merged: pa.Table, keys: list[str], start: int) -> Values:
        count = merged.num_rows
        names = [*self._key_names]
        columns = [flat(merged.column(name)) for name in keys]
        kinds: list[Kind] = [_scalar_kind(name) for name in keys]
        if len(columns) != len(names):
            columns, kinds = [pa.StructArray.from_arrays(columns, [f"f{i}" for i in range(len(columns))])], [["tuple", kinds]]
        for name, value in (("window_start", start), ("window_end", start + self._size)):
            names.append(name)
            columns.append(pa.array(np.full(count, value, np.int64)))
            kinds.append("int")
        for name, aggregate in self._aggregates:
            column = aggregate.result(merged)
            names.append(name)
            columns.append(column)
            kinds.append("float" if pa.types.is_floating(column.type) else _natural_kind(column))
        return Values(None, pa.StructArray.from_arrays(columns, names), ["row", names, kinds])


def key_columns(array: pa.Array, kind: Kind) -> Iterator[tuple[str, pa.Array]]:
    """Yield a key as columns that can be grouped by; the column's name remembers the kind: `k0:str`."""
    if type(kind) is list and kind[0] in ("tuple", "row", "class") and all(type(k) is str for k in kind[-1]):
        for index, inner in enumerate(kind[-1]):
            yield f"k{index}:{inner}", array.field(index)
    elif type(kind) is str:
        yield f"k0:{kind}", array
    else:
        what = f"a key of this kind cannot be aggregated on columns: {kind!r}"
        raise UnsupportedError(describe(what, None, "key by fields or tuples, or use aggregate(AggregateFunction)"))


def joined_key(columns: dict[str, Any], names: list[str]) -> tuple[pa.Array, Kind]:
    """Return key columns as one key column again."""
    if len(names) == 1:
        return flat(columns[names[0]]), _scalar_kind(names[0])
    arrays = [flat(columns[name]) for name in names]
    array = pa.StructArray.from_arrays(arrays, [f"f{i}" for i in range(len(arrays))])
    return array, ["tuple", [_scalar_kind(name) for name in names]]


def flat(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _scalar_kind(name: str) -> str:
    return name.partition(":")[2]


def _natural_kind(column: pa.Array) -> Kind:
    if pa.types.is_integer(column.type):
        return "int"
    return "str" if pa.types.is_string(column.type) else "any"

