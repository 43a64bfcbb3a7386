"""Rows sorted by key and time, in which all rows of a key within a stretch of time are found for many keys at once.

A pile is the unit of a join's state: it never changes but for its `matched` marks, and is searched with whole columns.
Keys are represented by `places`, numbers that are equal for equal keys; whoever finds rows compares the keys
themselves. Keys and values stay in the order of arrival, where `rows` points to them, so that sorting moves numbers
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.state.codec import Kind, decode, encode

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = tuple[pa.Array, Kind]


@dataclass(slots=True)
class Pile:
    """Rows by (place, time); `expiries` say from which event time on a row is gone, `numbers` tell rows apart."""

    places: I64
    times: I64
    expiries: I64
    numbers: I64
    groups: I64
    rows: I64
    keys: Column
    values: Column
    matched: Bools
    _index: Index | None = None

    def __len__(self) -> int:
        return len(self.places)

    def index(self) -> Index:
        """Return what makes the pile searchable; it is made once."""
        if self._index is None:
            self._index = Index(self.places, self.times)
        return self._index

    def only(self, chosen: Bools | I64) -> Pile:
        """Return some rows, in the same order; their columns are shared."""
        return Pile(
            self.places[chosen],
            self.times[chosen],
            self.expiries[chosen],
            self.numbers[chosen],
            self.groups[chosen],
            self.rows[chosen],
            self.keys,
            self.values,
            self.matched[chosen],
        )

    def after(self, time: int) -> Pile:
        """Return the rows that are still there at `time`."""
        alive = self.expiries > time
        return self if bool(alive.all()) else self.only(alive)

    def keys_at(self, at: I64) -> Column:
        """Return the keys of some rows."""
        return taken(self.keys, self.rows[at])

    def values_at(self, at: I64) -> Column:
        """Return the values of some rows."""
        return taken(self.values, self.rows[at])


class Index:
    """Finds rows of many keys at once: a row's `code` orders it by key and time in one number."""

    __slots__ = ("_codes", "_first", "_span", "_times", "counts", "distinct")

    def __init__(self, places: I64, times: I64) -> None:
        begins = np.ones(len(places), bool)
        begins[1:] = places[1:] != places[:-1]
        starts = np.flatnonzero(begins)
        self.distinct = places[starts]
        self.counts = np.diff(np.append(starts, len(places)))
        self._first = int(times.min(initial=0))
        self._span = int(times.max(initial=0)) - self._first + 2
        self._times: I64 | None = None
        if len(starts) * self._span >= 1 << 62:
            # Only the order of times counts.
            self._times = np.unique(times)
            self._span = len(self._times) + 1
        ranks = np.repeat(np.arange(len(starts)), self.counts)
        self._codes = ranks * self._span + self._offsets(times, "left")

    def _offsets(self, times: I64, side: Any) -> I64:
        """Return where times lie among those of the pile; `right` is behind equal ones."""
        if self._times is not None:
            return np.searchsorted(self._times, times, side)
        last = self._first + self._span - 2
        behind = 1 if side == "right" else 0
        return np.clip(times, self._first - behind, last + 1 - behind) - self._first + behind

    def find(self, other: Index, since: I64, until: I64) -> Found:
        """Return for rows of `other` the rows of this pile of the same place, with a time from `since` to `until`."""
        at = np.searchsorted(self.distinct, other.distinct)
        known = at < len(self.distinct)
        known[known] = self.distinct[at[known]] == other.distinct[known]
        asking = np.flatnonzero(np.repeat(known, other.counts))
        base = np.repeat(at[known], other.counts[known]) * self._span
        starts = np.searchsorted(self._codes, base + self._offsets(since[asking], "left"))
        stops = np.searchsorted(self._codes, base + self._offsets(until[asking], "right"))
        return Found(asking, starts, np.maximum(stops - starts, 0))


@dataclass(slots=True)
class Found:
    """What a search found: row `asking[i]` has the `counts[i]` rows from `starts[i]` on."""

    asking: I64
    starts: I64
    counts: I64

    @property
    def total(self) -> int:
        """How many pairs that makes."""
        return int(self.counts.sum())

    def pairs(self) -> tuple[I64, I64]:
        """Return each row that asked together with each row it has found."""
        ends = np.cumsum(self.counts)
        count = int(ends[-1]) if len(ends) else 0
        found = np.arange(count) + np.repeat(self.starts - ends + self.counts, self.counts)
        return np.repeat(self.asking, self.counts), found


def joined(piles: Sequence[Pile]) -> Pile:
    """Return all rows of some piles as one, its columns holding nothing else."""
    keys = joined_columns([pile.keys_at(np.arange(len(pile))) for pile in piles])
    values = joined_columns([pile.values_at(np.arange(len(pile))) for pile in piles])

    def column(name: str) -> Any:
        return np.concatenate([getattr(pile, name) for pile in piles])

    return sorted_pile(
        column("places"),
        column("times"),
        column("expiries"),
        column("numbers"),
        column("groups"),
        keys,
        values,
        column("matched"),
    )


def sorted_pile(
    places: I64,
    times: I64,
    expiries: I64,
    numbers: I64,
    groups: I64,
    keys: Column,
    values: Column,
    matched: Bools | None = None,
) -> Pile:
    """Return rows as a pile."""
    order = by_key_and_time(places, times)
    marks = np.zeros(len(order), bool) if matched is None else matched[order]
    return Pile(places[order], times[order], expiries[order], numbers[order], groups[order], order, keys, values, marks)


def by_key_and_time(keys: I64, times: I64) -> I64:
    """Return the stable order by key, a number not below zero, and time; records mostly come in the order of time."""
    falls = bool((times[1:] < times[:-1]).any())
    return by_number(keys, np.argsort(times, kind="stable") if falls else np.arange(len(times)))


def by_number(numbers: I64, order: I64) -> I64:
    """Return the order by numbers not below zero, of equal ones as in `order`."""
    # Numpy sorts numbers of 16 bits by radix, several times as fast as larger ones.
    unsigned = numbers.view(np.uint64)
    for shift in range(0, max(1, int(numbers.max(initial=0)).bit_length()), 16):
        digit = (unsigned[order] >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order


def same_keys(pile: Pile, at: I64, other: Pile, there: I64) -> Bools:
    """Say where rows of two piles have the same key."""
    (first, kind), (second, kind_of_other) = pile.keys, other.keys
    if kind == kind_of_other == "int" and first.type == second.type and not first.null_count and not second.null_count:
        return first.to_numpy()[pile.rows[at]] == second.to_numpy()[other.rows[there]]
    return equal_rows(pile.keys_at(at), other.keys_at(there))


def taken(column: Column, at: I64) -> Column:
    """Return the values of a column at some places."""
    array, kind = column
    return array.take(pa.array(at)), kind


def joined_columns(columns: Sequence[Column]) -> Column:
    """Return columns one behind the other; where they are of several types, as one that can hold them all."""
    array, kind = columns[0]
    if all(k == kind and a.type == array.type for a, k in columns):
        return (array if len(columns) == 1 else pa.concat_arrays([a for a, _ in columns])), kind
    return encode([row for a, k in columns for row in decode(a, k)])


def equal_rows(left: Column, right: Column) -> Bools:
    """Say where two columns hold equal values, as Python's `==` has it; None is equal to None."""
    (first, kind), (second, other) = left, right
    if kind == other and first.type == second.type:
        if kind in ("int", "str", "bytes", "bool"):
            return _equal_scalars(first, second)
        if type(kind) is list and kind[0] == "tuple" and not first.null_count and not second.null_count:
            result = np.ones(len(first), bool)
            for index, inner in enumerate(kind[1]):
                result &= equal_rows((first.field(index), inner), (second.field(index), inner))
            return result
    return np.fromiter((a == b for a, b in zip(decode(*left), decode(*right), strict=True)), bool, len(first))


def _equal_scalars(first: pa.Array, second: pa.Array) -> Bools:
    same = pc.call_function("equal", [first, second]).fill_null(False).to_numpy(zero_copy_only=False)
    return cast("Bools", same | (first.is_null().to_numpy(False) & second.is_null().to_numpy(False)))
