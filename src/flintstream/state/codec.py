"""Python values to Arrow columns and back, exactly.

Every list of values is one Arrow array plus a **kind**, a small description of which Python types the array stands for.
Kinds are inferred strictly (`1` and `1.0` never share a column), so decoding gives back what went in, type for type.
Whatever has no column form falls back to pickle, value by value. One file, because edges between levels, state
changelogs and collections must all agree on it.

A kind is JSON-able: "int", "float", "str", "bytes", "bool", "none", "datetime", "date", "time", "pickle", or a list
["tuple", kinds], ["row", names|None, kinds], ["dict", names, kinds], ["list", kind], ["class", ref, names, kinds], and
["window", kinds], ["count_window", kinds], ["global_window", kinds] for windows, which name a window's state, and
["stamped", kinds] for values that expire.
A `None` among values is an Arrow null and needs no kind of its own.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.row import Row
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow
from flintstream.state.classes import class_of, reference_to, types_in
from flintstream.state.codec_times import times_of
from flintstream.state.evolution import fields_now, refuse_new_keys
from flintstream.state.pickles import dumps, loads
from flintstream.state.stamped import Stamped

Kind = Any
"""A kind as above; a JSON value, hence `Any`."""

_SCALARS: dict[type, tuple[str, pa.DataType]] = {
    int: ("int", pa.int64()),
    float: ("float", pa.float64()),
    str: ("str", pa.string()),
    bytes: ("bytes", pa.binary()),
    bool: ("bool", pa.bool_()),
    datetime.datetime: ("datetime", pa.timestamp("us")),
    datetime.date: ("date", pa.date32()),
    datetime.time: ("time", pa.time64("us")),
}
_ARROW: dict[str, pa.DataType] = dict(_SCALARS.values())
_INTS, _FLOATS = {int}, {float}
"""The types of values that NumPy reads three times as fast as Arrow does, since there is no None among them."""
_OUR_OWN: dict[type, tuple[str, tuple[str, ...], Callable[..., Any]]] = {
    TimeWindow: ("window", ("start", "end"), attrgetter("start", "end")),
    CountWindow: ("count_window", ("id",), lambda window: (window.id,)),
    # A column of its own, since a struct of nothing cannot be written as Parquet.
    GlobalWindow: ("global_window", ("all",), lambda window: (True,)),
    Stamped: ("stamped", ("value", "stamp"), tuple),
}
_OUR_BUILDERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "window": lambda row: TimeWindow(*row),
    "count_window": lambda row: CountWindow(*row),
    "global_window": lambda row: GlobalWindow.get(),
    "stamped": Stamped,
}
TAGS = frozenset({"tuple", "row", "dict", "list", "class", *_OUR_BUILDERS})
"""What kinds that are lists begin with."""
KIND_METADATA = b"flintstream.kind"
_SURROGATE = re.compile("[\ud800-\udfff]")


def encode(values: Sequence[Any]) -> tuple[pa.Array, Kind]:
    """Return the column of `values` and its kind; any Python values are accepted."""
    types = set(map(type, values))
    if types in (_INTS, _FLOATS):
        number, kind = (np.int64, "int") if types == _INTS else (np.float64, "float")
        try:
            return pa.array(np.fromiter(values, number, len(values))), kind
        except OverflowError:  # an int beyond 64 bits
            return encode_pickled(values), "pickle"
    types.discard(type(None))
    if not types:
        return pa.nulls(len(values)), "none"
    if len(types) == 1:
        (only,) = types
        column = _encode_uniform(only, values)
        if column is not None:
            return column
    return encode_pickled(values), "pickle"


def _encode_uniform(only: type, values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
    scalar = _SCALARS.get(only)
    if scalar is not None:
        return _encode_scalars(scalar, values)
    if only is tuple:
        return _encode_tuples(values)
    if only is dict:
        return _encode_dicts(values)
    if only is list:
        return _encode_lists(values)
    if only is Row:
        return _encode_rows(values)
    if only in _OUR_OWN:
        return _encode_our_own(only, values)
    if is_dataclass(only):
        return _encode_dataclasses(only, values)
    return None


def _encode_scalars(scalar: tuple[str, pa.DataType], values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
    kind, dtype = scalar
    if kind in ("datetime", "time") and any(v is not None and (v.tzinfo is not None or v.fold) for v in values):
        return None
    try:
        return pa.array(values, dtype), kind
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        return None  # an int beyond 64 bits, a lone surrogate: pickle keeps them


def _struct(
    values: Sequence[Any], names: Sequence[str], column_of: Callable[[int], list[Any]]
) -> tuple[pa.Array, list[Kind]]:
    """Build a struct array from one column getter; None among values becomes a null struct."""
    mask = [v is None for v in values] if _has_none(values) else None
    columns: list[pa.Array] = []
    kinds: list[Kind] = []
    for index in range(len(names)):
        array, kind = encode(column_of(index))
        columns.append(array)
        kinds.append(kind)
    if not columns:
        return pa.array([{} if v is not None else None for v in values], pa.struct([])), kinds
    array = pa.StructArray.from_arrays(columns, list(names), mask=pa.array(mask) if mask is not None else None)
    return array, kinds


def _has_none(values: Sequence[Any]) -> bool:
    # By type, since `None in values` would call the users' own `__eq__`.
    return type(None) in map(type, values)


def _present(values: Sequence[Any]) -> Sequence[Any]:
    return [v for v in values if v is not None] if _has_none(values) else values


def _columns_of(values: Sequence[Any]) -> Callable[[Callable[[Any], Any]], list[Any]]:
    """Return what makes a column of the values, given what to take out of each; None stays None."""
    if _has_none(values):
        return lambda get: [None if v is None else get(v) for v in values]
    return lambda get: list(map(get, values))


def _encode_tuples(values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
    widths = set(map(len, _present(values)))
    if len(widths) != 1:
        return None
    (width,) = widths
    column = _columns_of(values)
    array, kinds = _struct(values, [f"f{i}" for i in range(width)], lambda i: column(itemgetter(i)))
    return array, ["tuple", kinds]


def _are_field_names(names: Sequence[Any]) -> bool:
    """Whether Arrow can name fields so: only text that is valid UTF-8."""
    return all(type(name) is str and not _SURROGATE.search(name) for name in names)


def _encode_dicts(values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
    shapes = set(map(tuple, _present(values)))
    if len(shapes) != 1:
        return None
    (names,) = shapes
    if not _are_field_names(names):
        return None
    column = _columns_of(values)
    array, kinds = _struct(values, names, lambda i: column(itemgetter(names[i])))
    return array, ["dict", list(names), kinds]


def _encode_lists(values: Sequence[Any]) -> tuple[pa.Array, Kind]:
    inner, kind = encode(list(itertools.chain.from_iterable(_present(values))))
    lengths = np.fromiter((0 if v is None else len(v) for v in values), np.int64, len(values))
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    mask = pa.array([v is None for v in values]) if _has_none(values) else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=mask), ["list", kind]


_CELLS = attrgetter("_values")
_NAMES = attrgetter("_fields")
_ROW_KIND = attrgetter("_row_kind")
"""What a row is made of, without a call of Python's for each: rows are the most common records."""


def _row_shapes(rows: Sequence[Row]) -> set[tuple[Any, ...]]:
    """Return names, width and kind of rows, mostly one of each; rows that were made together share their names."""
    names = {id(each): each for each in map(_NAMES, rows)}.values()
    every_name = {None if each is None else tuple(each) for each in names}
    widths, kinds = set(map(len, map(_CELLS, rows))), set(map(_ROW_KIND, rows))
    return {(each, width, kind.value) for each in every_name for width in widths for kind in kinds}


def _encode_rows(values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
    shapes = _row_shapes(_present(values))
    if len(shapes) != 1:
        return None
    (names, width, row_kind) = shapes.pop()
    if row_kind != 0 or (names is not None and not (len(set(names)) == width and _are_field_names(names))):
        return None
    labels = [f"f{i}" for i in range(width)] if names is None else names
    cells = _columns_of(values)(_CELLS)
    column = _columns_of(cells)
    array, kinds = _struct(cells, labels, lambda i: column(itemgetter(i)))
    return array, ["row", None if names is None else list(names), kinds]


def _encode_dataclasses(only: type, values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
    names = [f.name for f in dataclass_fields(only)]
    if not _is_its_fields(only) or any(len(getattr(v, "__dict__", ())) > len(names) for v in _present(values)):
        return None  # someone added attributes of their own
    column = _columns_of(values)
    try:
        array, kinds = _struct(values, names, lambda i: column(attrgetter(names[i])))
    except AttributeError:
        return None  # an attribute was deleted
    return array, ["class", reference_to(only), names, kinds]


_HANDMADE = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")


@lru_cache(maxsize=1024)
def _is_its_fields(cls: type) -> bool:
    """Whether calling a dataclass with the values of its fields gives the same object again, as unpickling would."""
    if "__dataclass_params__" not in cls.__dict__ or type(cls).__call__ is not type.__call__:
        return False  # a subclass that is no dataclass itself, or a metaclass with ideas of its own
    if hasattr(cls, "__post_init__") or hasattr(cls, "__setstate__"):
        return False
    if any(getattr(cls, name) is not getattr(object, name) for name in _HANDMADE):
        return False
    code = getattr(cls.__init__, "__code__", None)
    if code is None or code.co_filename != "<string>":
        return False  # dataclasses leave an `__init__` alone that is there already
    return code.co_varnames[1 : code.co_argcount] == tuple(f.name for f in dataclass_fields(cls))


def _encode_our_own(only: type, values: Sequence[Any]) -> tuple[pa.Array, Kind]:
    tag, names, parts = _OUR_OWN[only]
    rows = _columns_of(values)(parts)
    column = _columns_of(rows)
    array, kinds = _struct(rows, names, lambda i: column(itemgetter(i)))
    return array, [tag, kinds]


def encode_pickled(values: Sequence[Any]) -> pa.Array:
    """Return the column of kind "pickle" of any values."""
    return pa.array([None if v is None else dumps(v) for v in values], pa.large_binary())


def decode(array: pa.Array, kind: Kind) -> list[Any]:
    """Return the Python values of `array`; the inverse of `encode`."""
    if type(kind) is str:
        if kind == "pickle":
            return [None if v is None else loads(v) for v in array.to_pylist()]
        if kind == "str" and array.null_count == 0 and pa.types.is_dictionary(array.type):
            lookup = np.array(array.dictionary.to_pylist(), dtype=object)
            return lookup[array.indices.to_numpy()].tolist()
        times = times_of(array) if pa.types.is_temporal(array.type) else None
        return array.to_pylist() if times is None else times
    tag = kind[0]
    if tag == "list":
        return _decode_lists(array, kind[1])
    columns = [decode(_child(array, i), k) for i, k in enumerate(kind[-1])]
    rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if columns else [()] * len(array)
    if tag == "row":
        values: list[Any] = Row.build_all(kind[1], rows)
    else:
        build = _builder(kind)
        values = list(rows if build is None else map(build, rows))
    if array.null_count:
        valid = array.is_valid().to_pylist()
        values = [v if ok else None for v, ok in zip(values, valid, strict=True)]
    return values


def _child(array: pa.Array, index: int) -> pa.Array:
    return array.field(index)


def _builder(kind: Kind) -> Callable[[tuple[Any, ...]], Any] | None:
    tag = kind[0]
    if tag == "tuple":
        return None
    if tag == "dict":
        names = kind[1]
        return lambda row: dict(zip(names, row, strict=True))
    if tag == "class":
        return _class_builder(*kind[1:])
    if tag in _OUR_BUILDERS:
        return _OUR_BUILDERS[tag]
    msg = f"unknown kind {kind!r}"
    raise AssertionError(msg)


def _class_builder(reference: str, names: list[str], kinds: list[Kind]) -> Callable[[tuple[Any, ...]], Any]:
    """Return what makes an object of today's class out of the fields that one had when it was written."""
    cls = class_of(reference)
    if hasattr(cls, "__setstate__") and not _is_its_fields(cls):
        return lambda row: _with_state(cls, dict(zip(names, row, strict=True)))
    evolve = fields_now(cls, names, types_in(reference), kinds)
    if not _is_its_fields(cls):
        current = [field.name for field in dataclass_fields(cls)]
        return lambda row: _with_fields(cls, current, row if evolve is None else evolve(row))
    return (lambda row: cls(*row)) if evolve is None else (lambda row: cls(*evolve(row)))


def _with_state(cls: Any, state: dict[str, Any]) -> Any:
    made = cls.__new__(cls)
    made.__setstate__(state)
    return made


def _with_fields(cls: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return an object as unpickling would make it, past an `__init__` that is not known."""
    made = cls.__new__(cls)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)
    return made


def decode_keys(array: pa.Array, kind: Kind) -> list[Any]:
    """Return the Python values of a column of keys, which must be what they were."""
    _check_keys(kind)
    return decode(array, kind)


def _check_keys(kind: Kind) -> None:
    if type(kind) is list:
        if kind[0] == "class":
            cls = class_of(kind[1])
            refuse_new_keys(cls, fields_now(cls, kind[2], types_in(kind[1]), kind[3]) is not None)
        for part in kind[-1] if type(kind[-1]) is list else ():
            _check_keys(part)


def _decode_lists(array: pa.Array, kind: Kind) -> list[Any]:
    if not len(array):
        return []
    offsets = array.offsets.to_numpy().tolist()
    first = offsets[0]
    inner = decode(array.values.slice(first, offsets[-1] - first), kind)
    starts, ends = offsets[:-1], offsets[1:]
    lists = [inner[s - first : e - first] for s, e in zip(starts, ends, strict=True)]
    if array.null_count:
        valid = array.is_valid().to_pylist()
        return [v if ok else None for v, ok in zip(lists, valid, strict=True)]
    return lists


def kind_of_arrow(dtype: pa.DataType) -> Kind:
    """Return the kind under which a foreign Arrow column (Spark's, a file's) is seen by Python functions."""
    for name, scalar in _ARROW.items():
        if dtype.equals(scalar):
            return name
    if pa.types.is_signed_integer(dtype):
        return "int"
    if pa.types.is_floating(dtype):
        return "float"
    if pa.types.is_large_string(dtype):
        return "str"
    if pa.types.is_struct(dtype):
        names = [field.name for field in dtype]
        return ["row", names, [kind_of_arrow(field.type) for field in dtype]]
    return "any"


def field_of(name: str, array: pa.Array, kind: Kind) -> pa.Field:
    """Return the schema field that carries `kind` with its column."""
    return pa.field(name, array.type, metadata={KIND_METADATA: json.dumps(kind).encode()})


def kind_of_field(field: pa.Field) -> Kind:
    """Return the kind a field carries, or the natural one of its Arrow type."""
    metadata = field.metadata or {}
    text = metadata.get(KIND_METADATA)
    return kind_of_arrow(field.type) if text is None else json.loads(text)
