"""Aggregates whose accumulators are numbers: count, sum, average, extremes, variance. Arrow folds them all.

Sums are exact, of floats too (`exact_sum`), and rounded once, when a result is wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.errors import JobError, describe
from flintstream.ops.aggregates_column import NUMBERS, ColumnAggregate, Field, Step, flat, numbers_of
from flintstream.ops.batch import I64, Values
from flintstream.ops.exact_sum import digits, total
from flintstream.ops.exact_variance import of_floats, of_integers, variance_of
from flintstream.state.codec import Kind, encode, kind_of_arrow


class Count(ColumnAggregate):
    """How many records there were."""

    def __init__(self, prefix: str, field: Field = None) -> None:
        super().__init__(prefix, field)
        self.counter = prefix

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        return {}

    def steps(self, table: pa.Table) -> list[Step]:
        return self.sums(table)

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        return flat(merged.column(self.prefix)), "int"


class Extreme(ColumnAggregate):
    """The least or the greatest value."""

    def __init__(self, prefix: str, field: str | int | None, function: str) -> None:
        super().__init__(prefix, field)
        self._function = function

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        columns = {f"{self.prefix}{name}": array for name, array in self.typed(values).items()}
        if (floats := columns.get(f"{self.prefix}float")) is not None:
            # Of 0.0 and -0.0, which are equal, the first to come would win.
            columns[f"{self.prefix}float"] = pc.call_function("add", [floats, pa.scalar(0.0)])
        return columns

    def steps(self, table: pa.Table) -> list[Step]:
        return [(name, self._function, name) for name in self.own(table)]

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        columns = {name[len(self.prefix) :]: flat(merged.column(name)) for name in self.own(merged)}
        held = {name: column for name, column in columns.items() if column.null_count < len(column)}
        if len(held) < 2:
            column = next(iter((held or columns).values()))
            return column, kind_of_arrow(column.type)
        rows = zip(*(column.to_pylist() for column in held.values()), strict=True)
        return encode([self._of_types(dict(zip(held, row, strict=True))) for row in rows])

    def _of_types(self, found: dict[str, Any]) -> Any:
        """Return the extreme of a key that may have values of several types."""
        present = {name: value for name, value in found.items() if value is not None}
        if len(present) < 2:
            return next(iter(present.values()), None)
        if present.keys() != NUMBERS.keys():
            what = f"field {self.field!r} holds values that have no order among them: {', '.join(sorted(present))}"
            raise JobError(describe(what, None, "aggregate a field of numbers or of text"))
        return self._of_numbers(present["int"], present["float"])

    def _of_numbers(self, whole: int, other: float) -> int | float:
        """Compare an integer with a float, exactly; a NaN loses."""
        if other != other:
            return whole
        return min(whole, other) if self._function == "min" else max(whole, other)


class Sum(ColumnAggregate):
    """The exact sum; of integers an integer, of floats a float."""

    def __init__(self, prefix: str, field: Field) -> None:
        super().__init__(prefix, field)
        self.counter = f"{prefix}n"

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        numbers = self.numbers(values, "sum")
        for name, array in numbers.items():
            columns |= self._integer_inputs(array) if name == "int" else self._float_inputs(array)
        if any(array.null_count for array in numbers.values()):
            present = [array.is_valid().to_numpy(zero_copy_only=False) for array in numbers.values()]
            columns[f"{self.prefix}n"] = pa.array(np.sum(present, axis=0, dtype=np.int64))
        return columns

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

    def steps(self, table: pa.Table) -> list[Step]:
        return self.sums(table)

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        empty = numbers_of(merged, f"{self.prefix}n") == 0
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
        return flat(merged.column(name)).is_valid().to_numpy(zero_copy_only=False)

    def _floats(self, merged: pa.Table) -> Any:
        """Return the sums as floats, each rounded once."""
        names, digit = self.own(merged), f"{self.prefix}d"
        found = {int(name[len(digit) :]): numbers_of(merged, name) for name in names if name.startswith(digit)}
        for exponent in (0, 1):  # integers among the values
            if f"{self.prefix}i{exponent}" in names:
                found[exponent] = found.get(exponent, 0) + numbers_of(merged, f"{self.prefix}i{exponent}")
        rest = flat(merged.column(f"{self.prefix}f")).fill_null(0.0).to_numpy() if f"{self.prefix}f" in names else None
        return total(found, rest if rest is not None and rest.any() else None, merged.num_rows)

    def _integers(self, merged: pa.Table, wanted: Any) -> Any:
        """Return the sums of integers; those of keys that are not wanted mean nothing."""
        names = self.own(merged)
        low = numbers_of(merged, f"{self.prefix}i0") if f"{self.prefix}i0" in names else np.zeros(len(wanted), np.int64)
        if f"{self.prefix}i1" not in names:
            return low
        high = numbers_of(merged, f"{self.prefix}i1") + (low >> 32)
        if bool((((high >= 1 << 31) | (high < -(1 << 31))) & wanted).any()):
            what = f"the sum of field {self.field!r} does not fit into 64 bits"
            raise JobError(describe(what, None, "use aggregate(AggregateFunction), whose integers have no limit"))
        return (high << 32) + (low & 0xFFFFFFFF)


class Average(Sum):
    """The exact sum divided by the number of values."""

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        count = numbers_of(merged, f"{self.prefix}n")
        return pa.array(self._floats(merged) / np.maximum(count, 1), mask=count == 0), "float"


class Variance(ColumnAggregate):
    """The variance or the standard deviation, from the exact sums of the values and of their squares.

    The sums are integers on a grid, so nothing is lost when they are subtracted from each other, and the result is the
    exact one, rounded, whatever the order. Infinities, NaN and values from 2^255 on make it NaN; bits of a value below
    2^-256 are cut off.
    """

    def __init__(self, prefix: str, field: Field, *, population: bool, root: bool) -> None:
        super().__init__(prefix, field)
        self._population = population
        self._root = root

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        columns: dict[str, Any] = {"n": np.zeros(len(values), np.int64)}
        for name, array in self.numbers(values, "variance").items():
            columns["n"] = columns["n"] + array.is_valid().to_numpy(zero_copy_only=False)
            found = of_integers(array) if name == "int" else of_floats(array)
            for key, column in found.items():
                columns[key] = columns[key] + column if key in columns else column
        return {f"{self.prefix}{name}": pa.array(column) for name, column in columns.items()}

    def steps(self, table: pa.Table) -> list[Step]:
        return [(name, "sum", name) for name in self.own(table)]

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        count = numbers_of(merged, f"{self.prefix}n")
        columns = {name[len(self.prefix) :]: numbers_of(merged, name) for name in self.own(merged)}
        wild = columns.get("w")
        variances = variance_of(count, columns, self._population)
        if wild is not None:
            variances = np.where(wild > 0, np.nan, variances)
        enough = count > (0 if self._population else 1)
        return pa.array(np.sqrt(variances) if self._root else variances, mask=~enough), "float"
