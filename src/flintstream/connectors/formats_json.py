"""Records as JSON objects: rows of a declared type, or, without one, whatever the text holds.

A file of its own because it knows every type, and how lenient Flink is in reading each.

Flink: JsonRowDeserializationSchema and JsonRowSerializationSchema of pyflink.datastream.formats.json. Numbers are read
from numbers and from strings that hold one, strings from any value, booleans from "true" and "false".
Differs from Flink: without a type the records are dicts, lists and scalars as Python's json reads them.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self, cast

from flintstream.connectors.formats import DeserializationSchema, SerializationSchema
from flintstream.errors import SourceError, TypeMismatchError, UnsupportedError, describe
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
from flintstream.model.types import Types, to_type_info

Reader = Callable[[Any], Any]
"""Turns a parsed JSON value into one of a type; raises ValueError or TypeError if it cannot."""


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads JSON objects.

    >>> kind = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.INT()])
    >>> JsonRowDeserializationSchema.builder().type_info(kind).build().deserialize(b'{"n": "7", "id": "a"}')
    Row(id='a', n=7)
    """

    def __init__(
        self, type_info: Any = None, fail_on_missing_field: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        self.type_info = to_type_info(type_info)
        self._strict = fail_on_missing_field
        self._lenient = ignore_parse_errors
        self._read = reader_of(self.type_info, fail_on_missing_field)

    def __reduce__(self) -> tuple[Any, ...]:
        # What reads is made of closures, which cannot be pickled.
        return JsonRowDeserializationSchema, (self.type_info, self._strict, self._lenient)

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._read(json.loads(message))
        except (ValueError, TypeError, ArithmeticError) as error:
            if self._lenient:
                return None
            what = f"this is no JSON of the declared type: {message[:200]!r} ({error})"
            remedy = "mend the producer, declare other types, or leave such records out with ignore_parse_errors()"
            raise SourceError(describe(what, remedy=remedy)) from error

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._type_info: Any = None
            self._strict = False
            self._lenient = False

        def type_info(self, type_info: Any) -> Self:
            """Read rows of this type; fields that the text has besides are left out."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> NoReturn:
            """Refuse: types are declared in Python."""
            raise UnsupportedError(describe("json_schema(...) is not supported", remedy="use type_info(...)"))

        def fail_on_missing_field(self) -> Self:
            """Fail if a declared field is missing, instead of reading it as None."""
            self._strict = True
            return self

        def ignore_parse_errors(self) -> Self:
            """Leave out what cannot be read, instead of failing."""
            self._lenient = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema."""
            return JsonRowDeserializationSchema(self._type_info, self._strict, self._lenient)


class JsonRowSerializationSchema(SerializationSchema):
    """Writes records as JSON objects; a tuple's fields have the names of the declared type, else f0, f1, ...

    >>> JsonRowSerializationSchema.builder().build().serialize(("a", 1.5))
    b'{"f0":"a","f1":1.5}'
    """

    def __init__(self, type_info: Any = None) -> None:
        info = to_type_info(type_info)
        self.type_info = info
        self._names = info.get_field_names() if isinstance(info, RowTypeInfo) else None

    def serialize(self, element: Any) -> bytes | None:
        names = self._names
        if names is not None:
            fields = list(cast("Any", element)) if isinstance(element, tuple | list | Row) else None
            if fields is not None and len(fields) != len(names):
                what = f"a record has {len(fields)} fields, its declared type {len(names)}: {element!r:.100}"
                raise TypeMismatchError(describe(what, remedy="map it to the declared fields before the sink"))
            if fields is not None:
                element = dict(zip(names, fields, strict=True))
        return json.dumps(plain(element), ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._type_info: Any = None

        def with_type_info(self, type_info: Any) -> Self:
            """Give the type whose names the fields have."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema."""
            return JsonRowSerializationSchema(self._type_info)


def plain(value: Any) -> Any:
    """Return a value as what JSON can hold: times as ISO text, bytes as base64, decimals as numbers in text."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Row):
        return plain(value.as_dict() if value.get_field_names() else tuple(value))
    if isinstance(value, Instant):
        moment = dt.datetime.fromtimestamp(value.seconds, dt.UTC).replace(microsecond=value.nanos // 1000)
        return moment.isoformat().replace("+00:00", "Z")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        names = getattr(items, "_fields", None) or [f"f{index}" for index in range(len(items))]
        return {name: plain(item) for name, item in zip(names, items, strict=True)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | set | frozenset):
        return [plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    what = f"{value!r:.80} cannot be written as JSON"
    raise TypeMismatchError(describe(what, remedy="map records to fields of plain types before the sink"))


def reader_of(info: TypeInformation | None, strict: bool) -> Reader:
    """Return what reads values of a type; None passes everywhere."""
    read = _present(info, strict)
    return lambda value: None if value is None else read(value)


def _present(info: TypeInformation | None, strict: bool) -> Reader:
    if info is None:
        return lambda value: value
    if isinstance(info, RowTypeInfo):
        return _fields_reader(info, strict, Row.builder(info.get_field_names()))
    if isinstance(info, DictTypeInfo):
        names = info.get_field_names()
        return _fields_reader(info, strict, lambda values: dict(zip(names, values, strict=True)))
    if isinstance(info, DataclassTypeInfo):
        return _fields_reader(info, strict, lambda values: info.cls(*values))
    if isinstance(info, TupleTypeInfo):
        readers = [reader_of(each, strict) for each in info.get_field_types()]
        return lambda value: tuple(read(item) for read, item in zip(readers, value, strict=True))
    if isinstance(info, PrimitiveArrayTypeInfo) and info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return lambda value: base64.b64decode(value, validate=True)
    if isinstance(info, BasicArrayTypeInfo | PrimitiveArrayTypeInfo | ObjectArrayTypeInfo | ListTypeInfo):
        item = reader_of(info.elem_type if isinstance(info, ListTypeInfo) else info.element_type, strict)
        return lambda value: [item(each) for each in _expect(value, list)]
    if isinstance(info, MapTypeInfo):
        inner = reader_of(info.value_type, strict)
        return lambda value: {key: inner(each) for key, each in _expect(value, dict).items()}
    scalar = _SCALARS.get(info.basic_type if isinstance(info, BasicTypeInfo) else _time_of(info))
    if scalar is None:
        raise UnsupportedError(describe(f"JSON cannot be read as {info}", remedy="declare a row of plain types"))
    return scalar


def _time_of(info: TypeInformation) -> Any:
    return info.time_type if isinstance(info, SqlTimeTypeInfo) else None


def _fields_reader(
    info: RowTypeInfo | DictTypeInfo | DataclassTypeInfo, strict: bool, build: Callable[[Sequence[Any]], Any]
) -> Reader:
    names = info.get_field_names()
    readers = [reader_of(each, strict) for each in info.get_field_types()]

    def read(value: Any) -> Any:
        found = _expect(value, dict)
        if strict and (missing := [name for name in names if name not in found]):
            msg = f"field {missing[0]!r} is missing"
            raise ValueError(msg)
        return build([one(found.get(name)) for name, one in zip(names, readers, strict=True)])

    return read


def _expect(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        msg = f"{value!r:.80} is no {'object' if kind is dict else 'array'}"
        raise TypeError(msg)
    return value


def _whole(bits: int) -> Reader:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(value: Any) -> int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            msg = f"{value!r} is no whole number"
            raise ValueError(msg)
        number = int(value)
        if not low <= number <= high:
            msg = f"{number} does not fit into {bits} bits"
            raise ValueError(msg)
        return number

    return read


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        msg = f"{value!r:.80} is neither true nor false"
        raise TypeError(msg)
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _moment(value: Any) -> dt.datetime:
    moment = dt.datetime.fromisoformat(value)
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def _instant(value: Any) -> Instant:
    moment = _moment(value).replace(tzinfo=dt.UTC)
    return Instant(int(moment.timestamp()), moment.microsecond * 1000)


_SCALARS: dict[Any, Reader] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.BOOLEAN: _boolean,
    BasicType.BYTE: _whole(8),
    BasicType.SHORT: _whole(16),
    BasicType.INT: _whole(32),
    BasicType.LONG: _whole(64),
    BasicType.BIG_INT: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: lambda value: decimal.Decimal(str(value)),
    BasicType.INSTANT: _instant,
    SqlTimeType.DATE: lambda value: dt.date.fromisoformat(value),
    SqlTimeType.TIME: lambda value: dt.time.fromisoformat(value).replace(tzinfo=None),
    SqlTimeType.TIMESTAMP: _moment,
}
