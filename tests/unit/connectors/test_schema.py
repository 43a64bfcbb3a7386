from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from flintstream.connectors.schema import FieldConflict, to_arrow_schema, unify
from flintstream.errors import InvalidArgumentError
from flintstream.model.types import Types


@dataclass
class Reading:
    id: str
    n: int


EXPECTED = pa.schema([("id", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize(
    "schema",
    [
        EXPECTED,
        "id STRING, n BIGINT",
        "id: string, `n`: long",
        {"id": str, "n": int},
        {"id": "string", "n": pa.int64()},
        {"id": Types.STRING(), "n": Types.LONG()},
        Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()]),
        Types.DATACLASS(Reading),
        Types.DICT({"id": Types.STRING(), "n": Types.LONG()}),
    ],
)
def test_a_schema_may_be_written_in_many_ways(schema):
    assert to_arrow_schema(schema) == EXPECTED


def test_none_is_no_schema():
    assert to_arrow_schema(None) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", pa.int32()),
        ("TINYINT", pa.int8()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(12, 3)", pa.decimal128(12, 3)),
        ("varchar(20)", pa.string()),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string, double>", pa.map_(pa.string(), pa.float64())),
        ("struct<x: int, y: array<string>>", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    ],
)
def test_types_in_the_words_of_sql(text, kind):
    assert to_arrow_schema(f"a STRING, b {text}, c INT").field("b").type == kind
    assert to_arrow_schema({"b": text}).field("b").type == kind


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "id",
        "id STRIN",
        "id STRING n INT",
        "id STRING,",
        "a array<int",
        "1 INT",
        "a INT;",
        "a decimal(x)",
        7,
        ["a"],
        {"a": 7},
        {"a": "nothing"},
        {"a": set},
        Types.STRING(),
        Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]),
    ],
)
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(InvalidArgumentError):
        to_arrow_schema(schema)


def test_unify_finds_the_narrowest_schema_that_holds_all():
    schemas = [
        pa.schema([("a", pa.null()), ("b", pa.int64()), ("s", pa.struct([("x", pa.null())]))]),
        pa.schema([("b", pa.float64()), ("a", pa.string()), ("s", pa.struct([("x", pa.int64())]))]),
        pa.schema([("c", pa.bool_())]),
    ]
    expected = [("a", pa.string()), ("b", pa.float64()), ("s", pa.struct([("x", pa.int64())])), ("c", pa.bool_())]
    assert unify(schemas) == pa.schema(expected)


def test_unify_names_the_field_it_cannot_unify():
    with pytest.raises(FieldConflict, match="field 'b' is int64 in some records and string in others"):
        unify([pa.schema([("a", pa.int64()), ("b", pa.int64())]), pa.schema([("b", pa.string())])])
