"""Makes a record be of a declared type, or says why it is not.

A file of its own because a collection is the one place where a user's raw values meet a declared type before anything
has run: the program is still being declared, so the error can be too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

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

_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_CLASSES: dict[BasicType | SqlTimeType, type[Any]] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: bool,
    BasicType.BIG_DEC: decimal.Decimal,
    BasicType.INSTANT: Instant,
    SqlTimeType.DATE: dt.date,
    SqlTimeType.TIME: dt.time,
    SqlTimeType.TIMESTAMP: dt.datetime,
}


def conform_records(records: Sequence[Any], type_info: TypeInformation) -> list[Any]:
    """Return the records as values of `type_info`: tuples become rows where rows are declared, ints become floats.

    Example:
        >>> from flintstream.model.types import Types
        >>> conform_records([("a", 1)], Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.DOUBLE()]))
        [Row(id='a', n=1.0)]

    Raises:
        TypeMismatchError: names the first record that cannot be such a value.
    """
    conformed: list[Any] = []
    for index, record in enumerate(records):
        try:
            conformed.append(conform(record, type_info))
        except _Mismatch as mismatch:
            what = f"record {index} {record!r} is not of type {type_info}: {mismatch}"
            raise TypeMismatchError(describe(what, remedy="correct the record or the declared type")) from None
    return conformed


class _Mismatch(Exception):
    """Why a value does not fit; turned into one error that names the record."""


def conform(value: Any, type_info: TypeInformation) -> Any:
    """Return a value as one of `type_info`; None is a value of every type."""
    if value is None:
        return None
    convert = _CONVERT.get(type(type_info))
    return value if convert is None else convert(value, type_info)


def _basic(value: Any, info: BasicTypeInfo) -> Any:
    kind = info.basic_type
    if kind in (BasicType.FLOAT, BasicType.DOUBLE):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if kind is BasicType.DOUBLE else _narrow(float(value))
        raise _wrong(value, info)
    if kind in _BITS or kind is BasicType.BIG_INT:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(value, info)
        limit = 1 << (_BITS.get(kind, 64) - 1)
        if kind in _BITS and not -limit <= value < limit:
            msg = f"{value} needs more than {_BITS[kind]} bits"
            raise _Mismatch(msg)
        return value
    return _instance(value, _CLASSES[kind], info)


def _narrow(value: float) -> float:
    """Return a float rounded to 32 bits, as it is after a trip through PyFlink."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        msg = f"{value} needs more than 32 bits"
        raise _Mismatch(msg) from None


def _sql_time(value: Any, info: SqlTimeTypeInfo) -> Any:
    if info.time_type is SqlTimeType.DATE and isinstance(value, dt.datetime):
        raise _wrong(value, info)
    return _instance(value, _CLASSES[info.time_type], info)


def _instance(value: Any, cls: type[Any], info: TypeInformation) -> Any:
    if not isinstance(value, cls):
        raise _wrong(value, info)
    return value


def _row(value: Any, info: RowTypeInfo) -> Row:
    if isinstance(value, Row):
        named = info.field_names is not None and value.get_field_names() is not None
        fields = _by_name(value.as_dict(), info) if named else list(value)
    elif isinstance(value, Mapping):
        fields = _by_name(cast("Mapping[str, Any]", value), info)
    elif isinstance(value, tuple | list):
        fields = list(cast("Sequence[Any]", value))
    elif dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        fields = [getattr(value, name, None) for name in info.get_field_names()]
    else:
        raise _wrong(value, info)
    row = Row(*_fields(fields, info))
    if isinstance(value, Row):
        row.set_row_kind(value.get_row_kind())
    if info.field_names is not None:
        row.set_field_names(info.field_names)
    return row


def _by_name(mapping: Mapping[str, Any], info: RowTypeInfo) -> list[Any]:
    names = info.get_field_names()
    unknown = [name for name in mapping if name not in names]
    if unknown:
        msg = f"it has no field {unknown[0]!r}"
        raise _Mismatch(msg)
    return [mapping.get(name) for name in names]


def _fields(values: Sequence[Any], info: RowTypeInfo | TupleTypeInfo) -> list[Any]:
    if len(values) != len(info.field_types):
        msg = f"{len(values)} fields where {len(info.field_types)} are declared"
        raise _Mismatch(msg)
    return [conform(value, kind) for value, kind in zip(values, info.field_types, strict=True)]


def _tuple(value: Any, info: TupleTypeInfo) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list | Row):
        raise _wrong(value, info)
    return tuple(_fields(list(cast("Sequence[Any]", value)), info))


def _elements(value: Any, info: Any) -> Any:
    if isinstance(value, bytes | bytearray) and isinstance(info, PrimitiveArrayTypeInfo):
        return value
    if not isinstance(value, list | tuple):
        raise _wrong(value, info)
    inner = info.elem_type if isinstance(info, ListTypeInfo) else info.element_type
    return [conform(element, inner) for element in cast("Sequence[Any]", value)]


def _map(value: Any, info: MapTypeInfo) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(value, info)
    entries = cast("Mapping[Any, Any]", value).items()
    return {conform(k, info.key_type): conform(v, info.value_type) for k, v in entries}


def _dict(value: Any, info: DictTypeInfo) -> dict[str, Any]:
    if not isinstance(value, Mapping) or set(cast("Mapping[str, Any]", value)) != set(info.field_names):
        raise _wrong(value, info)
    mapping = cast("Mapping[str, Any]", value)
    return {n: conform(mapping[n], t) for n, t in zip(info.field_names, info.field_types, strict=True)}


def _dataclass(value: Any, info: DataclassTypeInfo) -> Any:
    return _instance(value, info.cls, info)


def _wrong(value: object, info: TypeInformation) -> _Mismatch:
    return _Mismatch(f"{value!r} is a {type(value).__name__}, not {info}")


_CONVERT: dict[type[TypeInformation], Callable[[Any, Any], Any]] = {
    BasicTypeInfo: _basic,
    SqlTimeTypeInfo: _sql_time,
    RowTypeInfo: _row,
    TupleTypeInfo: _tuple,
    ListTypeInfo: _elements,
    PrimitiveArrayTypeInfo: _elements,
    BasicArrayTypeInfo: _elements,
    ObjectArrayTypeInfo: _elements,
    MapTypeInfo: _map,
    DictTypeInfo: _dict,
    DataclassTypeInfo: _dataclass,
}
