"""Formats: how lenient JSON is by type, what Avro keeps, and what is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from flintstream import Instant, Row, Types
from flintstream.common.serialization import (
    ByteArraySchema,
    RowFieldExtractorSchema,
    SimpleStringSchema,
)
from flintstream.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flintstream.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flintstream.errors import InvalidArgumentError, SourceError, TypeMismatchError, UnsupportedError


@dataclass
class Point:
    x: int
    y: float


def read(kind: Any, text: str) -> Any:
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["v"], [kind])).build()
    return pickle.loads(pickle.dumps(schema)).deserialize(f'{{"v": {text}}}'.encode()).v


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Types.STRING(), '"a"', "a"),
        (Types.STRING(), "1.5", "1.5"),
        (Types.STRING(), "null", None),
        (Types.INT(), "7", 7),
        (Types.INT(), '" 7 "', 7),
        (Types.INT(), "7.0", 7),
        (Types.LONG(), str(2**62), 2**62),
        (Types.BIG_INT(), str(2**80), 2**80),
        (Types.DOUBLE(), "7", 7.0),
        (Types.DOUBLE(), '"7.5"', 7.5),
        (Types.BIG_DEC(), "1.25", decimal.Decimal("1.25")),
        (Types.BOOLEAN(), "true", True),
        (Types.BOOLEAN(), '"FALSE"', False),
        (Types.SQL_DATE(), '"2024-02-29"', dt.date(2024, 2, 29)),
        (Types.SQL_TIME(), '"12:30:01Z"', dt.time(12, 30, 1)),
        (Types.SQL_TIMESTAMP(), '"2024-02-29T12:00:00+01:00"', dt.datetime(2024, 2, 29, 11)),
        (Types.INSTANT(), '"1970-01-01T00:00:01.5Z"', Instant(1, 500_000_000)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"AP8="', b"\x00\xff"),
        (Types.BASIC_ARRAY(Types.INT()), "[1, null]", [1, None]),
        (Types.LIST(Types.STRING()), '["a"]', ["a"]),
        (Types.MAP(Types.STRING(), Types.INT()), '{"a": 1}', {"a": 1}),
        (Types.TUPLE([Types.INT(), Types.STRING()]), '[1, "a"]', (1, "a")),
        (Types.ROW_NAMED(["a"], [Types.INT()]), '{"a": 1}', Row(a=1)),
    ],
)
def test_json_is_read_by_type(kind: Any, text: str, value: Any) -> None:
    found = read(kind, text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Types.INT(), "7.5"),
        (Types.INT(), "true"),
        (Types.INT(), str(2**31)),
        (Types.BYTE(), "128"),
        (Types.DOUBLE(), '"x"'),
        (Types.BOOLEAN(), "1"),
        (Types.SQL_DATE(), '"yesterday"'),
        (Types.LIST(Types.INT()), "1"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "[1]"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"?"'),
        (Types.BIG_DEC(), '"x"'),
    ],
)
def test_json_of_another_type_is_refused(kind: Any, text: str) -> None:
    with pytest.raises(SourceError, match="no JSON of the declared type"):
        read(kind, text)


def test_a_missing_field_is_none_or_a_failure() -> None:
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    builder = JsonRowDeserializationSchema.builder().type_info(kind)
    assert builder.build().deserialize(b'{"a": 1}') == Row(a=1, b=None)
    strict = builder.fail_on_missing_field().build()
    with pytest.raises(SourceError, match="field 'b' is missing"):
        strict.deserialize(b'{"a": 1}')
    assert builder.ignore_parse_errors().build().deserialize(b'{"a": 1}') is None


def test_json_into_dataclasses_and_dicts() -> None:
    found = JsonRowDeserializationSchema(Point).deserialize(b'{"y": 2, "x": "1"}')
    assert found == Point(1, 2.0)
    with pytest.raises(UnsupportedError, match=r"type_info\(\.\.\.\)"):
        JsonRowDeserializationSchema.builder().json_schema("{}")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (Row(a=1, b="x"), '{"a":1,"b":"x"}'),
        (("x", None), '{"f0":"x","f1":null}'),
        (Point(1, 0.5), '{"x":1,"y":0.5}'),
        ({"grün": [1, True]}, '{"grün":[1,true]}'),
        ({"t": dt.datetime(2024, 1, 2), "b": b"\x00", "d": decimal.Decimal("1.20")}, None),
        ({"i": Instant(1, 500_000_000)}, '{"i":"1970-01-01T00:00:01.500000Z"}'),
        ("text", '"text"'),
    ],
)
def test_json_is_written_with_names(record: Any, text: str | None) -> None:
    text = text or '{"t":"2024-01-02T00:00:00","b":"AA==","d":"1.20"}'
    assert JsonRowSerializationSchema.builder().build().serialize(record) == text.encode()


def test_json_takes_the_names_of_the_declared_type() -> None:
    kind = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.INT()])
    schema = JsonRowSerializationSchema.builder().with_type_info(kind).build()
    assert schema.serialize(("a", 1)) == schema.serialize(Row("a", 1)) == b'{"id":"a","n":1}'
    with pytest.raises(TypeMismatchError, match="has 1 fields, its declared type 2"):
        schema.serialize(("a",))
    with pytest.raises(TypeMismatchError, match="cannot be written as JSON"):
        schema.serialize(("a", object()))


AVRO = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "string"},
  {"name": "total", "type": ["null", "double"], "default": null},
  {"name": "tags", "type": {"type": "map", "values": "int"}},
  {"name": "lines", "type": {"type": "array", "items": {
    "type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}}},
  {"name": "first", "type": ["null", "Line"]}]}"""


def test_avro_keeps_records_maps_arrays_and_nulls() -> None:
    written = AvroRowSerializationSchema(avro_schema_string=AVRO)
    reader = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=AVRO)))
    order = Row(id="a", total=None, tags={"x": 1}, lines=[Row(n=1), Row(n=2)], first=Row(n=1))
    data = written.serialize(order)
    assert reader.deserialize(data) == order
    as_tuple = ("a", None, {"x": 1}, [{"n": 1}, {"n": 2}], {"n": 1})
    assert written.serialize(as_tuple) == data
    assert reader.deserialize(data).tags == {"x": 1}


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: AvroRowDeserializationSchema("com.Order"), UnsupportedError, "avro_schema_string"),
        (AvroRowSerializationSchema, InvalidArgumentError, "no Avro schema is given"),
        (lambda: AvroRowSerializationSchema(avro_schema_string="{"), InvalidArgumentError, "no Avro schema"),
        (lambda: AvroRowSerializationSchema(avro_schema_string='"nope"'), InvalidArgumentError, "no Avro schema"),
        (lambda: SimpleStringSchema("klingon"), InvalidArgumentError, "no charset"),
        (lambda: RowFieldExtractorSchema(-1), InvalidArgumentError, "field_index is -1"),
        (lambda: SimpleStringSchema().serialize(1), TypeMismatchError, "no string"),
        (lambda: ByteArraySchema().serialize("a"), TypeMismatchError, "not bytes"),
        (lambda: RowFieldExtractorSchema(0).serialize((1,)), TypeMismatchError, "not bytes"),
        (
            lambda: AvroRowDeserializationSchema(avro_schema_string=AVRO).deserialize(b"\x02"),
            SourceError,
            "no record of the Avro schema",
        ),
        (
            lambda: AvroRowSerializationSchema(avro_schema_string=AVRO).serialize(("a",)),
            TypeMismatchError,
            "no record of the Avro schema",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
