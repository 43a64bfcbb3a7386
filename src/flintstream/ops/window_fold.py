"""Folding records of tumbling windows into partial results, on columns. Used before the shuffle and behind it.

A partial result is a table of key columns (see `window_keys`) and accumulators, several rows of which may have one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.window_assigner import require_timestamp
from flintstream.ops.aggregates import Aggregate, ColumnAggregate, column_aggregate
from flintstream.ops.batch import I64, Values
from flintstream.ops.window_keys import are_of_one_type, joined_key, key_columns, key_names, numbered_keys, tidied
from flintstream.state.keygroups import hash_column, key_groups

_FEW_WINDOWS = 4
_NUMBER = "k0:int"


class WindowFolder:
    """The arithmetic of one declared window: its grid and its aggregates."""

    def __init__(self, assigner: Any, aggregates: Sequence[tuple[str, Aggregate]]) -> None:
        self._assigner = assigner
        self.size: int = assigner.size_ms
        self.offset: int = assigner.offset_ms
        self.aggregates: list[tuple[str, ColumnAggregate]] = [
            (name, column_aggregate(aggregate, f"a{index}.")) for index, (name, aggregate) in enumerate(aggregates)
        ]

    def starts(self, timestamps: I64) -> I64:
        """Return the start of each record's window."""
        require_timestamp(self._assigner, int(timestamps.min(initial=0)))
        return timestamps - (timestamps - self.offset) % self.size

    def partials(self, values: Values, keys: Values, starts: I64) -> Iterator[tuple[int, pa.Table]]:
        """Yield a partial result for each window that some record is in."""
        for start, part in self.inputs(values, keys, starts):
            yield start, self.fold(part)

    def inputs(self, values: Values, keys: Values, starts: I64) -> Iterator[tuple[int, pa.Table]]:
        """Yield for each window its records, as the columns that `fold` needs of them."""
        columns = key_columns(*keys.column())
        for _, aggregate in self.aggregates:
            columns.update(aggregate.inputs(values))
        return _by_window(starts, pa.table(columns))

    def fold(self, table: pa.Table) -> pa.Table:
        """Fold records that were taken apart by `inputs` into a partial result."""
        return self._grouped(table, [step for _, aggregate in self.aggregates for step in aggregate.folds(table)])

    def merge(self, table: pa.Table) -> pa.Table:
        """Fold the rows of each key into one."""
        table = tidied(table)
        steps = [step for _, aggregate in self.aggregates for step in aggregate.merges(table)]
        if are_of_one_type(table):
            return self._grouped(table, steps)
        numbers, keys = numbered_keys(table)
        table = table.drop_columns(key_names(table)).append_column(_NUMBER, pa.array(numbers))
        # Arrow gives groups in the order of their first rows, which is that of the numbers.
        merged = self._grouped(table, steps).drop_columns([_NUMBER])
        return pa.table({**keys, **{name: merged.column(name) for name in merged.column_names}})

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


def with_groups(table: pa.Table, max_parallelism: int) -> pa.Table:
    """Return a partial result with the key group of each row."""
    groups = key_groups(hash_column(*joined_key(table)), max_parallelism).astype(np.int32)
    return table.append_column(pa.field("key_group", pa.int32()), pa.array(groups))
