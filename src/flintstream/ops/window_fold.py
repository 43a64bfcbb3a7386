"""Folding records of windows into partial results, on columns. Used before the shuffle and behind it.

Windows on a grid are made of **slices**, the longest stretches that no window's border cuts: a tumbling window is one,
of a sliding one those of the greatest common divisor of size and slide. A record belongs to one slice, whatever the
number of its windows, and slices are what is folded, sent and kept.

A partial result is a table of key columns (see `window_keys`) and accumulators, several rows of which may have one key.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.assigners import SlidingEventTimeWindows
from flintstream.model.window_assigner import require_timestamp
from flintstream.ops.aggregates import Aggregate, column_aggregate
from flintstream.ops.aggregates_column import ColumnAggregate, Grouping, Step
from flintstream.ops.batch import I64, Values
from flintstream.ops.window_dense import summed_densely
from flintstream.ops.window_keys import (
    are_of_one_type,
    joined_key,
    key_columns,
    key_names,
    numbered_alike,
    numbered_keys,
    tidied,
)
from flintstream.state.keygroups import hash_column, key_groups
from flintstream.state.partials import concat

# Columns that came over the shuffle lie where they lay in its bytes. Arrow groups them all the same, but would say so
# on the terminal each time.
os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

_FEW_WINDOWS = 4
_NUMBER = "k0:int"


class Folder:
    """The aggregates of one declared window, as columns."""

    def __init__(self, aggregates: Sequence[tuple[str, Aggregate]]) -> None:
        self.aggregates: list[tuple[str, ColumnAggregate]] = [
            (name, column_aggregate(aggregate, f"a{index}.")) for index, (name, aggregate) in enumerate(aggregates)
        ]
        self.has_lists = any(type(each).fold is not ColumnAggregate.fold for _, each in self.aggregates)
        self._counters = [each.counter for _, each in self.aggregates if each.counter is not None]

    def records(self, values: Values, keys: Values, timestamps: I64) -> pa.Table:
        """Return records as a table of keys and accumulators, one row each; where all count one, nothing says so."""
        columns = key_columns(*keys.column())
        for _, aggregate in self.aggregates:
            columns.update(aggregate.inputs(values, timestamps))
        return pa.table(columns)

    def stacked(self, parts: list[pa.Table]) -> pa.Table:
        """Return the records of several tables as one table."""
        is_alike = all(part.column_names == parts[0].column_names for part in parts[1:])
        return concat(parts if is_alike else [self.counted(part) for part in parts])

    def counted(self, records: pa.Table) -> pa.Table:
        """Return records with all that counts, so that they may stand beside rows that were folded."""
        ones = pa.array(np.ones(records.num_rows, np.int64))
        for name in self._counters:
            if name not in records.column_names:
                records = records.append_column(name, ones)
        return records

    def fold(self, table: pa.Table) -> pa.Table:
        """Fold rows whose keys are of one type, as those of `inputs` are, into one row for each key."""
        if not self.has_lists:
            return self._grouped(table)
        numbers, keys = numbered_alike(table)
        return self._keyed(table, numbers, keys)

    def merge(self, table: pa.Table) -> pa.Table:
        """Fold the rows of each key into one."""
        table = tidied(table)
        if are_of_one_type(table):
            return self.fold(table)
        numbers, keys = numbered_keys(table)
        return self._keyed(table, numbers, keys)

    def numbered(self, table: pa.Table, numbers: I64, extra: Sequence[Step] = ()) -> tuple[pa.Table, I64]:
        """Fold rows by their numbers; return one row for each number, without keys, and the numbers themselves."""
        plain = table.drop_columns(key_names(table)).append_column(_NUMBER, pa.array(numbers))
        merged = self._grouped(plain, extra)
        used = merged.column(_NUMBER).to_numpy()
        merged = merged.drop_columns([_NUMBER])
        if self.has_lists:
            places = np.zeros(int(used.max()) + 1, np.int64)
            places[used] = np.arange(len(used))
            groups = Grouping(places[numbers], len(used))
            columns = {name: merged.column(name) for name in merged.column_names}
            for _, aggregate in self.aggregates:
                columns.update(aggregate.fold(table, groups))
            merged = pa.table(columns)
        return merged, used

    def _keyed(self, table: pa.Table, numbers: I64, keys: dict[str, pa.Array]) -> pa.Table:
        """Fold rows by the numbers of their keys."""
        merged, used = self.numbered(table, numbers)
        own = {name: column.take(pa.array(used)) for name, column in keys.items()}
        return pa.table({**own, **{name: merged.column(name) for name in merged.column_names}})

    def _grouped(self, table: pa.Table, extra: Sequence[Step] = ()) -> pa.Table:
        """Fold by key what can be folded without a look at single rows."""
        keys = key_names(table)
        steps = [*extra, *(step for _, aggregate in self.aggregates for step in aggregate.steps(table))]
        if len(keys) == 1 and (found := summed_densely(table, keys[0], steps)) is not None:
            return pa.table(found)
        wanted: dict[str, tuple[Any, str]] = {
            f"{column}_{function}" if column else function: (column or [], function) for column, function, _ in steps
        }
        grouped = table.group_by(keys, use_threads=False).aggregate(list(wanted.values()))
        renamed: dict[str, Any] = {name: grouped.column(name) for name in keys}
        for column, function, output in steps:
            renamed[output] = grouped.column(f"{column}_{function}" if column else function)
        return pa.table(renamed)


class WindowFolder(Folder):
    """The arithmetic of one declared window: its grid and its aggregates."""

    def __init__(self, assigner: Any, aggregates: Sequence[tuple[str, Aggregate]]) -> None:
        super().__init__(aggregates)
        self._assigner = assigner
        self.size: int = assigner.size_ms
        self.slide: int = assigner.slide_ms if isinstance(assigner, SlidingEventTimeWindows) else assigner.size_ms
        self.slice = math.gcd(self.size, self.slide)
        self.offset: int = assigner.offset_ms

    def starts(self, timestamps: I64) -> I64:
        """Return the start of each record's slice."""
        require_timestamp(self._assigner, int(timestamps.min(initial=0)))
        return timestamps - (timestamps - self.offset) % self.slice

    def first_ends(self, starts: Any) -> Any:
        """Return the end of the first window that holds a slice."""
        ends = starts + self.slice
        return ends + (self.offset + self.size - ends) % self.slide

    def last_ends(self, starts: Any) -> Any:
        """Return the end of the last window that holds a slice."""
        return starts - (starts - self.offset) % self.slide + self.size

    def partials(self, values: Values, keys: Values, starts: I64, timestamps: I64) -> Iterator[tuple[int, pa.Table]]:
        """Yield a partial result for each window that some record is in."""
        for start, part in self.inputs(values, keys, starts, timestamps):
            yield start, self.fold(part)

    def inputs(self, values: Values, keys: Values, starts: I64, timestamps: I64) -> Iterator[tuple[int, pa.Table]]:
        """Yield for each window its records, as the columns that `fold` needs of them."""
        return _by_window(starts, self.records(values, keys, timestamps))


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
