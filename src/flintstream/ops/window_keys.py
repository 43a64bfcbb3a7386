"""Keys of columnar windows as columns that Arrow can group by, and back.

The name of a key column says what it holds: `k0:str` is a key of text, `k1/3:int` the second field of a tuple of three.
So a table alone says how to rebuild its keys, and tables of different batches can be concatenated: a column that one of
them lacks is null there. Keys that have no such columns travel pickled. Where keys of several types meet, Python's own
`==` decides which are one key, as it does on the record path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.ops.batch import I64
from flintstream.state.codec import Kind, decode, encode, encode_pickled

PICKLE = "pickle"


def key_columns(array: pa.Array, kind: Kind) -> dict[str, pa.Array]:
    """Return a key as columns that can be grouped by."""
    if type(kind) is str:
        return {f"k0:{kind}": _groupable(array, kind)}
    fields = _fields(array, kind)
    if fields is not None:
        width = len(fields)
        return {f"k{i}/{width}:{k}": _groupable(column, k) for i, (column, k) in enumerate(fields)}
    return {f"k0:{PICKLE}": encode_pickled(decode(array, kind))}


def _fields(array: pa.Array, kind: Kind) -> list[tuple[pa.Array, str]] | None:
    """Return the columns of plain tuples; None if some tuple could be taken for no key at all."""
    if kind[0] != "tuple" or len(kind[1]) < 2 or array.null_count or PICKLE in kind[1]:
        return None
    if not all(type(inner) is str for inner in kind[1]):
        return None
    columns = [array.field(index) for index in range(len(kind[1]))]
    return None if _has_empty_row(columns) else list(zip(columns, kind[1], strict=True))


def _groupable(column: pa.Array, kind: str) -> pa.Array:
    """Return a column in which equal values have equal bytes."""
    # 0.0 and -0.0 are equal, but not their bytes.
    return pc.call_function("add", [column, pa.scalar(0.0)]) if kind == "float" else column


def key_names(table: pa.Table) -> list[str]:
    """Return the names of a table's key columns."""
    return [name for name in table.column_names if name.startswith("k") and ":" in name]


def joined_key(table: pa.Table) -> tuple[pa.Array, Kind]:
    """Return the keys of a table as one column; they must be of one type."""
    names = sorted(key_names(table), key=lambda name: int(_place(name).partition("/")[0][1:]))
    arrays = [flat(table.column(name)) for name in names]
    kinds = [name.partition(":")[2] for name in names]
    if not _shape(names[0]):
        return arrays[0], kinds[0]
    return pa.StructArray.from_arrays(arrays, [f"f{i}" for i in range(len(arrays))]), ["tuple", kinds]


def tidied(table: pa.Table) -> pa.Table:
    """Leave out key columns in which there is nothing, except where they are needed to make a key."""
    names = key_names(table)
    filled = {name for name in names if table.column(name).null_count < table.num_rows}
    shapes = {_shape(name) for name in filled} or {_shape(names[0])}
    places = {_place(name) for name in filled}
    kept: set[str] = set()
    for name in names:
        if name in filled or (_shape(name) in shapes and _place(name) not in places):
            kept.add(name)
            places.add(_place(name))
    idle = [name for name in names if name not in kept]
    return table.drop_columns(idle) if idle else table


def _place(name: str) -> str:
    return name.partition(":")[0]


def _shape(name: str) -> str:
    """Return the width of the tuples that a column is a part of, as text; of a scalar, nothing."""
    return _place(name).partition("/")[2]


def are_of_one_type(table: pa.Table) -> bool:
    """Whether the keys of a tidied table can be grouped by its columns alone."""
    names = key_names(table)
    if f"k0:{PICKLE}" in names or len({_shape(name) for name in names}) > 1:
        return False
    if len({_place(name) for name in names}) < len(names):
        return False
    return not _shape(names[0]) or not _has_empty_row([flat(table.column(name)) for name in names])


def _has_empty_row(columns: Sequence[pa.Array]) -> bool:
    """Whether all columns are null in some row."""
    if not all(column.null_count for column in columns):
        return False
    return bool(np.logical_and.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns]).any())


def numbered_keys(table: pa.Table) -> tuple[I64, dict[str, pa.Array]]:
    """Return a number for each row, equal for equal keys, and the columns of the keys that 0, 1, 2... stand for."""
    keys: list[Any] = [None] * table.num_rows
    by_shape: dict[str, list[str]] = {}
    for name in key_names(table):
        by_shape.setdefault(_shape(name), []).append(name)
    for shape, names in by_shape.items():
        _fill(keys, table, _by_field(names, int(shape)) if shape else [names])
    numbers: dict[Any, int] = {}
    ids = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(keys))
    return ids, key_columns(*encode(list(numbers)))


def numbered(table: pa.Table) -> tuple[I64, dict[str, pa.Array]]:
    """Return a number for each row of a tidied table, equal for equal keys, and the columns of the keys by number."""
    return numbered_alike(table) if are_of_one_type(table) else numbered_keys(table)


def numbered_alike(table: pa.Table) -> tuple[I64, dict[str, pa.Array]]:
    """Return the same for keys that are all of one type."""
    names = key_names(table)
    numbers, first = _numbered_rows([flat(table.column(name)) for name in names])
    keys = table.select(names).take(pa.array(first))
    return numbers, {name: flat(keys.column(name)) for name in names}


def _numbered_rows(columns: Sequence[pa.Array]) -> tuple[I64, I64]:
    """Return a number for each row, in the order of the keys' first rows, and the first row of each number."""
    codes: Any = None
    count = 0
    for column in columns:
        encoded = pc.call_function("dictionary_encode", [column], pc.DictionaryEncodeOptions("encode"))
        indices = encoded.indices.to_numpy().astype(np.int64)
        codes = indices if codes is None else codes * len(encoded.dictionary) + indices
        count = len(encoded.dictionary)
    if len(columns) > 1:
        encoded = pa.array(codes).dictionary_encode()
        codes, count = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    first = np.zeros(count, np.int64)
    # Of several rows the last one written stays.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, first


def _by_field(names: Sequence[str], width: int) -> list[list[str]]:
    return [[name for name in names if name.startswith(f"k{index}/")] for index in range(width)]


def _fill(keys: list[Any], table: pa.Table, fields: list[list[str]]) -> None:
    """Put the keys of one shape where they stand: a row in which all its columns are null is not of this shape."""
    values = [_first_present(table, names) for names in fields]
    rows = values[0] if len(values) == 1 else list(zip(*values, strict=True))
    for index, parts in enumerate(zip(*values, strict=True)):
        if any(part is not None for part in parts):
            keys[index] = rows[index]


def _first_present(table: pa.Table, names: Sequence[str]) -> list[Any]:
    found: list[Any] = [None] * table.num_rows
    for name in names:
        for index, value in enumerate(decode(flat(table.column(name)), name.partition(":")[2])):
            if value is not None:
                found[index] = value
    return found


def flat(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
