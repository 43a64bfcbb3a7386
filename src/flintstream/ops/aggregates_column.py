"""What an aggregate on columns is, and the few things that all kinds of them share.

Records become columns of accumulators, rows of one key become one row, and that becomes a result. There are two ways to
make many rows one. Most accumulators are numbers, for which Arrow has grouped functions: an aggregate then only says
which, and one pass serves all aggregates of a window. Others hold several values or need an order; they are told which
rows belong together (`Grouping`) and do it themselves, on whole columns too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.errors import JobError, describe
from flintstream.ops.batch import I64, Values
from flintstream.ops.selectors import field_column
from flintstream.state.codec import Kind

Field = str | int | None
Step = tuple[str, str, str]
"""Input column (empty: none), Arrow's aggregation, output column."""
NUMBERS: dict[str, type] = {"int": int, "float": float}
Bools = npt.NDArray[np.bool_]


class Grouping:
    """Which rows belong together: row i to group `ids[i]`, of which there are `count`."""

    def __init__(self, ids: I64, count: int) -> None:
        self.ids = ids
        self.count = count

    @cached_property
    def sizes(self) -> I64:
        """How many rows each group has."""
        return np.bincount(self.ids, minlength=self.count)

    def items(self, column: Any) -> tuple[pa.Array, I64, I64]:
        """Return the items of a column of lists, their groups and their rows; an absent list has none."""
        lists = flat(column)
        rows = pc.call_function("list_parent_indices", [lists]).to_numpy()
        return lists.flatten(), self.ids[rows], rows


def to_lists(values: pa.Array, groups: I64, count: int) -> pa.Array:
    """Return one list for each group, with its values in the order they have."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=count), out=offsets[1:])
    if len(groups) and (groups[1:] < groups[:-1]).any():
        values = values.take(pa.array(np.argsort(groups, kind="stable")))
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)


def single_lists(values: pa.Array, present: Bools | None = None) -> pa.Array:
    """Return a list for each row: of its value, or of nothing where it is null or not `present`."""
    held = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    if present is not None:
        held = present if held is None else held & present
    if held is None or held.all():
        return pa.LargeListArray.from_arrays(pa.array(np.arange(len(values) + 1)), values)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(held, out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), values.filter(pa.array(held)))


class ColumnAggregate(ABC):
    """An aggregate on columns; all its columns begin with its own prefix.

    `is_ordered` says that its result depends on the order in which records came. `counter` is the name of a column that
    counts; records whose table lacks it count one each, so that mostly there need be none.
    """

    is_ordered = False
    counter: str | None = None

    def __init__(self, prefix: str, field: Field) -> None:
        self.prefix = prefix
        self.field = field

    def picked(self, values: Values) -> Values:
        """Return the field of every record."""
        return values if self.field is None else field_column(values, self.field)

    def typed(self, values: Values) -> dict[str, pa.Array]:
        """Return the field's values by type: "int", "float", "text" or Arrow's name of another; null elsewhere."""
        picked = self.picked(values)
        array, kind = picked.column()
        if kind == "pickle" and are_numbers(rows := picked.rows()):
            # Each number is taken as what it is, as if it had come in a batch of its own kind.
            return {name: pa.array([row if type(row) is of else None for row in rows]) for name, of in NUMBERS.items()}
        if type(kind) is not str or kind == "pickle":
            what = f"field {self.field!r} holds values that cannot be aggregated: {kind!r}"
            raise JobError(describe(what, None, "aggregate a field of numbers or text"))
        if pa.types.is_integer(array.type) or pa.types.is_null(array.type):
            return {"int": array.cast(pa.int64())}
        if pa.types.is_floating(array.type):
            return {"float": array.cast(pa.float64())}
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            return {"text": array.cast(pa.string())}
        return {str(array.type): array}

    def numbers(self, values: Values, verb: str) -> dict[str, pa.Array]:
        """Return the field's values by type; they must be numbers."""
        typed = self.typed(values)
        for name, array in typed.items():
            if name not in NUMBERS:
                what = f"field {self.field!r} holds {array.type}, which has no {verb}"
                raise JobError(describe(what, None, "aggregate a field of numbers"))
        return typed

    @abstractmethod
    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        """Return the accumulators of a batch of records, one row each."""

    def steps(self, table: pa.Table) -> list[Step]:
        """Return how rows of a key become one, as far as Arrow can do that."""
        return []

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        """Return the columns that Arrow cannot make, one row for each group; rows are in the order they came."""
        return {}

    @abstractmethod
    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        """Return the result of every key as a column; what it is depends on the key's own values alone."""

    def sums(self, table: pa.Table) -> list[Step]:
        """Return the steps of accumulators that are all added up, and of what counts."""
        steps = [(name, "sum", name) for name in self.own(table)]
        if self.counter is not None and self.counter not in table.column_names:
            steps.append(("", "count_all", self.counter))
        return steps

    def own(self, table: pa.Table) -> list[str]:
        """Return the names of its columns."""
        return [name for name in table.column_names if name.startswith(self.prefix)]


def are_numbers(rows: list[Any]) -> bool:
    """Whether there are integers of 64 bits and floats among values, and nothing else."""
    if not set(map(type, rows)) <= {int, float, type(None)}:
        return False
    return all(type(row) is not int or -(1 << 63) <= row < 1 << 63 for row in rows)


def flat(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def numbers_of(table: pa.Table, name: str) -> Any:
    """Return a column of numbers; 0 where there is none."""
    return flat(table.column(name)).fill_null(0).to_numpy()


def lengths_of(lists: pa.Array) -> I64:
    """Return how many items each list has."""
    return pc.call_function("list_value_length", [lists]).fill_null(0).to_numpy()
