from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

import pytest

from flintstream.connectors.text import as_text, java_text
from flintstream.model.row import Row, RowKind
from flintstream.model.time import Instant
from flintstream.model.types import Types


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (1, "1"),
        (1.0, "1.0"),
        (True, "True"),
        (None, "None"),
        (("a", 1), "('a', 1)"),
        ({"a": 1}, "{'a': 1}"),
        (Row("a", 1, None), "+I[a,1,None]"),
        (Row(id="a", n=1), "+I[a,1]"),
        (Row.of_kind(RowKind.UPDATE_AFTER, ("x", 1)), "+U[('x', 1)]"),
    ],
)
def test_records_without_a_declared_type_look_as_in_python_but_for_rows(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (("a", 1), Types.TUPLE([Types.STRING(), Types.INT()]), "(a,1)"),
        (True, Types.BOOLEAN(), "true"),
        (None, Types.STRING(), "null"),
        (1e7, Types.DOUBLE(), "1.0E7"),
        ([1, 2], Types.LIST(Types.INT()), "[1, 2]"),
        (Row("a", True), Types.ROW([Types.STRING(), Types.BOOLEAN()]), "+I[a,True]"),
        ((1, True), Types.PICKLED_BYTE_ARRAY(), "(1, True)"),
        (Point(1), Types.DATACLASS(Point), repr(Point(1))),
        ({"a": True}, Types.DICT({"a": Types.BOOLEAN()}), "{'a': True}"),
    ],
)
def test_records_of_a_declared_type_look_as_in_java(value, kind, text):
    assert as_text(value, kind) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (12345678.0, "1.2345678E7"),
        (-1.5e300, "-1.5E300"),
        (1e-5, "1.0E-5"),
        (123.456, "123.456"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (b"\x01\xff", "[1, -1]"),
        ({"a": None, "b": 1.0}, "{a=null, b=1.0}"),
        (("a", Row("b", 2)), "(a,+I[b, 2])"),
        (dt.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05.0"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 120000), "2026-01-02 03:04:05.12"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.time(3, 4, 5), "03:04:05"),
        (Instant(0, 5_000_000), "1970-01-01T00:00:00.005Z"),
        (Instant(61, 0), "1970-01-01T00:01:01Z"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_java_text_is_what_java_prints(value, text):
    assert java_text(value) == text
