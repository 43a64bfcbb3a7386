"""What flows between operators: a run of records in stamp order, as rows or as columns, whichever was asked for last.

`Values` holds Python rows or an Arrow column and converts at most once in each direction, so that a chain of columnar
operators never makes a Python object and a chain of Python functions never makes a column.

A **stamp** says where a record stands in the order of its stream, whatever batch brought it: the watermark of its lane
before it, the lane, the position, and an extension for each operator that emitted on the way. It is a list of int64
columns, compared from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.sizes import size_of
from flintstream.state.codec import Kind, decode, encode

I64 = npt.NDArray[np.int64]
Stamp = list[I64]
NO_TIMESTAMP = MIN_TIMESTAMP
"""The timestamp of a record that has none, as in Flink."""
FIRST, LAST = MIN_TIMESTAMP, MAX_TIMESTAMP
"""Before and after every extension of a stamp."""


class Values:
    """A sequence of user values as rows, as one Arrow column, or as both.

    `timestamps` is set where a source brings some with its records; once they are a `Batch`, that has them.
    """

    __slots__ = ("_array", "_kind", "_rows", "timestamps")

    def __init__(self, rows: list[Any] | None, array: pa.Array | None = None, kind: Kind = None) -> None:
        self._rows = rows
        self._array = array
        self._kind = kind
        self.timestamps: I64 | None = None

    def rows(self) -> list[Any]:
        """Return Python values."""
        if self._rows is None:
            self._rows = decode(self._array, self._kind)
        return self._rows

    def column(self) -> tuple[pa.Array, Kind]:
        """Return the Arrow column and its kind."""
        if self._array is None:
            assert self._rows is not None
            self._array, self._kind = encode(self._rows)
        return self._array, self._kind

    @property
    def is_column(self) -> bool:
        """Whether the values exist as a column already."""
        return self._array is not None

    def take(self, indices: I64) -> Values:
        """Return the values at `indices`."""
        if self._array is not None:
            return Values(None, self._array.take(pa.array(indices)), self._kind)
        assert self._rows is not None
        return Values(list(map(self._rows.__getitem__, indices.tolist())))

    def slice(self, start: int, stop: int) -> Values:
        """Return the values from `start` to before `stop`."""
        rows = None if self._rows is None else self._rows[start:stop]
        array = None if self._array is None else self._array.slice(start, stop - start)
        return Values(rows, array, self._kind)

    def size(self) -> int:
        """Return about how many bytes the values take: those of the column, or by one row for all."""
        if self._array is not None:
            return int(self._array.nbytes)
        rows = self._rows
        return len(rows) * size_of(rows[len(rows) // 2]) if rows else 0

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else len(self._array)  # type: ignore[arg-type]


class MixedValues(Values):
    """Values of several kinds, each still a column of its own: value i is `columns[which[i]]` at `where[i]`.

    Two streams that meet in one operator are seldom of one type. Who looks at one of them only, by `take`, gets its
    column; who wants rows gets rows.
    """

    __slots__ = ("_columns", "_where", "_which")

    _rows: list[Any] | None

    def __init__(self, columns: Sequence[Values], which: I64, where: I64) -> None:
        super().__init__(None)
        self._columns = columns
        self._which = which
        self._where = where

    def rows(self) -> list[Any]:
        if self._rows is None:
            rows: list[Any] = [None] * len(self._which)
            for number, column in enumerate(self._columns):
                chosen = np.flatnonzero(self._which == number)
                for index, row in zip(chosen.tolist(), column.take(self._where[chosen]).rows(), strict=True):
                    rows[index] = row
            self._rows = rows
        return self._rows

    def column(self) -> tuple[pa.Array, Kind]:
        self.rows()
        return super().column()

    def take(self, indices: I64) -> Values:
        which, where = self._which[indices], self._where[indices]
        if len(which) and which[0] == which[-1] and bool((which == which[0]).all()):
            return self._columns[which[0]].take(where)
        return MixedValues(self._columns, which, where)

    def slice(self, start: int, stop: int) -> Values:
        return MixedValues(self._columns, self._which[start:stop], self._where[start:stop])

    def size(self) -> int:
        whole = sum(map(len, self._columns))
        return sum(column.size() for column in self._columns) * len(self) // whole if whole else 0

    def __len__(self) -> int:
        return len(self._which)


def concat_values(parts: Sequence[Values]) -> Values:
    """Return all values of `parts` in order; columns stay columns, one for each kind there is."""
    if len(parts) == 1:
        return parts[0]
    if not all(part.is_column for part in parts):
        return Values([row for part in parts for row in part.rows()])
    columns = [part.column() for part in parts]
    array, kind = columns[0]
    if all(k == kind and a.type == array.type for a, k in columns):
        return Values(None, pa.concat_arrays([a for a, _ in columns]), kind)
    return _mixed(columns)


def _mixed(parts: Sequence[tuple[pa.Array, Kind]]) -> Values:
    """Return columns of several kinds one behind the other."""
    kinds: list[tuple[pa.DataType, Kind]] = []
    arrays: list[list[pa.Array]] = []
    lengths: list[int] = []
    which: list[I64] = []
    where: list[I64] = []
    for array, kind in parts:
        if (array.type, kind) not in kinds:
            kinds.append((array.type, kind))
            arrays.append([])
            lengths.append(0)
        number = kinds.index((array.type, kind))
        which.append(np.full(len(array), number))
        where.append(np.arange(lengths[number], lengths[number] + len(array)))
        arrays[number].append(array)
        lengths[number] += len(array)
    columns = [Values(None, pa.concat_arrays(each), kind) for each, (_, kind) in zip(arrays, kinds, strict=True)]
    return MixedValues(columns, np.concatenate(which), np.concatenate(where))


@dataclass(slots=True)
class Batch:
    """Records in stamp order. `watermarks` is the operator's event time before each; `keys` are set by a `key_by`."""

    values: Values
    timestamps: I64
    stamp: Stamp
    watermarks: I64 | None = None
    keys: Values | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, indices: I64) -> Batch:
        """Return the records at `indices`, which must ascend."""
        return Batch(
            self.values.take(indices),
            self.timestamps[indices],
            [column[indices] for column in self.stamp],
            None if self.watermarks is None else self.watermarks[indices],
            None if self.keys is None else self.keys.take(indices),
        )

    def slice(self, start: int, stop: int) -> Batch:
        """Return the records from `start` to before `stop`."""
        return Batch(
            self.values.slice(start, stop),
            self.timestamps[start:stop],
            [column[start:stop] for column in self.stamp],
            None if self.watermarks is None else self.watermarks[start:stop],
            None if self.keys is None else self.keys.slice(start, stop),
        )

    def with_values(self, values: Values) -> Batch:
        """Return the same records with other values, one for one."""
        return Batch(values, self.timestamps, self.stamp, self.watermarks, self.keys)


def expand(batch: Batch, rows: list[Any], ends: I64) -> Batch:
    """Return what a batch's records emitted, record i `rows[ends[i-1]:ends[i]]`; stamps grow by an emission number."""
    counts = np.diff(ends, prepend=0)
    if len(rows) == len(batch) and bool((counts == 1).all()):
        cause = slice(None)
        number = np.zeros(len(rows), np.int64)
    else:
        cause = np.repeat(np.arange(len(batch)), counts)
        number = np.arange(len(rows)) - np.repeat(ends - counts, counts)
    return Batch(
        Values(rows),
        batch.timestamps[cause],
        [*(column[cause] for column in batch.stamp), number],
        None if batch.watermarks is None else batch.watermarks[cause],
    )


def sort_order(stamp: Stamp) -> I64 | None:
    """Return the order that sorts records by stamp, or None if they are sorted already."""
    columns = [column for column in stamp if len(column) and (column != column[0]).any()]
    if not columns:
        return None
    if _is_sorted(columns):
        return None
    return np.lexsort(columns[::-1])


def _is_sorted(columns: Stamp) -> bool:
    """Whether rows ascend, compared from left to right."""
    undecided = np.ones(len(columns[0]) - 1, bool)
    for column in columns:
        left, right = column[:-1], column[1:]
        if bool((undecided & (left > right)).any()):
            return False
        undecided &= left == right
        if not undecided.any():
            return True
    return True


def count_before(stamp: Stamp, bound: Sequence[int]) -> int:
    """Return how many of the sorted records stand before `bound` (compared on as many columns as `bound` has)."""
    low, high = 0, len(stamp[0])
    for column, value in zip(stamp, bound, strict=False):
        segment = column[low:high]
        before, upto = (int(np.searchsorted(segment, value, side)) for side in ("left", "right"))
        low, high = low + before, low + upto
        if low == high:
            break
    return low
