from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

import pytest

from flintstream.connectors.collection import CollectionSource
from flintstream.errors import TypeMismatchError
from flintstream.model.row import Row, RowKind
from flintstream.model.time import Instant
from flintstream.model.types import Types


@dataclass
class Reading:
    id: str
    n: int


PAIR = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()])


def conformed(value, type_info):
    return CollectionSource([value], type_info).read(0, 0, 1)[0]


def test_a_collection_is_one_split_whatever_the_parallelism():
    source = CollectionSource(["a", "b", "c"])
    assert source.is_bounded
    assert [(s.number, s.start, s.end) for s in source.splits(4)] == [(0, 0, 3)]
    assert source.read(0, 0, 2) + source.read(0, 2, 3) == ["a", "b", "c"]


def test_records_without_a_type_are_taken_as_they_are_from_a_copy_of_the_collection():
    records = [1, 1.5, ("a",), None]
    source = CollectionSource(records)
    records.clear()
    assert source.read(0, 0, 9) == [1, 1.5, ("a",), None]


def test_an_empty_collection_has_an_empty_split():
    assert [(s.start, s.end) for s in CollectionSource([]).splits(1)] == [(0, 0)]


@pytest.mark.parametrize(
    "value",
    [("a", 1), ["a", 1], {"n": 1, "id": "a"}, Row(n=1, id="a"), Row("a", 1), Reading("a", 1)],
)
def test_whatever_has_the_fields_becomes_a_row_where_a_row_is_declared(value):
    assert conformed(value, PAIR) == Row(id="a", n=1)


def test_a_row_type_without_names_gives_rows_without_names():
    assert conformed(("a", 1), Types.ROW([Types.STRING(), Types.INT()])) == Row("a", 1)


def test_a_missing_key_is_none_and_the_kind_of_a_row_is_kept():
    assert conformed({"id": "a"}, PAIR) == Row(id="a", n=None)
    assert conformed(Row.of_kind(RowKind.DELETE, "a", 1), PAIR).get_row_kind() is RowKind.DELETE


def test_rows_become_tuples_where_tuples_are_declared():
    value = conformed(["a", [1, 2]], Types.TUPLE([Types.STRING(), Types.TUPLE([Types.INT(), Types.DOUBLE()])]))
    assert value == ("a", (1, 2.0))
    assert type(value[1][1]) is float


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", Types.STRING()),
        (True, Types.BOOLEAN()),
        (2**63 - 1, Types.LONG()),
        (2**80, Types.BIG_INT()),
        (Decimal("1.5"), Types.BIG_DEC()),
        (Instant(1, 2), Types.INSTANT()),
        (dt.date(2026, 1, 1), Types.SQL_DATE()),
        (dt.time(1, 2), Types.SQL_TIME()),
        (dt.datetime(2026, 1, 1), Types.SQL_TIMESTAMP()),
        (b"ab", Types.PRIMITIVE_ARRAY(Types.BYTE())),
        ([1, None], Types.BASIC_ARRAY(Types.INT())),
        (["a"], Types.LIST(Types.STRING())),
        ({"a": 1}, Types.MAP(Types.STRING(), Types.INT())),
        ({"a": 1, "b": "x"}, Types.DICT({"a": Types.INT(), "b": Types.STRING()})),
        (Reading("a", 1), Types.DATACLASS(Reading)),
        ({1, 2}, Types.PICKLED_BYTE_ARRAY()),
        (None, Types.INT()),
    ],
)
def test_values_of_the_declared_type_stay_what_they_are(value, kind):
    assert conformed(value, kind) == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1", Types.INT()),
        (True, Types.INT()),
        (2**31, Types.INT()),
        (-129, Types.BYTE()),
        (1, Types.STRING()),
        (1, Types.BOOLEAN()),
        ("1", Types.DOUBLE()),
        (True, Types.DOUBLE()),
        (dt.datetime(2026, 1, 1), Types.SQL_DATE()),
        (dt.date(2026, 1, 1), Types.SQL_TIMESTAMP()),
        (("a",), PAIR),
        (("a", "1"), PAIR),
        ({"id": "a", "m": 1}, PAIR),
        (7, PAIR),
        ("ab", Types.TUPLE([Types.STRING(), Types.STRING()])),
        ("ab", Types.LIST(Types.STRING())),
        ({"a"}, Types.MAP(Types.STRING(), Types.INT())),
        ({"a": 1}, Types.DICT({"b": Types.INT()})),
        (("a", 1), Types.DATACLASS(Reading)),
    ],
)
def test_a_record_of_another_type_is_named_in_one_error(value, kind):
    with pytest.raises(TypeMismatchError) as caught:
        CollectionSource([None, value], kind)
    assert f"record 1 {value!r} is not of type {kind}" in str(caught.value)


def test_types_may_be_written_as_python_types():
    assert CollectionSource([[1, 2]], tuple[int, float]).read(0, 0, 1) == [(1, 2.0)]


def test_a_float_of_32_bits_is_rounded_as_pyflink_rounds_it():
    assert conformed(("a", 110.1), Types.TUPLE([Types.STRING(), Types.FLOAT()])) == ("a", 110.0999984741211)
    assert conformed(110.1, Types.DOUBLE()) == 110.1
    assert conformed(float("inf"), Types.FLOAT()) == float("inf")
    with pytest.raises(TypeMismatchError, match=r"1e\+39 needs more than 32 bits"):
        conformed(1e39, Types.FLOAT())
