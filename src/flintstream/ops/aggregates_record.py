"""The built-in aggregates as an AggregateFunction, for windows that are computed record by record.

Columns and records must give the same results to the last bit, so accumulators here hold what those on columns hold, as
Python values: sums as integers on the same grids, sets, counts. Invariant: for the same records in the same order, the
result is that of `aggregates_column`'s forms.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import JobError, UnsupportedError, describe
from flintstream.model.functions_window import WindowFunction
from flintstream.model.row import Row
from flintstream.model.windows import TimeWindow
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_column import Field
from flintstream.ops.aggregates_lists import Quantile, TopN, distinct_item
from flintstream.ops.aggregates_record_base import RecordAggregate
from flintstream.ops.aggregates_vectorised import Computed
from flintstream.ops.selectors import field_of_row
from flintstream.ops.sketches import RANK_BITS, coarse, estimate, index_bits, mantissa_bits
from flintstream.ops.window_contents import TimedAggregate
from flintstream.state.codec import decode
from flintstream.state.keygroups import hash_key

_GRID = 128
_FINE_GRID = 256
_MASK = (1 << 64) - 1


class Counted(RecordAggregate):
    """How many records there were."""

    takes_none = True

    def create(self) -> int:
        return 0

    def add(self, held: int, value: Any, timestamp: int) -> int:
        return held + 1

    def merge(self, one: int, other: int) -> int:
        return one + other

    def result(self, held: int) -> int:
        return held


class Summed(RecordAggregate):
    """The sum or the average: of values, floats among them, integers, floats on the grid, and what is off it."""

    def __init__(self, field: Field, *, average: bool) -> None:
        super().__init__(field)
        self._average = average

    def create(self) -> tuple[int, int, int, int, float]:
        return 0, 0, 0, 0, 0.0

    def add(self, held: Any, value: Any, timestamp: int) -> Any:
        self.require_number(value)
        count, floats, whole, fixed, rest = held
        if type(value) is int:
            return count + 1, floats, whole + value, fixed, rest
        if not abs(value) < 2.0**63:
            return count + 1, floats + 1, whole, fixed, rest + value
        part = _on_grid(value, _GRID)
        return count + 1, floats + 1, whole, fixed + part, rest + (value - part / (1 << _GRID))

    def merge(self, one: Any, other: Any) -> Any:
        return tuple(a + b for a, b in zip(one, other, strict=True))

    def result(self, held: Any) -> Any:
        count, floats, whole, fixed, rest = held
        if not count:
            return None
        if not floats and not self._average:
            if not -(1 << 63) <= whole < 1 << 63:
                what = f"the sum of field {self.field!r} does not fit into 64 bits"
                raise JobError(describe(what, None, "use aggregate(AggregateFunction), whose integers have no limit"))
            return whole
        total = ((whole << _GRID) + fixed) / (1 << _GRID) + rest
        return total / count if self._average else total


def _on_grid(value: float, bits: int) -> int:
    """Return a float in units of 2^-bits, towards zero."""
    numerator, denominator = value.as_integer_ratio()
    size = (abs(numerator) << bits) // denominator
    return -size if value < 0 else size


class Extremest(RecordAggregate):
    """The least or the greatest value, by type."""

    def __init__(self, field: Field, function: str) -> None:
        super().__init__(field)
        self._better: Callable[[Any, Any], Any] = min if function == "min" else max

    def create(self) -> dict[str, Any]:
        return {}

    def add(self, held: dict[str, Any], value: Any, timestamp: int) -> dict[str, Any]:
        return self.merge(held, {type(value).__name__: value + 0.0 if type(value) is float else value})

    def merge(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        merged = dict(one)
        for name, value in other.items():
            merged[name] = self._chosen(merged[name], value) if name in merged else value
        return merged

    def _chosen(self, one: Any, other: Any) -> Any:
        if one != one or other != other:  # a NaN loses
            return other if one != one else one
        return self._better(one, other)

    def result(self, held: dict[str, Any]) -> Any:
        if len(held) < 2:
            return next(iter(held.values()), None)
        if held.keys() != {"int", "float"}:
            what = f"field {self.field!r} holds values that have no order among them: {', '.join(sorted(held))}"
            raise JobError(describe(what, None, "aggregate a field of numbers or of text"))
        return self._chosen(held["int"], held["float"])


class Varied(RecordAggregate):
    """The variance: values, those that have no digits, the sum on a grid, the sum of the squares on its square."""

    def __init__(self, field: Field, *, population: bool, root: bool) -> None:
        super().__init__(field)
        self._population = population
        self._root = root

    def create(self) -> tuple[int, int, int, int]:
        return 0, 0, 0, 0

    def add(self, held: Any, value: Any, timestamp: int) -> Any:
        self.require_number(value)
        count, wild, total, squares = held
        if type(value) is float and not abs(value) < 2.0**255:
            return count + 1, wild + 1, total, squares
        part = value << _FINE_GRID if type(value) is int else _on_grid(value, _FINE_GRID)
        return count + 1, wild, total + part, squares + part * part

    def merge(self, one: Any, other: Any) -> Any:
        return tuple(a + b for a, b in zip(one, other, strict=True))

    def result(self, held: Any) -> float | None:
        count, wild, total, squares = held
        if count <= (0 if self._population else 1):
            return None
        if wild:
            return math.nan
        divisor = count * (count if self._population else count - 1)
        variance = (count * squares - total * total) / (divisor << 2 * _FINE_GRID)
        return math.sqrt(variance) if self._root else variance


class Differing(RecordAggregate):
    """The set of values."""

    def create(self) -> dict[tuple[str, Any], None]:
        return {}

    def add(self, held: dict[Any, None], value: Any, timestamp: int) -> dict[Any, None]:
        kind, item = distinct_item(value) or ("", None)
        held[kind, "nan" if item != item else item] = None
        return held

    def merge(self, one: dict[Any, None], other: dict[Any, None]) -> dict[Any, None]:
        return one | other

    def result(self, held: dict[Any, None]) -> int:
        return len(held)


class Registered(RecordAggregate):
    """The registers of HyperLogLog that are not 0: `register -> rank`."""

    def __init__(self, field: Field, relative_error: float) -> None:
        super().__init__(field)
        self._bits = index_bits(relative_error)

    def create(self) -> dict[int, int]:
        return {}

    def add(self, held: dict[int, int], value: Any, timestamp: int) -> dict[int, int]:
        hashed, bits = hash_key(value), self._bits
        index, rest = hashed >> (64 - bits), (hashed << bits) & _MASK
        held[index] = max(held.get(index, 0), min(64 - rest.bit_length(), 64 - bits) + 1)
        return held

    def merge(self, one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
        return one | {index: max(rank, one.get(index, 0)) for index, rank in other.items()}

    def result(self, held: dict[int, int]) -> int:
        codes = np.fromiter((index << RANK_BITS | rank for index, rank in held.items()), np.int64, len(held))
        return int(estimate(codes, np.zeros(len(held), np.int64), 1, self._bits)[0])


class Ranked(RecordAggregate):
    """A multiset of numbers: `number -> how often`."""

    def __init__(self, field: Field, share: float, relative_error: float | None = None) -> None:
        super().__init__(field)
        self._bits = 52 if relative_error is None else mantissa_bits(relative_error)
        self._columns = Quantile("", field, share, relative_error)

    def create(self) -> dict[float, int]:
        return {}

    def add(self, held: dict[float, int], value: Any, timestamp: int) -> dict[float, int]:
        self.require_number(value)
        number = float(value) + 0.0
        if number == number:
            number = float(coarse(np.array([number]), self._bits)[0]) if self._bits < 52 else number
            held[number] = held.get(number, 0) + 1
        return held

    def merge(self, one: dict[float, int], other: dict[float, int]) -> dict[float, int]:
        return one | {number: times + one.get(number, 0) for number, times in other.items()}

    def result(self, held: dict[float, int]) -> float | None:
        numbers = sorted(held)
        row = pa.table({"v": [numbers], "n": [[held[number] for number in numbers]]})
        if not numbers:
            return None
        return decode(*self._columns.result(row))[0]


class Greatest(RecordAggregate):
    """The n greatest values, by type."""

    def __init__(self, field: Field, number: int) -> None:
        super().__init__(field)
        self._number = number
        self._columns = TopN("", field, number)

    def create(self) -> dict[str, list[Any]]:
        return {}

    def add(self, held: dict[str, list[Any]], value: Any, timestamp: int) -> dict[str, list[Any]]:
        if value != value:
            return held
        return self.merge(held, {type(value).__name__: [value + 0.0 if type(value) is float else value]})

    def merge(self, one: dict[str, list[Any]], other: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return one | {
            name: sorted([*one.get(name, ()), *values], reverse=True)[: self._number] for name, values in other.items()
        }

    def result(self, held: dict[str, list[Any]]) -> list[Any]:
        return list(self._columns.of_types(held))


class Outermost(RecordAggregate):
    """The first value or the last, with its time."""

    def __init__(self, field: Field, *, last: bool) -> None:
        super().__init__(field)
        self._last = last

    def create(self) -> tuple[int, Any] | None:
        return None

    def add(self, held: Any, value: Any, timestamp: int) -> Any:
        return self.merge(held, (timestamp, value))

    def merge(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        later = other[0] >= one[0]
        return other if later == self._last else one

    def result(self, held: Any) -> Any:
        return None if held is None else held[1]


class Gathered(RecordAggregate):
    """All values with their times, by time."""

    def create(self) -> list[tuple[int, Any]]:
        return []

    def add(self, held: list[tuple[int, Any]], value: Any, timestamp: int) -> list[tuple[int, Any]]:
        insort(held, (timestamp, value), key=lambda item: item[0])
        return held

    def merge(self, one: list[tuple[int, Any]], other: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        return sorted([*one, *other], key=lambda item: item[0])

    def result(self, held: list[tuple[int, Any]]) -> list[Any]:
        return [value for _, value in held]


def record_aggregate(aggregate: Aggregate) -> RecordAggregate:
    """Return the form of a declared aggregate that takes records one by one."""
    field, options, kind = aggregate.field, aggregate.options, aggregate.kind
    match kind:
        case "count":
            return Counted(None)
        case "sum" | "avg":
            return Summed(field, average=kind == "avg")
        case "min" | "max":
            return Extremest(field, kind)
        case "variance" | "stddev":
            return Varied(field, population=options[0], root=kind == "stddev")
        case "first" | "last":
            return Outermost(field, last=kind == "last")
        case "count_distinct":
            return Differing(field)
        case "approx_count_distinct":
            return Registered(field, *options)
        case "quantile" | "approx_quantile":
            return Ranked(field, *options)
        case "top_n":
            return Greatest(field, *options)
        case "collect_list":
            return Gathered(field)
        case "computed_by":
            return Computed(field, *options)
        case _:
            raise UnsupportedError(describe(f"there is no built-in aggregate {kind!r}"))


class RecordAggregates(TimedAggregate):
    """Several aggregates as one function of `(value, timestamp)` pairs; the result is the tuple of theirs."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._parts = [record_aggregate(aggregate) for aggregate in aggregates]

    def create_accumulator(self) -> list[Any]:
        return [part.create() for part in self._parts]

    def add(self, value: tuple[Any, int], accumulator: list[Any]) -> list[Any]:
        record, timestamp = value
        for index, part in enumerate(self._parts):
            picked = record if part.field is None else field_of_row(record, part.field)
            if picked is not None or part.takes_none:
                accumulator[index] = part.add(accumulator[index], picked, timestamp)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[Any, ...]:
        return tuple(part.result(held) for part, held in zip(self._parts, accumulator, strict=True))

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return [part.merge(a, b) for part, a, b in zip(self._parts, acc_a, acc_b, strict=True)]


class OnlyAggregate(RecordAggregates):
    """A single aggregate whose result stands alone."""

    def get_result(self, accumulator: list[Any]) -> Any:
        return super().get_result(accumulator)[0]


class OnlyResults(WindowFunction[Any, Any, Any, Any]):
    """Emits the result of a single aggregate, without its key and window."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [values[0] for values in inputs]


class ResultRows(WindowFunction[Any, Any, Any, Any]):
    """Makes rows of a window's results: the key's fields, the window's borders if it has any, the aggregates."""

    def __init__(self, key_names: Sequence[str], names: Sequence[str]) -> None:
        self._width = len(key_names)
        self._timed = Row.builder([*key_names, "window_start", "window_end", *names])
        self._untimed = Row.builder([*key_names, *names])

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        head = () if not self._width else (key,) if self._width == 1 else tuple(key)
        for values in inputs:
            if isinstance(window, TimeWindow):
                yield self._timed((*head, window.start, window.end, *values))
            else:
                yield self._untimed((*head, *values))
