"""Keys and values of state as JSON has them: the **form** in which others ask for them and get them.

Whoever answers has no program: no class is loaded, and a pickle is read only as far as it is plain values and objects
told by their fields; any other is shown as its bytes. The same forms serve to find a key: it is hashed and compared as
JSON, so that a question in a URL needs no type. Where keys are numbers, text and tuples of these, the hash is the one
that also tells the key group.

    (1, "a") -> [1, "a"]    Point(x=1) -> {"x": 1}    b"ab" -> {"base64": "YWI="}    a date -> "2026-11-16"
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import fractions
import io
import itertools
import json
import math
import pickle
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.model.row import Row, RowKind
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow
from flintstream.state.codec import Kind
from flintstream.state.keygroups import U64, hash_column, hash_key
from flintstream.state.stamped import Stamped

Form = Any
"""A value as JSON has it."""
_PLAIN = frozenset({"int", "bool", "str", "float", "none"})
_NAMED = {"window": ["start", "end"], "count_window": ["id"], "global_window": ["all"]}


def forms_of(array: pa.Array, kind: Kind) -> list[Form]:
    """Return the values of a column as forms."""
    if type(kind) is str:
        values = array.to_pylist()
        if kind in _PLAIN:
            return values
        if kind == "pickle":
            return [None if value is None else form_of_pickle(value) for value in values]
        return [form_of(value) for value in values]
    if kind[0] == "list":
        return _forms_of_lists(array, kind[1])
    columns = [forms_of(child, inner) for child, inner in zip(array.flatten(), kind[-1], strict=True)]
    rows: list[Form] = list(zip(*columns, strict=True)) if columns else [()] * len(array)
    made = _maker(kind)
    if array.null_count:
        return [made(row) if ok else None for row, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return list(map(made, rows))


def _maker(kind: Kind) -> Callable[[Any], Form]:
    tag = kind[0]
    if tag == "stamped":
        return lambda row: row[0]
    if tag == "global_window":
        return lambda row: {}
    names = _names(kind)
    return list if names is None else lambda row: dict(zip(names, row, strict=True))


def _names(kind: Kind) -> list[str] | None:
    tag = kind[0]
    return kind[1] if tag in ("row", "dict") else kind[2] if tag == "class" else _NAMED.get(tag)


def _forms_of_lists(array: pa.Array, kind: Kind) -> list[Form]:
    if not len(array):
        return []
    offsets = array.offsets.to_numpy().tolist()
    first = offsets[0]
    inner = forms_of(array.values.slice(first, offsets[-1] - first), kind)
    lists: list[Form] = [inner[start - first : end - first] for start, end in itertools.pairwise(offsets)]
    if array.null_count:
        return [each if ok else None for each, ok in zip(lists, array.is_valid().to_pylist(), strict=True)]
    return lists


def form_of(value: Any) -> Form:
    """Return the form of a Python value."""
    kind: Any = type(value)
    if value is None or kind in (str, int, bool, float):
        return value
    for base, form in _FORMS:
        if isinstance(value, base):
            return form(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: form_of(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return str(value)


def pairs_as_form(pairs: Sequence[tuple[Form, Form]]) -> Form:
    """Return a map: an object if all its keys are text, else a list of pairs."""
    if all(type(key) is str for key, _ in pairs):
        return dict(pairs)
    return [list(pair) for pair in pairs]


def _of_bytes(value: bytes) -> Form:
    return {"base64": base64.b64encode(value).decode()}


def _of_row(value: Row) -> Form:
    names = value.get_field_names()
    cells = [form_of(cell) for cell in value]
    return dict(zip(names, cells, strict=False)) if names else cells


def _of_map(value: Mapping[Any, Any]) -> Form:
    return pairs_as_form([(form_of(key), form_of(held)) for key, held in value.items()])


def _of_set(value: AbstractSet[Any]) -> Form:
    return sorted(map(form_of, value), key=order_of)


_FORMS: list[tuple[Any, Callable[[Any], Form]]] = [
    (Stamped, lambda value: form_of(value[0])),
    (Row, _of_row),
    (str, str),
    ((bytes, bytearray), _of_bytes),
    ((tuple, list), lambda value: [form_of(each) for each in value]),
    (dict, _of_map),
    ((set, frozenset), _of_set),
    ((bool, np.bool_), bool),
    ((int, np.integer), int),
    ((float, np.floating), float),
    (np.ndarray, lambda value: form_of(value.tolist())),
    ((dt.datetime, dt.date, dt.time), lambda value: value.isoformat()),
    (dt.timedelta, lambda value: value.total_seconds()),
    (TimeWindow, lambda value: {"start": value.start, "end": value.end}),
    (CountWindow, lambda value: {"id": value.id}),
    (GlobalWindow, lambda value: {}),
]


class _Name:
    """Stands for a class that a pickle names; it is not looked for, and cannot be called."""


class _Fields:
    """An object that was pickled by its fields."""

    def __init__(self, cls: Any) -> None:
        self.state: tuple[Any, ...] = ()


def _set_fields(held: _Fields, state: tuple[Any, ...]) -> None:
    held.state = state


def _row_of(names: Sequence[str] | None, values: Sequence[Any], kind: Any) -> Any:
    return list(values) if names is None else dict(zip(names, values, strict=False))


_OURS = "flintstream.state.pickles"
_HARMLESS: dict[tuple[str, str], Any] = {
    **{("datetime", cls.__name__): cls for cls in (dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone)},
    **{("builtins", cls.__name__): cls for cls in (set, frozenset, complex)},
    ("collections", "OrderedDict"): dict,
    ("decimal", "Decimal"): decimal.Decimal,
    ("fractions", "Fraction"): fractions.Fraction,
    ("uuid", "UUID"): uuid.UUID,
    ("flintstream.model.row", "_make_row"): _row_of,
    ("flintstream.model.row", "RowKind"): RowKind,
    ("flintstream.model.windows", "TimeWindow"): TimeWindow,
    ("flintstream.state.classes", "class_of"): lambda reference: _Name(),
    (_OURS, "new_object"): _Fields,
    (_OURS, "set_fields"): _set_fields,
    (_OURS, "named_tuple"): lambda cls, signature, values: tuple(values),
}


class _Told(pickle.Unpickler):
    """Reads plain values and the fields of objects; whatever else a pickle names is not called."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        found = _HARMLESS.get((module_name, global_name))
        return _Name() if found is None else found

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError


def form_of_pickle(data: bytes) -> Form:
    """Return what a pickle holds, or its bytes if that is more than plain values and objects told by their fields."""
    try:
        return form_of(_settled(_Told(io.BytesIO(data)).load()))
    except Exception:  # bytes that are no pickle, or one of something else, fail in many ways
        return {"pickle": base64.b64encode(data).decode()}


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is _Fields:
        names: list[str] = json.loads(value.state[0])[0]
        return {name: _settled(held) for name, held in zip(names, value.state[1 : len(names) + 1], strict=True)}
    if kind in (tuple, list, set, frozenset):
        return [_settled(each) for each in value]
    if kind is dict:
        return {key: _settled(held) for key, held in value.items()}
    if kind is _Name:
        raise pickle.UnpicklingError
    return value


def hash_of(form: Form) -> int:
    """Return the hash by which a key is found; of numbers, text and tuples, that of the key itself."""
    return hash_key(_frozen(form))


def _frozen(form: Form) -> Any:
    if type(form) is list:
        return tuple(map(_frozen, cast("list[Form]", form)))
    if type(form) is dict:
        held = cast("dict[str, Form]", form)
        return tuple(_frozen(held[name]) for name in sorted(held))
    return form


def hashes_of(array: pa.Array, kind: Kind) -> U64:
    """Return the hash of every key of a column, equal to `hash_of` of its form."""
    plain = _plain_kind(kind)
    if plain is not None:
        return hash_column(array, plain)
    return np.fromiter(map(hash_of, forms_of(array, kind)), np.uint64, len(array))


def _plain_kind(kind: Kind) -> Kind | None:
    """Return a kind of the same columns that has no classes in it, None if some column is not plain."""
    if type(kind) is str:
        return kind if kind in _PLAIN else None
    if kind[0] in ("list", "stamped", "global_window"):
        return None
    inner = [_plain_kind(each) for each in kind[-1]]
    if None in inner or not inner:
        return None
    names = _names(kind)
    return ["tuple", inner] if names is None else ["row", names, inner]


def tells_group(kind: Kind) -> bool:
    """Whether the hash of a form also is that of the key, and so tells its key group."""
    if type(kind) is str:
        return kind in _PLAIN
    return kind[0] in ("tuple", "row") and all(map(tells_group, kind[-1]))


def order_of(form: Form) -> Any:
    """Return what forms are ordered by: None, numbers, text, lists, objects."""
    if form is None:
        return (0,)
    if isinstance(form, str):
        return 2, form
    if isinstance(form, list):
        return 3, tuple(map(order_of, cast("list[Form]", form)))
    if isinstance(form, dict):
        held = cast("dict[str, Form]", form)
        return 4, tuple(order_of(held[name]) for name in sorted(held))
    return (0, 0) if isinstance(form, float) and math.isnan(form) else (1, form)


def ordered(array: pa.Array, kind: Kind) -> Any:
    """Return the rows of a column in the order of their forms."""
    columns = _sortable(array, kind)
    if columns is None:
        keys = list(map(order_of, forms_of(array, kind)))
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    options = pc.SortOptions(sort_keys=[(name, "ascending") for name in table.column_names])
    return pc.call_function("sort_indices", [table], options).to_numpy().astype(np.int64)


def _sortable(array: pa.Array, kind: Kind) -> list[pa.Array] | None:
    """Return columns whose order, the first deciding first, is that of the forms; None if Arrow cannot tell it."""
    if array.null_count:
        return None
    if type(kind) is str:
        return [array] if kind in ("int", "bool", "str") else None
    names = _names(kind)
    if kind[0] in ("list", "stamped", "global_window") or not kind[-1]:
        return None
    children = list(zip(array.flatten(), kind[-1], strict=True))
    if names is not None:
        children = [children[names.index(name)] for name in sorted(names)]
    found: list[pa.Array] = []
    for child, inner in children:
        columns = _sortable(child, inner)
        if columns is None:
            return None
        found += columns
    return found
