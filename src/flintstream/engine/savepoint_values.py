"""From the columns of a table to the Python values that state holds, by the type that its descriptor declares.

A batch table has one way to write a number or a moment, a job's state another: a DataFrame's `timestamp` has a zone, a
`datetime` of the state has none; its decimal may be meant as an integer of any size. Here one becomes the other, or is
refused. What was not declared comes as nearest to the column: a struct is a Row.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from typing import Any

import pyarrow as pa

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.row import Row
from flintstream.model.time import Instant
from flintstream.model.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeType,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flintstream.model.types import Types

FIELDS = (TupleTypeInfo, RowTypeInfo, DictTypeInfo, DataclassTypeInfo)
"""Types whose values have fields."""
_ARROW: dict[BasicType, pa.DataType] = {
    **dict.fromkeys((BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG), pa.int64()),
    **dict.fromkeys((BasicType.FLOAT, BasicType.DOUBLE), pa.float64()),
    **dict.fromkeys((BasicType.STRING, BasicType.CHAR), pa.string()),
    BasicType.BOOLEAN: pa.bool_(),
}
_CALENDAR = {
    SqlTimeType.DATE: pa.date32(),
    SqlTimeType.TIME: pa.time64("us"),
    SqlTimeType.TIMESTAMP: pa.timestamp("us"),
}
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_MICROS = 1_000_000


def values_of(array: pa.Array, info: TypeInformation | None) -> list[Any]:
    """Return the values of a column as a type has them; None where it is null.

    Raises:
        TypeMismatchError: the column cannot hold such values.
    """
    if info is None:
        return natural(array)
    if pa.types.is_null(array.type):
        return [None] * len(array)
    if isinstance(info, FIELDS):
        return _structs(array, info)
    if isinstance(info, MapTypeInfo):
        return _maps(array, info)
    if isinstance(info, BasicTypeInfo) and info.basic_type in _ODD:
        return _ODD[info.basic_type](array, info)
    wanted = _wanted(info)
    if wanted is not None:
        return _cast(array, wanted, info).to_pylist()
    if isinstance(info, ListTypeInfo):
        return _lists(array, info, info.elem_type)
    if isinstance(info, PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo):
        return _lists(array, info, info.element_type)
    return natural(array)


def _wanted(info: TypeInformation) -> pa.DataType | None:
    if isinstance(info, BasicTypeInfo):
        return _ARROW[info.basic_type]
    if isinstance(info, SqlTimeTypeInfo):
        return _CALENDAR[info.time_type]
    return pa.binary() if info == _BYTES else None


def natural(array: pa.Array) -> list[Any]:
    """Return the values of a column as nothing but the column tells them."""
    dtype = array.type
    if pa.types.is_struct(dtype):
        build = Row.builder([field.name for field in dtype])
        rows = zip(*map(natural, array.flatten()), strict=True)
        return [build(row) if ok else None for row, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _cut(array, natural)
    if pa.types.is_timestamp(dtype):
        return _naive(array).to_pylist()
    return array.to_pylist()


def _naive(array: pa.Array) -> pa.Array:
    """Return moments without their zone, in UTC."""
    return array.cast(pa.timestamp("us", array.type.tz)).cast(pa.timestamp("us"))


def _cast(array: pa.Array, wanted: pa.DataType, info: TypeInformation) -> pa.Array:
    if array.type == wanted:
        return array
    if not _converts(array.type, wanted):
        raise _mismatch(array, info)
    try:
        return _naive(array) if pa.types.is_timestamp(wanted) else array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise _mismatch(array, info, str(error)) from None


def _converts(have: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column may stand for another type without anybody having to guess."""
    kinds = pa.types
    if kinds.is_integer(wanted):
        return kinds.is_integer(have) or (kinds.is_decimal(have) and have.scale == 0)
    if kinds.is_floating(wanted):
        return kinds.is_integer(have) or kinds.is_floating(have) or kinds.is_decimal(have)
    if kinds.is_string(wanted):
        return kinds.is_string(have) or kinds.is_large_string(have) or kinds.is_dictionary(have)
    if kinds.is_binary(wanted):
        return kinds.is_binary(have) or kinds.is_large_binary(have)
    same = (kinds.is_timestamp, kinds.is_date, kinds.is_time)
    return any(check(wanted) and check(have) for check in same)


def _mismatch(array: pa.Array, info: TypeInformation, reason: str = "") -> TypeMismatchError:
    what = f"a column of {array.type} cannot be state of type {info}"
    what = f"{what} ({reason})" if reason else what
    return TypeMismatchError(describe(what, remedy="cast the column, or declare another type"))


def _big_ints(array: pa.Array, info: TypeInformation) -> list[Any]:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return [_parsed(int, value, array, info) for value in array.to_pylist()]
    if pa.types.is_decimal(array.type) and array.type.scale == 0:
        return [None if value is None else int(value) for value in array.to_pylist()]
    return _cast(array, pa.int64(), info).to_pylist()


def _decimals(array: pa.Array, info: TypeInformation) -> list[Any]:
    if pa.types.is_decimal(array.type):
        return array.to_pylist()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_integer(array.type)):
        raise _mismatch(array, info)
    return [_parsed(decimal.Decimal, value, array, info) for value in array.to_pylist()]


def _parsed(build: Callable[[Any], Any], value: Any, array: pa.Array, info: TypeInformation) -> Any:
    try:
        return None if value is None else build(value)
    except (ValueError, decimal.InvalidOperation):
        raise _mismatch(array, info, f"{value!r:.100}") from None


def _instants(array: pa.Array, info: TypeInformation) -> list[Any]:
    if not pa.types.is_timestamp(array.type):
        raise _mismatch(array, info)
    micros = _naive(array).cast(pa.int64()).to_pylist()
    return [None if each is None else Instant(each // _MICROS, each % _MICROS * 1000) for each in micros]


_ODD: dict[BasicType, Callable[[pa.Array, TypeInformation], list[Any]]] = {
    BasicType.BIG_INT: _big_ints,
    BasicType.BIG_DEC: _decimals,
    BasicType.INSTANT: _instants,
}


def _cut(array: Any, values: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """Return a list for each row, its elements made all at once."""
    if not len(array):
        return []
    offsets: list[int] = array.offsets.to_pylist()
    first = offsets[0]
    inner = values(array.values.slice(first, offsets[-1] - first))
    cuts = zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True)
    return [inner[start - first : end - first] if ok else None for start, end, ok in cuts]


def _lists(array: pa.Array, info: TypeInformation, element: TypeInformation) -> list[Any]:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise _mismatch(array, info)
    return _cut(array, lambda inner: values_of(inner, element))


def _maps(array: Any, info: MapTypeInfo) -> list[Any]:
    if not pa.types.is_map(array.type):
        raise _mismatch(array, info)
    if not len(array):
        return []
    offsets: list[int] = array.offsets.to_pylist()
    first, length = offsets[0], offsets[-1] - offsets[0]
    keys = values_of(array.keys.slice(first, length), info.key_type)
    items = values_of(array.items.slice(first, length), info.value_type)
    cuts = zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True)
    return [
        dict(zip(keys[start - first : end - first], items[start - first : end - first], strict=True)) if ok else None
        for start, end, ok in cuts
    ]


def _structs(array: pa.Array, info: Any) -> list[Any]:
    if not pa.types.is_struct(array.type):
        raise _mismatch(array, info)
    known = {field.name: child for field, child in zip(array.type, array.flatten(), strict=True)}
    names: list[str] = info.get_field_names()
    absent = [name for name in names if name not in known]
    if absent and isinstance(info, TupleTypeInfo) and len(known) == len(names):
        known, absent = dict(zip(names, known.values(), strict=True)), []
    absent = [name for name in absent if not _has_default(info, name)]
    if absent:
        raise _mismatch(array, info, f"no field {', '.join(map(repr, absent))}")
    types = dict(zip(names, info.field_types, strict=True))
    columns = {name: values_of(known[name], types[name]) for name in names if name in known}
    build = _builder(info, list(columns))
    rows = zip(*columns.values(), strict=True) if columns else [()] * len(array)
    return [build(row) if ok else None for row, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _has_default(info: Any, name: str) -> bool:
    if not isinstance(info, DataclassTypeInfo):
        return False
    field = next(each for each in dataclass_fields(info.cls) if each.name == name)
    return field.default is not MISSING or field.default_factory is not MISSING


def _builder(info: Any, names: Sequence[str]) -> Callable[[tuple[Any, ...]], Any]:
    if isinstance(info, DataclassTypeInfo):
        cls = info.cls
        return lambda row: cls(**dict(zip(names, row, strict=True)))
    if isinstance(info, RowTypeInfo):
        return Row.builder(None if info.field_names is None else list(info.field_names))
    if isinstance(info, DictTypeInfo):
        return lambda row: dict(zip(names, row, strict=True))
    return tuple
