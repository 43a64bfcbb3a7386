"""Built-in aggregates: as values the user declares, and as columns, partial results and their merging.

Each aggregate says which columns it needs of the records, how a batch of them becomes a partial result, how partial
results merge, and what the result is. All are Arrow's grouped aggregations; sums of floats are exact (`exact_sum`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import JobError, UnsupportedError, describe
from flintstream.ops.batch import Values
from flintstream.ops.exact_sum import digits, total
from flintstream.ops.selectors import field_column
from flintstream.state.codec import Kind, encode, kind_of_arrow

Step = tuple[str, str, str]
"""Input column, Arrow's aggregation, output column."""
_NUMBERS: dict[str, type] = {"int": int, "float": float}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over a field of the records (None: over the records themselves)."""

    kind: str
    field: str | int | None = None

    def __str__(self) -> str:
        return f"{self.kind}({'' if self.field is None else self.field})"


class ColumnAggregate(ABC):
    """An aggregate on columns; all its columns begin with its own prefix."""

    def __init__(self, prefix: str, field: str | int | None) -> None:
        self.prefix = prefix
        self.field = field

    def typed(self, values: Values) -> dict[str, pa.Array]:
        """Return the field's values by type: "int", "float", "text" or Arrow's name of another; null elsewhere."""
        picked = values if self.field is None else field_column(values, self.field)
        array, kind = picked.column()
        if kind == "pickle" and _are_numbers(rows := picked.rows()):
            # Each number is taken as what it is, as if it had come in a batch of its own kind.
            return {name: pa.array([row if type(row) is of else None for row in rows]) for name, of in _NUMBERS.items()}
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

    @abstractmethod
    def inputs(self, values: Values) -> dict[str, pa.Array]:
        """Return the columns it needs of a batch of records."""

    @abstractmethod
    def folds(self, table: pa.Table) -> list[Step]:
        """Return how records become a partial result."""

    @abstractmethod
    def merges(self, table: pa.Table) -> list[Step]:
        """Return how partial results become one."""

    @abstractmethod
    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        """Return the result of every key as a column; what it is depends on the key's own values alone."""


class Count(ColumnAggregate):
    """How many records there were."""

    def inputs(self, values: Values) -> dict[str, pa.Array]:
        return {self.prefix: pa.array(np.ones(len(values), np.int64))}

    def folds(self, table: pa.Table) -> list[Step]:
        return [(self.prefix, "sum", self.prefix)]

    merges = folds

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        return _flat(merged, self.prefix), "int"


class Extreme(ColumnAggregate):
    """The least or the greatest value."""

    def __init__(self, prefix: str, field: str | int | None, function: str) -> None:
        super().__init__(prefix, field)
        self._function = function

    def inputs(self, values: Values) -> dict[str, pa.Array]:
        return {f"{self.prefix}{name}": array for name, array in self.typed(values).items()}

    def folds(self, table: pa.Table) -> list[Step]:
        return [(name, self._function, name) for name in _own(table, self.prefix)]

    merges = folds

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        columns = {name[len(self.prefix) :]: _flat(merged, name) for name in _own(merged, self.prefix)}
        held = {name: column for name, column in columns.items() if column.null_count < len(column)}
        if len(held) < 2:
            column = next(iter((held or columns).values()))
            return column, kind_of_arrow(column.type)
        if held.keys() != _NUMBERS.keys():
            what = f"field {self.field!r} holds values that have no order among them: {', '.join(sorted(held))}"
            raise JobError(describe(what, None, "aggregate a field of numbers or of text"))
        pairs = zip(held["int"].to_pylist(), held["float"].to_pylist(), strict=True)
        return encode([self._of_numbers(*pair) for pair in pairs])

    def _of_numbers(self, whole: int | None, other: float | None) -> int | float | None:
        """Compare an integer with a float, exactly; a NaN loses."""
        if whole is None or other is None:
            return other if whole is None else whole
        if other != other:
            return whole
        return min(whole, other) if self._function == "min" else max(whole, other)


class Sum(ColumnAggregate):
    """The exact sum; of integers an integer, of floats a float."""

    def inputs(self, values: Values) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        counts: list[pa.Array] = []
        for name, array in self.typed(values).items():
            if name not in _NUMBERS:
                what = f"field {self.field!r} holds {array.type}, which has no sum"
                raise JobError(describe(what, None, "sum a field of numbers"))
            columns |= self._integer_inputs(array) if name == "int" else self._float_inputs(array)
            counts.append(array.is_valid().cast(pa.int64()))
        present = counts[0] if len(counts) == 1 else pa.array(np.sum([count.to_numpy() for count in counts], axis=0))
        return {f"{self.prefix}n": present, **columns}

    def _integer_inputs(self, array: pa.Array) -> dict[str, pa.Array]:
        numbers = array.fill_null(0).to_numpy()
        low = {f"{self.prefix}i0": pa.array(numbers & 0xFFFFFFFF)}
        # Two digits of 32 bits, so that no sum overflows; mostly one is enough.
        return {f"{self.prefix}i1": pa.array(numbers >> 32), **low} if (numbers >> 31).any() else low

    def _float_inputs(self, array: pa.Array) -> dict[str, pa.Array]:
        found, rest = digits(array.fill_null(0.0).to_numpy())
        columns = {f"{self.prefix}d{exponent}": pa.array(column) for exponent, column in found.items()}
        # Null where there is no float: a key without any has a sum of integers.
        absent = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        columns[f"{self.prefix}f"] = pa.array(rest if rest is not None else np.zeros(len(array)), mask=absent)
        return columns

    def folds(self, table: pa.Table) -> list[Step]:
        return [(name, "sum", name) for name in _own(table, self.prefix)]

    merges = folds

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        empty = _numbers(merged, f"{self.prefix}n") == 0
        fractional = self._are_fractional(merged)
        if not fractional.any():
            return pa.array(self._integers(merged, ~fractional), mask=empty), "int"
        floats = self._floats(merged)
        if (fractional | empty).all():
            return pa.array(floats, mask=empty), "float"
        rows: list[Any] = np.where(fractional, floats, self._integers(merged, ~fractional).astype(object)).tolist()
        return encode([None if none else row for none, row in zip(empty.tolist(), rows, strict=True)])

    def _are_fractional(self, merged: pa.Table) -> Any:
        """Return which keys have floats among their values."""
        name = f"{self.prefix}f"
        if name not in merged.column_names:
            return np.zeros(merged.num_rows, bool)
        return _flat(merged, name).is_valid().to_numpy(zero_copy_only=False)

    def _floats(self, merged: pa.Table) -> Any:
        """Return the sums as floats, each rounded once."""
        names, digit = _own(merged, self.prefix), f"{self.prefix}d"
        found = {int(name[len(digit) :]): _numbers(merged, name) for name in names if name.startswith(digit)}
        for exponent in (0, 1):  # integers among the values
            if f"{self.prefix}i{exponent}" in names:
                found[exponent] = found.get(exponent, 0) + _numbers(merged, f"{self.prefix}i{exponent}")
        rest = _flat(merged, f"{self.prefix}f").fill_null(0.0).to_numpy() if f"{self.prefix}f" in names else None
        return total(found, rest if rest is not None and rest.any() else None, merged.num_rows)

    def _integers(self, merged: pa.Table, wanted: Any) -> Any:
        """Return the sums of integers; those of keys that are not wanted mean nothing."""
        names = _own(merged, self.prefix)
        low = _numbers(merged, f"{self.prefix}i0") if f"{self.prefix}i0" in names else np.zeros(len(wanted), np.int64)
        if f"{self.prefix}i1" not in names:
            return low
        high = _numbers(merged, f"{self.prefix}i1") + (low >> 32)
        if bool((((high >= 1 << 31) | (high < -(1 << 31))) & wanted).any()):
            what = f"the sum of field {self.field!r} does not fit into 64 bits"
            raise JobError(describe(what, None, "use aggregate(AggregateFunction), whose integers have no limit"))
        return (high << 32) + (low & 0xFFFFFFFF)


class Average(Sum):
    """The exact sum divided by the number of values."""

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        count = _numbers(merged, f"{self.prefix}n")
        return pa.array(self._floats(merged) / np.maximum(count, 1), mask=count == 0), "float"


def column_aggregate(aggregate: Aggregate, prefix: str) -> ColumnAggregate:
    """Return the columnar form of a declared aggregate."""
    match aggregate.kind:
        case "count":
            return Count(prefix, None)
        case "sum":
            return Sum(prefix, aggregate.field)
        case "avg":
            return Average(prefix, aggregate.field)
        case "min" | "max":
            return Extreme(prefix, aggregate.field, aggregate.kind)
        case _:
            raise UnsupportedError(describe(f"there is no built-in aggregate {aggregate.kind!r}"))


def _are_numbers(rows: list[Any]) -> bool:
    """Whether there are integers of 64 bits and floats among values, and nothing else."""
    if not set(map(type, rows)) <= {int, float, type(None)}:
        return False
    return all(type(row) is not int or -(1 << 63) <= row < 1 << 63 for row in rows)


def _own(table: pa.Table, prefix: str) -> list[str]:
    return [name for name in table.column_names if name.startswith(prefix)]


def _flat(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(table: pa.Table, name: str) -> Any:
    return _flat(table, name).fill_null(0).to_numpy()
