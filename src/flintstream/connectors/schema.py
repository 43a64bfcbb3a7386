"""A schema however the user wrote it: as an Arrow schema, as a dict, as Flintstream's row type, or in SQL's words.

One reading for sources and sinks, so that a file written with a schema is read with the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pyarrow as pa

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe
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
from flintstream.model.types import to_type_info

_SQL: dict[str, pa.DataType] = {
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    **dict.fromkeys(("string", "varchar", "char", "text"), pa.string()),
    **dict.fromkeys(("boolean", "bool"), pa.bool_()),
    **dict.fromkeys(("binary", "bytes"), pa.binary()),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
}
_BASIC: dict[BasicType | SqlTimeType, pa.DataType] = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BYTE: pa.int8(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
    BasicType.INSTANT: pa.timestamp("us", "UTC"),
    SqlTimeType.DATE: pa.date32(),
    SqlTimeType.TIME: pa.time64("us"),
    SqlTimeType.TIMESTAMP: pa.timestamp("us"),
}
_TOKEN = re.compile(r"\s*(`[^`]+`|[A-Za-z_][A-Za-z0-9_]*|\d+|[<>(),:])")
_HOW = 'write "id BIGINT, name STRING", a dict of types, a pyarrow schema, or Types.ROW_NAMED(...)'


def to_arrow_schema(schema: Any) -> pa.Schema | None:
    """Return an Arrow schema, or None for None.

    Example:
        >>> to_arrow_schema("id BIGINT, tags ARRAY<STRING>").names
        ['id', 'tags']
        >>> to_arrow_schema({"id": int, "at": "timestamp"}).field("at").type
        TimestampType(timestamp[us, tz=UTC])

    Raises:
        InvalidArgumentError: it cannot be read as a schema.
    """
    if schema is None or isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, str):
        return _Ddl(schema).schema()
    if isinstance(schema, Mapping):
        fields = cast("Mapping[str, Any]", schema)
        return pa.schema([pa.field(name, _to_type(name, kind)) for name, kind in fields.items()])
    if isinstance(schema, RowTypeInfo | DictTypeInfo | DataclassTypeInfo | TupleTypeInfo):
        return pa.schema(list(_arrow_of(schema)))
    raise InvalidArgumentError(describe(f"{schema!r} is no schema", remedy=_HOW))


def _to_type(name: str, kind: Any) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        return _Ddl(f"`{name}` {kind}").schema().field(0).type
    try:
        info = to_type_info(kind)
    except TypeMismatchError:
        info = None
    if info is None:
        raise InvalidArgumentError(describe(f"field {name!r} has no readable type {kind!r}", remedy=_HOW))
    return _arrow_of(info)


def _arrow_of(info: TypeInformation) -> pa.DataType:
    if isinstance(info, BasicTypeInfo):
        return _BASIC[info.basic_type]
    if isinstance(info, SqlTimeTypeInfo):
        return _BASIC[info.time_type]
    if isinstance(info, RowTypeInfo | DictTypeInfo | DataclassTypeInfo | TupleTypeInfo):
        types = map(_arrow_of, info.get_field_types())
        return pa.struct([pa.field(name, kind) for name, kind in zip(info.get_field_names(), types, strict=True)])
    if isinstance(info, MapTypeInfo):
        return pa.map_(_arrow_of(info.key_type), _arrow_of(info.value_type))
    if isinstance(info, PrimitiveArrayTypeInfo) and info.element_type == BasicTypeInfo(BasicType.BYTE):
        return pa.binary()
    if isinstance(info, PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo):
        return pa.list_(_arrow_of(info.element_type))
    if isinstance(info, ListTypeInfo):
        return pa.list_(_arrow_of(info.elem_type))
    raise InvalidArgumentError(describe(f"{info} has no column form", remedy=_HOW))


class FieldConflict(Exception):
    """A field has types that no one type holds; whoever reads or writes the records says what to do about it."""


def unify(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the narrowest schema that holds the records of all.

    Raises:
        FieldConflict: names the field that has types without a common one.
    """
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            known = types.setdefault(field.name, field.type)
            if known != field.type:
                types[field.name] = _common(field.name, known, field.type)
    return pa.schema(list(types.items()))


def _common(name: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    schemas = [pa.schema([("", one)]), pa.schema([("", other)])]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        msg = f"field {name!r} is {one} in some records and {other} in others"
        raise FieldConflict(msg) from error


class _Ddl:
    """Reads `name TYPE, ...` with ARRAY<...>, MAP<..., ...>, STRUCT<name: TYPE, ...> and DECIMAL(p, s)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        if "".join(self._tokens) != re.sub(r"\s+", "", text) and "`" not in text:
            raise self._error()
        self._at = 0

    def schema(self) -> pa.Schema:
        fields = self._fields("")
        if not fields:
            raise self._error()
        return pa.schema(fields)

    def _error(self) -> InvalidArgumentError:
        return InvalidArgumentError(describe(f"the schema {self._text!r} cannot be read", remedy=_HOW))

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise self._error()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise self._error()

    def _fields(self, end: str) -> list[pa.Field]:
        fields: list[pa.Field] = []
        while self._peek() != end:
            if fields:
                self._expect(",")
            name = self._next()
            if not (name[0] == "`" or name[0].isalpha() or name[0] == "_"):
                raise self._error()
            if self._peek() == ":":
                self._next()
            fields.append(pa.field(name.strip("`"), self._type()))
        return fields

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name == "array":
            return pa.list_(self._bracketed(self._type))
        if name == "map":
            return pa.map_(*self._bracketed(self._pair))
        if name == "struct":
            return pa.struct(self._bracketed(lambda: self._fields(">")))
        if name not in _SQL:
            raise self._error()
        if self._peek() == "(":
            return self._sized(name)
        return _SQL[name]

    def _bracketed(self, read: Any) -> Any:
        self._expect("<")
        inner = read()
        self._expect(">")
        return inner

    def _pair(self) -> tuple[pa.DataType, pa.DataType]:
        key = self._type()
        self._expect(",")
        return key, self._type()

    def _sized(self, name: str) -> pa.DataType:
        self._expect("(")
        sizes = [self._next()]
        while self._peek() == ",":
            self._next()
            sizes.append(self._next())
        self._expect(")")
        if not all(size.isdigit() for size in sizes):
            raise self._error()
        return pa.decimal128(*map(int, sizes)) if name == "decimal" else _SQL[name]
