"""Numbers for rows of stored columns: equal rows have equal numbers, as Python's `==` would have it.

Tables in memory find an entry by its hash. Whoever compares stored rows without making objects of them (to fold
changelogs, to see how two savepoints differ) needs another way: each column becomes a column of numbers, and these are
combined. Nothing here loads a class or runs what a pickle names, so the rows may come from anywhere. A pickle of plain
values (numbers, text, tuples, moments, objects by their fields) stands for these; any other is as good as its bytes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import io
import json
import pickle
import sys
import uuid
from collections.abc import Iterator, Sequence, Set
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.model.row import RowKind
from flintstream.state.classes import read_reference
from flintstream.state.codec import Kind
from flintstream.state.keybytes import canonical

I64 = npt.NDArray[np.int64]
Chunk = tuple[pa.Array, Kind]
"""A piece of a column and its kind."""


def row_codes(columns: Sequence[Sequence[Chunk]], rows: int) -> I64:
    """Return a number for each row; a column comes in chunks, which need not be of one kind."""
    codes: I64 | None = None
    for chunks in columns:
        for leaf in _leaves(chunks):
            found = _numbers(leaf)
            codes = found if codes is None else _numbers(pa.array(codes * (int(found.max(initial=0)) + 1) + found))
    return np.zeros(rows, np.int64) if codes is None else codes


def _leaves(chunks: Sequence[Chunk]) -> Iterator[pa.Array]:
    """Yield columns that Arrow can number, which together are equal where the values are."""
    arrays = [array for array, _ in chunks]
    kind = chunks[0][1]
    if all(each == kind and array.type == arrays[0].type for array, each in chunks):
        yield from _leaves_of(arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays), kind)
    else:
        yield _as_bytes([value for chunk in chunks for value in plain_values(*chunk)])


def _leaves_of(array: pa.Array, kind: Kind) -> Iterator[pa.Array]:
    if kind == "pickle" or kind == "any" or (type(kind) is list and kind[0] == "list"):
        yield _as_bytes(plain_values(array, kind))
    elif kind == "float":
        # 0.0 and -0.0 are equal, but not their bytes.
        yield pc.call_function("add", [array, pa.scalar(0.0, array.type)])
    elif type(kind) is str:
        yield array
    else:
        if array.null_count or not kind[-1]:
            yield array.is_valid()
        compared = _compared(kind)
        for index, (child, inner) in enumerate(zip(array.flatten(), kind[-1], strict=True)):
            if compared is None or kind[2][index] in compared:
                yield from _leaves_of(child, inner)


def _compared(kind: Kind) -> Set[str] | None:
    """Return the fields that make two objects of a class equal, if it leaves out some and the program has it."""
    if kind[0] != "class" or kind[1].startswith("!"):
        return None
    module, _, qualname = class_name(kind[1]).partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    fields: dict[str, Any] = getattr(found, "__dataclass_fields__", {}) if isinstance(found, type) else {}
    return {name for name, each in fields.items() if each.compare} if set(kind[2]) <= set(fields) else None


def _numbers(array: pa.Array) -> I64:
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    encoded: Any = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    return encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy() + 1


def _as_bytes(values: Sequence[Any]) -> pa.Array:
    return pa.array([canonical(value) for value in values], pa.large_binary())


def plain_values(array: pa.Array, kind: Kind) -> list[Any]:
    """Return values as plain ones that stand for them: objects of a class as its name and their fields."""
    if kind == "pickle":
        return [None if value is None else _plain(value) for value in array.to_pylist()]
    if type(kind) is str:
        return array.to_pylist()
    if kind[0] == "list":
        return _plain_lists(array, kind[1])
    columns = [plain_values(child, inner) for child, inner in zip(array.flatten(), kind[-1], strict=True)]
    rows: list[Any] = list(zip(*columns, strict=True)) if columns else [()] * len(array)
    rows = [_of_tag(kind, row) for row in rows]
    if array.null_count:
        rows = [row if ok else None for row, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return rows


def _of_tag(kind: Kind, row: tuple[Any, ...]) -> Any:
    tag = kind[0]
    if tag == "tuple":
        return row
    if tag == "class":
        compared = _compared(kind)
        counting = (each for name, each in zip(kind[2], row, strict=True) if compared is None or name in compared)
        return ("class", class_name(kind[1]), *counting)
    if tag == "dict" or (tag == "row" and kind[1]):
        return (tag, dict(zip(kind[1], row, strict=True))) if tag == "row" else dict(zip(kind[1], row, strict=True))
    return (tag, *row)


def _plain_lists(array: pa.Array, kind: Kind) -> list[Any]:
    if not len(array):
        return []
    offsets = array.offsets.to_numpy()
    first = int(offsets[0])
    inner = plain_values(array.values.slice(first, int(offsets[-1]) - first), kind)
    cuts = zip((offsets[:-1] - first).tolist(), (offsets[1:] - first).tolist(), strict=True)
    lists: list[Any] = [inner[start:end] for start, end in cuts]
    if array.null_count:
        return [each if ok else None for each, ok in zip(lists, array.is_valid().to_pylist(), strict=True)]
    return lists


def class_name(reference: str) -> str:
    """Return how a class was called to which a column refers, without looking for it."""
    return read_reference(reference)[0]


class _Name:
    """Stands for a class that a pickle names; it is not looked for, and cannot be called."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Object:
    """An object that was pickled by its fields, as `pickles` does it: the name of its class, and the fields."""

    def __init__(self, cls: _Name) -> None:
        self.name = cls.name
        self.state: tuple[Any, ...] = ()

    def plain(self) -> Any:
        """Return the same as `plain_values` of an object in a column."""
        names: list[str] = json.loads(self.state[0])[0]
        values = [_settled(value) for value in self.state[1 : len(names) + 1]]
        return _of_tag(["class", self.name, names, values], tuple(values))


def _set_fields(held: _Object, state: tuple[Any, ...]) -> None:
    held.state = state


def _named_tuple(cls: _Name, signature: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(values)  # which is equal to a plain one


def _row(names: Sequence[str] | None, values: tuple[Any, ...], kind: RowKind) -> Any:
    if kind is not RowKind.INSERT or (names is not None and len(names) != len(values)):
        raise pickle.UnpicklingError  # such rows are in no column
    settled = tuple(map(_settled, values))
    return _of_tag(["row", None if names is None else list(names), settled], settled)


_OURS = "flintstream.state.pickles"
_HARMLESS: dict[tuple[str, str], Any] = {
    **{("datetime", cls.__name__): cls for cls in (dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone)},
    **{("builtins", cls.__name__): cls for cls in (set, frozenset, complex)},
    ("decimal", "Decimal"): decimal.Decimal,
    ("fractions", "Fraction"): fractions.Fraction,
    ("uuid", "UUID"): uuid.UUID,
    ("flintstream.model.row", "_make_row"): _row,
    ("flintstream.model.row", "RowKind"): RowKind,
    (_OURS, "new_object"): _Object,
    (_OURS, "set_fields"): _set_fields,
    (_OURS, "named_tuple"): _named_tuple,
}


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain values and the fields of objects; whatever else a pickle names is not called."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        found = _HARMLESS.get((module_name, global_name))
        return _Name(f"{module_name}:{global_name}") if found is None else found

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError


def _settled(value: Any) -> Any:
    """Return a value whose objects are all told by their fields."""
    kind = type(value)
    if kind is _Object:
        return value.plain()
    if kind in (tuple, list):
        return kind(map(_settled, value))
    if kind is dict:
        return {_settled(key): _settled(held) for key, held in value.items()}
    if kind is _Name:
        raise pickle.UnpicklingError
    return value


def _plain(data: bytes) -> Any:
    try:
        return _settled(_PlainUnpickler(io.BytesIO(data)).load())
    except Exception:  # bytes that are no pickle, or one of something else, fail in many ways
        return ("pickle", data)
