"""Aggregates that keep several values of each key: distinct values, quantiles, the greatest.

Their accumulators are columns of lists. A record's is a list of one, so that folding records and merging partial
results are the same: take all items, group them anew, make lists again. What a list holds is a set, a multiset with
counts, or the n greatest, none of which depends on the order of the records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.errors import JobError, describe
from flintstream.ops.aggregates_column import (
    NUMBERS,
    ColumnAggregate,
    Field,
    Grouping,
    flat,
    lengths_of,
    single_lists,
    to_lists,
)
from flintstream.ops.batch import I64, Values
from flintstream.ops.sketches import RANK_BITS, coarse, estimate, index_bits, mantissa_bits, registers
from flintstream.state.codec import Kind, encode
from flintstream.state.keybytes import canonical
from flintstream.state.keygroups import hash_column

_LIMIT = 2.0**63


class Distinct(ColumnAggregate):
    """How many different values there are, as in a Python set: 1 and 1.0 are one; None is no value."""

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        return {f"{self.prefix}{name}": single_lists(array) for name, array in distinct_columns(self.picked(values))}

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        return {name: self._united(*groups.items(table.column(name))[:2], groups.count) for name in self.own(table)}

    @staticmethod
    def _united(items: pa.Array, owners: I64, count: int) -> pa.Array:
        pairs = pa.table({"g": owners, "v": items}).group_by(["g", "v"], use_threads=False).aggregate([])
        return to_lists(flat(pairs.column("v")), pairs.column("g").to_numpy(), count)

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        total = np.zeros(merged.num_rows, np.int64)
        for name in self.own(merged):
            total += lengths_of(flat(merged.column(name)))
        return pa.array(total), "int"


def distinct_columns(picked: Values) -> list[tuple[str, pa.Array]]:
    """Return values as columns in which equal values are equal: numbers, text, and the bytes of all others."""
    array, kind = picked.column()
    if kind == "pickle":
        return _sorted_out(picked.rows())
    if kind in ("int", "bool", "none"):
        return [("i", array.cast(pa.int64()))]
    if kind == "float":
        numbers = array.fill_null(0.5).to_numpy() + 0.0  # no -0.0
        whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < _LIMIT)
        absent = array.is_null().to_numpy(zero_copy_only=False)
        integers = np.where(whole, numbers, 0.0).astype(np.int64)
        return [("i", pa.array(integers, mask=~whole | absent)), ("f", pa.array(numbers, mask=whole | absent))]
    if kind == "str":
        return [("s", array.cast(pa.large_string()))]
    return [("b", pa.array([None if row is None else canonical(row) for row in picked.rows()], pa.large_binary()))]


def _sorted_out(rows: list[Any]) -> list[tuple[str, pa.Array]]:
    """Return values of several types as the columns in which each would stand among its like."""
    places = [distinct_item(row) for row in rows]
    types = {"i": pa.int64(), "f": pa.float64(), "s": pa.large_string(), "b": pa.large_binary()}
    return [
        (name, pa.array([item[1] if item is not None and item[0] == name else None for item in places], dtype))
        for name, dtype in types.items()
        if any(item is not None and item[0] == name for item in places)
    ] or [("i", pa.nulls(len(rows), pa.int64()))]


def distinct_item(value: Any) -> tuple[str, Any] | None:
    """Return the column that a value stands in and what stands there; equal values, equal items; None for None."""
    kind = type(value)
    if value is None:
        return None
    if kind is float:
        whole = value.is_integer() and abs(value) < _LIMIT
        return ("i", int(value)) if whole else ("f", math.nan if value != value else value + 0.0)
    if kind is int or kind is bool:
        if -(1 << 63) <= value < 1 << 63:
            return "i", int(value)
        return ("f", float(value)) if abs(value) < 1 << 1023 and float(value) == value else ("b", canonical(value))
    if kind is str and not has_surrogate(value):
        return "s", value
    return "b", canonical(value)


class ApproxDistinct(ColumnAggregate):
    """About how many different values there are: HyperLogLog, of which only registers that are not 0 are kept."""

    def __init__(self, prefix: str, field: Field, relative_error: float) -> None:
        super().__init__(prefix, field)
        self._bits = index_bits(relative_error)

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        array, kind = self.picked(values).column()
        codes = pa.array(registers(hash_column(array, kind), self._bits).astype(np.int32))
        return {self.prefix: single_lists(codes, array.is_valid().to_numpy(zero_copy_only=False))}

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        items, owners, _ = groups.items(table.column(self.prefix))
        codes = items.to_numpy().astype(np.int64)
        # Group, register and rank in one number: of each register the last in this order has the greatest rank.
        packed = np.unique(owners << (self._bits + RANK_BITS) | codes)
        last = np.append((packed[1:] >> RANK_BITS) != (packed[:-1] >> RANK_BITS), np.ones(min(len(packed), 1), bool))
        kept = packed[last]
        codes = (kept & ((1 << (self._bits + RANK_BITS)) - 1)).astype(np.int32)
        return {self.prefix: to_lists(pa.array(codes), kept >> (self._bits + RANK_BITS), groups.count)}

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        count = merged.num_rows
        items, owners, _ = Grouping(np.arange(count), count).items(merged.column(self.prefix))
        return pa.array(estimate(items.to_numpy().astype(np.int64), owners, count, self._bits)), "int"


class Quantile(ColumnAggregate):
    """A quantile of the numbers of a key, interpolated between the two nearest; NaN is no number.

    With a relative error, numbers lose the bits that it allows to lose, and of the two nearest the lower is taken.
    """

    def __init__(self, prefix: str, field: Field, share: float, relative_error: float | None = None) -> None:
        super().__init__(prefix, field)
        self._share = share
        self._bits = 52 if relative_error is None else mantissa_bits(relative_error)
        self._is_exact = relative_error is None

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        columns = [array.cast(pa.float64(), safe=False) for array in self.numbers(values, "quantile").values()]
        array = columns[0] if len(columns) == 1 else pc.call_function("coalesce", columns)
        numbers = array.fill_null(np.nan).to_numpy() + 0.0
        present = ~np.isnan(numbers)
        ones = pa.array(np.ones(len(numbers), np.int64))
        kept = pa.array(coarse(numbers, self._bits))
        return {f"{self.prefix}v": single_lists(kept, present), f"{self.prefix}n": single_lists(ones, present)}

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        items, owners, _ = groups.items(table.column(f"{self.prefix}v"))
        times, _, _ = groups.items(table.column(f"{self.prefix}n"))
        numbers = items.to_numpy()
        order = np.lexsort((numbers, owners))
        numbers, owners, times = numbers[order], owners[order], times.to_numpy()[order]
        new = np.append(True, (numbers[1:] != numbers[:-1]) | (owners[1:] != owners[:-1]))[: len(numbers)]
        starts = np.flatnonzero(new)
        sums = np.add.reduceat(times, starts) if len(starts) else times
        return {
            f"{self.prefix}v": to_lists(pa.array(numbers[starts]), owners[starts], groups.count),
            f"{self.prefix}n": to_lists(pa.array(sums), owners[starts], groups.count),
        }

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        lists = flat(merged.column(f"{self.prefix}v"))
        numbers = lists.flatten().to_numpy()
        counts = flat(merged.column(f"{self.prefix}n")).flatten().to_numpy()
        lengths = lengths_of(lists)
        firsts = np.cumsum(lengths) - lengths
        running = np.append(0, np.cumsum(counts))
        before = running[firsts]
        size = running[firsts + lengths] - before
        place = self._share * np.maximum(size - 1, 0)
        lower = np.floor(place).astype(np.int64)
        empty = size == 0
        if empty.all():
            return pa.array(np.zeros(len(size)), mask=empty), "float"

        def at(rank: I64) -> Any:
            index = np.searchsorted(running, before + rank, "right") - 1
            return numbers[np.minimum(index, len(numbers) - 1)]

        low = at(lower)
        if not self._is_exact:
            return pa.array(low, mask=empty), "float"
        high = at(np.minimum(lower + 1, np.maximum(size - 1, 0)))
        part = place - lower
        with np.errstate(invalid="ignore"):
            found = np.where(part == 0, low, low + (high - low) * part)
        return pa.array(found, mask=empty), "float"


class TopN(ColumnAggregate):
    """The n greatest values, the greatest first; NaN is no value."""

    def __init__(self, prefix: str, field: Field, number: int) -> None:
        super().__init__(prefix, field)
        self._number = number

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for name, array in self.typed(values).items():
            if name == "float":
                numbers = array.fill_null(np.nan).to_numpy() + 0.0
                columns[f"{self.prefix}{name}"] = single_lists(pa.array(numbers), ~np.isnan(numbers))
            else:
                columns[f"{self.prefix}{name}"] = single_lists(array)
        return columns

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for name in self.own(table):
            items, owners, _ = groups.items(table.column(name))
            pairs = pa.table({"g": owners, "v": items})
            order = pairs_order(pairs)
            owners = owners[order.to_numpy()]
            place = np.arange(len(owners)) - np.searchsorted(owners, owners)
            kept = place < self._number
            columns[name] = to_lists(items.take(order).filter(pa.array(kept)), owners[kept], groups.count)
        return columns

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        columns = {name[len(self.prefix) :]: flat(merged.column(name)) for name in self.own(merged)}
        held = {name: column for name, column in columns.items() if len(column.flatten())}
        shown = held or columns
        rows = zip(*(column.to_pylist() for column in shown.values()), strict=True)
        return encode([self.of_types(dict(zip(shown, row, strict=True))) for row in rows])

    def of_types(self, found: dict[str, Any]) -> list[Any]:
        """Return the greatest of a key that may have values of several types."""
        present = {name: values for name, values in found.items() if values}
        if len(present) > 1 and present.keys() != NUMBERS.keys():
            what = f"field {self.field!r} holds values that have no order among them: {', '.join(sorted(present))}"
            raise JobError(describe(what, None, "aggregate a field of numbers or of text"))
        together = [value for name in sorted(present) for value in present[name]]
        return together if len(present) < 2 else sorted(together, reverse=True)[: self._number]


def pairs_order(pairs: pa.Table) -> pa.Array:
    """Return the order by group, within it the greatest first."""
    options = pc.SortOptions([("g", "ascending"), ("v", "descending")])
    return pc.call_function("sort_indices", [pairs], options)


def has_surrogate(text: str) -> bool:
    """Whether a text has halves of characters, so that no column of text can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
