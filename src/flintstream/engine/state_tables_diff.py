"""How one table of state differs between two savepoints: rows that only one of them has, and rows with other values.

Rows are matched by the columns that make an entry: key, window, map key. Tables in which an entry may have several rows
(partial results of windows, records that wait) are compared as bags: a row is either in both or in one.

Apart from reading tables, since it works on what is shown: two tables that look the same are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.state.codec import kind_of_arrow
from flintstream.state.row_codes import I64, row_codes

CHANGE = "change"
ONLY_HERE, ONLY_THERE, DIFFERENT = "only_here", "only_there", "different"


@dataclass(frozen=True, slots=True)
class Shown:
    """A table as it is shown, and the columns that tell one row from another; without any it is a bag."""

    table: pa.Table
    keys: tuple[str, ...]


def keys_and_values(here: Sequence[str], there: Sequence[str], keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns by which two tables are matched, and those that are compared; of a bag all match."""
    names = list(dict.fromkeys([*here, *there]))
    if not keys:
        return names, []
    return [name for name in names if name in keys], [name for name in names if name not in keys]


def differences(here: Shown, there: Shown) -> pa.Table:
    """Return the rows in which two tables differ: what has changed, the key, and the values on both sides."""
    keys, values = keys_and_values(
        here.table.column_names, there.table.column_names, list(dict.fromkeys([*here.keys, *there.keys]))
    )
    one, other = here.table.combine_chunks(), there.table.combine_chunks()
    codes = _codes(one, other, keys)
    mine, theirs = codes[: one.num_rows], codes[one.num_rows :]
    if not values:
        mine, theirs = _numbered(mine, theirs)
    places = int(max(mine.max(initial=-1), theirs.max(initial=-1))) + 1
    at_one, at_other = _places(mine, places), _places(theirs, places)
    both = (at_one >= 0) & (at_other >= 0)
    same = np.zeros(places, bool)
    if values:
        content = _codes(one, other, values)
        same[both] = content[at_one[both]] == content[one.num_rows + at_other[both]]
    else:
        same = both
    kept = np.flatnonzero(~same & ((at_one >= 0) | (at_other >= 0)))
    kept = kept[np.lexsort((at_other[kept], np.where(at_one[kept] < 0, places, at_one[kept])))]
    return _told(one, other, keys, values, at_one[kept], at_other[kept])


def _codes(one: pa.Table, other: pa.Table, names: Sequence[str]) -> I64:
    columns = [[_chunk(one, name), _chunk(other, name)] for name in names]
    chunks = [[(array, kind_of_arrow(array.type)) for array in pair] for pair in columns]
    return row_codes(chunks, one.num_rows + other.num_rows)


def _chunk(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(table.num_rows)
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _numbered(mine: I64, theirs: I64) -> tuple[I64, I64]:
    """Tell equal rows of one side apart, so that as many match as both sides have."""
    counts = int(max(len(mine), len(theirs))) + 1
    joint = np.concatenate([mine * counts + _occurrence(mine), theirs * counts + _occurrence(theirs)])
    codes = row_codes([[(pa.array(joint), "int")]], len(joint))
    return codes[: len(mine)], codes[len(mine) :]


def _occurrence(codes: I64) -> I64:
    """Return for each row how many equal ones come before it."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.searchsorted(ordered, ordered, "left")
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - starts
    return found


def _places(codes: I64, size: int) -> I64:
    at = np.full(size, -1, np.int64)
    at[codes] = np.arange(len(codes))
    return at


def _told(
    one: pa.Table, other: pa.Table, keys: Sequence[str], values: Sequence[str], at_one: I64, at_other: I64
) -> pa.Table:
    change = np.where(at_other < 0, ONLY_HERE, np.where(at_one < 0, ONLY_THERE, DIFFERENT))
    columns: dict[str, pa.Array] = {CHANGE: pa.array(change.tolist(), pa.string())}
    for name in keys:
        columns[name] = _either(_taken(one, name, at_one), _taken(other, name, at_other), at_one >= 0)
    for name in values:
        columns[f"here_{name}"] = _taken(one, name, at_one)
        columns[f"there_{name}"] = _taken(other, name, at_other)
    return pa.table(columns)


def _taken(table: pa.Table, name: str, at: I64) -> pa.Array:
    return _chunk(table, name).take(pa.array(at, mask=at < 0))


def _either(here: pa.Array, there: pa.Array, is_here: np.ndarray) -> pa.Array:
    """Return a key, which is the same on both sides where both have it."""
    if here.type != there.type:
        if pa.types.is_null(here.type) or pa.types.is_null(there.type):
            return there if pa.types.is_null(here.type) else here
        rows = zip(here.to_pylist(), there.to_pylist(), is_here.tolist(), strict=True)
        return pa.array([repr(one if ok else other) for one, other, ok in rows], pa.string())
    order = np.where(is_here, np.arange(len(here)), np.arange(len(here)) + len(here))
    return pa.concat_arrays([here, there]).take(pa.array(order))


def count_changes(table: pa.Table) -> dict[str, int]:
    """Return how many rows of each change there are."""
    found = pc.call_function("value_counts", [table.column(CHANGE)]).to_pylist()
    return {each["values"]: each["counts"] for each in found}
