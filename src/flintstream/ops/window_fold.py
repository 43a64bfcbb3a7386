"""Folding records of tumbling windows into partial results, on columns. Used before the shuffle and behind it.

A partial result is a table of key columns and accumulators, several rows of which may have one key. Key columns carry
their kind in their name (`k0:str`), so that a table alone says how to rebuild its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import UnsupportedError, describe
from flintstream.ops.aggregates import Aggregate, ColumnAggregate, column_aggregate
from flintstream.ops.batch import I64, Values
from flintstream.state.codec import Kind
from flintstream.state.keygroups import hash_column, key_groups

_FEW_WINDOWS = 4


class WindowFolder:
    """The arithmetic of one declared window: its grid and its aggregates."""

    def __init__(self, assigner: Any, aggregates: Sequence[tuple[str, Aggregate]]) -> None:
        self.size: int = assigner.size_ms
        self.offset: int = assigner.offset_ms
        self.aggregates: list[tuple[str, ColumnAggregate]] = [
            (name, column_aggregate(aggregate, f"a{index}.")) for index, (name, aggregate) in enumerate(aggregates)
        ]

    def starts(self, timestamps: I64) -> I64:
        """Return the start of each record's window."""
        return timestamps - (timestamps - self.offset) % self.size

    def partials(self, values: Values, keys: Values, starts: I64) -> Iterator[tuple[int, pa.Table]]:
        """Yield a partial result for each window that some record is in."""
        array, kind = keys.column()
        columns = dict(key_columns(array, kind))
        for _, aggregate in self.aggregates:
            columns.update(aggregate.inputs(values))
        for start, part in _by_window(starts, pa.table(columns)):
            yield start, self._grouped(part, [s for _, aggregate in self.aggregates for s in aggregate.folds(part)])

    def merge(self, table: pa.Table) -> pa.Table:
        """Fold the rows of each key into one."""
        return self._grouped(table, [step for _, aggregate in self.aggregates for step in aggregate.merges(table)])

    @staticmethod
    def _grouped(table: pa.Table, steps: list[tuple[str, str, str]]) -> pa.Table:
        """Aggregate by key: each step is (input column, Arrow's function, output column)."""
        keys = key_names(table)
        wanted = [(column, function) for column, function, _ in steps]
        grouped = table.group_by(keys, use_threads=False).aggregate(wanted)
        renamed: dict[str, Any] = {name: grouped.column(name) for name in keys}
        for column, function, output in steps:
            renamed[output] = grouped.column(f"{column}_{function}")
        return pa.table(renamed)


def _by_window(starts: I64, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    first, last = int(starts.min()), int(starts.max())
    if first == last:
        yield first, table
        return
    distinct = np.unique(starts).tolist()
    if len(distinct) <= _FEW_WINDOWS:
        for start in distinct:
            yield start, table.filter(pa.array(starts == start))
        return
    order = np.argsort(starts, kind="stable")
    table = table.take(pa.array(order))
    at = 0
    for start, count in zip(distinct, np.unique(starts, return_counts=True)[1].tolist(), strict=True):
        yield start, table.slice(at, count)
        at += count


def key_columns(array: pa.Array, kind: Kind) -> Iterator[tuple[str, pa.Array]]:
    """Yield a key as columns that can be grouped by."""
    if type(kind) is list and kind[0] in ("tuple", "row", "class") and all(type(k) is str for k in kind[-1]):
        for index, inner in enumerate(kind[-1]):
            yield f"k{index}:{inner}", array.field(index)
    elif type(kind) is str:
        yield f"k0:{kind}", array
    else:
        what = f"a key of this kind cannot be aggregated on columns: {kind!r}"
        raise UnsupportedError(describe(what, None, "key by fields or tuples, or use aggregate(AggregateFunction)"))


def key_names(table: pa.Table) -> list[str]:
    """Return the names of a partial result's key columns."""
    return [name for name in table.column_names if name.startswith("k") and ":" in name]


def joined_key(table: pa.Table) -> tuple[pa.Array, Kind]:
    """Return a partial result's keys as one column."""
    names = key_names(table)
    kinds = [name.partition(":")[2] for name in names]
    arrays = [flat(table.column(name)) for name in names]
    if len(names) == 1:
        return arrays[0], kinds[0]
    return pa.StructArray.from_arrays(arrays, [f"f{i}" for i in range(len(arrays))]), ["tuple", kinds]


def with_groups(table: pa.Table, max_parallelism: int) -> pa.Table:
    """Return a partial result with the key group of each row."""
    groups = key_groups(hash_column(*joined_key(table)), max_parallelism).astype(np.int32)
    return table.append_column(pa.field("key_group", pa.int32()), pa.array(groups))


def flat(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
