"""Records as Avro: one record's bytes as its schema says, without a container and without a registry's header.

A file of its own because it needs the package fastavro, which few jobs do.

Flink: AvroRowDeserializationSchema and AvroRowSerializationSchema of pyflink.datastream.formats.avro.
Differs from Flink: only by schema text, there are no classes generated in Java.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, cast

from flintstream.connectors.formats import DeserializationSchema, SerializationSchema
from flintstream.errors import (
    InvalidArgumentError,
    SourceError,
    TypeMismatchError,
    UnsupportedError,
    describe,
)
from flintstream.model.extras import extra
from flintstream.model.row import Row


def _library() -> Any:
    return extra("fastavro", "Avro needs the package fastavro", "kafka")


class _AvroSchema:
    """A schema, checked where it is declared and parsed once in each process."""

    def __init__(self, record_class: str | None, avro_schema_string: str | None) -> None:
        if record_class is not None:
            what = f"record_class={record_class!r} names a class of Java, and records are read and written in Python"
            raise UnsupportedError(describe(what, remedy="give avro_schema_string"))
        if avro_schema_string is None:
            raise InvalidArgumentError(describe("no Avro schema is given", remedy="give avro_schema_string"))
        self._text = avro_schema_string
        self._parsed()

    def _parsed(self) -> Any:
        parsed = self.__dict__.get("_schema")
        if parsed is None:
            library = _library()
            try:
                parsed = library.parse_schema(json.loads(self._text))
            except (ValueError, library.schema.SchemaParseException, library.schema.UnknownType) as error:
                what = f"this is no Avro schema: {self._text[:200]!r} ({error})"
                raise InvalidArgumentError(describe(what, remedy="mend it")) from error
            self.__dict__["_schema"] = parsed
        return parsed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_schema"}


class AvroRowDeserializationSchema(_AvroSchema, DeserializationSchema):
    """Reads records of an Avro schema as rows with its fields' names."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        super().__init__(record_class, avro_schema_string)

    def deserialize(self, message: bytes) -> Any:
        schema = self._parsed()
        try:
            read = _library().schemaless_reader(io.BytesIO(message), schema, None)
            return _rows(read, schema, _named(schema)) if isinstance(read, dict | list) else read
        except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, StopIteration) as error:
            what = f"this is no record of the Avro schema: {message[:100]!r} ({type(error).__name__}: {error})"
            remedy = "give the schema that it was written with; bytes with a registry's header are not read"
            raise SourceError(describe(what, remedy=remedy)) from error


class AvroRowSerializationSchema(_AvroSchema, SerializationSchema):
    """Writes rows, tuples, dicts or dataclasses as records of an Avro schema."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        super().__init__(record_class, avro_schema_string)

    def serialize(self, element: Any) -> bytes | None:
        schema = self._parsed()
        out = io.BytesIO()
        try:
            _library().schemaless_writer(out, schema, _fields(element, schema))
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            what = f"{element!r:.100} is no record of the Avro schema ({error})"
            raise TypeMismatchError(describe(what, remedy="map records to its fields before the sink")) from error
        return out.getvalue()


def _rows(value: Any, schema: Any, names: Mapping[str, Any]) -> Any:
    """Return records as rows, however deep they stand; maps stay dicts, so the schema must be asked."""
    if not isinstance(value, dict | list):
        return value
    if isinstance(schema, str):
        schema = names.get(schema, schema)
    if isinstance(schema, list):
        schema = next(branch for branch in cast("list[Any]", schema) if _fits(value, branch, names))
        return _rows(value, schema, names)
    if isinstance(value, list):
        return [_rows(item, schema["items"], names) for item in cast("list[Any]", value)]
    fields = cast("dict[str, Any]", value)
    if schema["type"] == "map":
        return {key: _rows(item, schema["values"], names) for key, item in fields.items()}
    types = {field["name"]: field["type"] for field in schema["fields"]}
    return Row.builder(list(fields))([_rows(item, types[name], names) for name, item in fields.items()])


def _fits(value: Any, branch: Any, names: Mapping[str, Any]) -> bool:
    """Whether a branch of a union is the one of a dict or a list."""
    branch = names.get(branch, branch) if isinstance(branch, str) else branch
    kind = branch.get("type") if isinstance(branch, dict) else branch
    if isinstance(value, list):
        return kind == "array"
    if kind == "record":
        return set(value) == {field["name"] for field in cast("dict[str, Any]", branch)["fields"]}
    return kind == "map"


def _named(schema: Any) -> dict[str, Any]:
    """Return all schemas that have a name, by that name."""
    found: dict[str, Any] = {}
    if isinstance(schema, list):
        for branch in cast("list[Any]", schema):
            found.update(_named(branch))
    elif isinstance(schema, dict):
        document = cast("dict[str, Any]", schema)
        if "name" in document and "type" in document:
            found[document["name"]] = document
        for key in ("type", "items", "values"):
            found.update(_named(document.get(key)))
        for field in document.get("fields", ()):
            found.update(_named(field["type"]))
    return found


def _fields(value: Any, schema: Any) -> Any:
    """Return rows and tuples as dicts, by the names that the schema has for their places."""
    if isinstance(value, Row) and value.get_field_names():
        return {name: _fields(item, None) for name, item in value.as_dict().items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _fields(getattr(value, name), None) for name in value.__dataclass_fields__}
    if isinstance(value, tuple | Row):
        items = list(cast("Any", value))
        declared = schema.get("fields", []) if isinstance(schema, dict) else []
        names = getattr(value, "_fields", None) or [field["name"] for field in cast("Any", declared)]
        if len(names) != len(items):
            msg = f"{len(items)} fields, the schema has {len(names)}"
            raise ValueError(msg)
        return dict(zip(names, items, strict=True))
    if isinstance(value, list):
        return [_fields(item, None) for item in cast("list[Any]", value)]
    return value
