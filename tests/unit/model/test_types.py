"""Types as comparable, printable values."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.typeinfo import DataclassTypeInfo, TypeInformation
from flintstream.model.types import Types, to_type_info


@dataclass
class Reading:
    sensor: str
    value: float | None
    extra: object


ALL = [
    (Types.STRING(), "STRING"),
    (Types.BYTE(), "BYTE"),
    (Types.BOOLEAN(), "BOOLEAN"),
    (Types.SHORT(), "SHORT"),
    (Types.INT(), "INT"),
    (Types.LONG(), "LONG"),
    (Types.FLOAT(), "FLOAT"),
    (Types.DOUBLE(), "DOUBLE"),
    (Types.CHAR(), "CHAR"),
    (Types.BIG_INT(), "BIG_INT"),
    (Types.BIG_DEC(), "BIG_DEC"),
    (Types.INSTANT(), "INSTANT"),
    (Types.SQL_DATE(), "SQL_DATE"),
    (Types.SQL_TIME(), "SQL_TIME"),
    (Types.SQL_TIMESTAMP(), "SQL_TIMESTAMP"),
    (Types.PICKLED_BYTE_ARRAY(), "PICKLED"),
    (Types.ROW([Types.INT(), Types.STRING()]), "ROW<INT, STRING>"),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), "ROW<a: INT, b: STRING>"),
    (Types.TUPLE([Types.INT(), Types.STRING()]), "TUPLE<INT, STRING>"),
    (Types.TUPLE([]), "TUPLE<>"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PRIMITIVE_ARRAY<BYTE>"),
    (Types.BASIC_ARRAY(Types.STRING()), "BASIC_ARRAY<STRING>"),
    (Types.OBJECT_ARRAY(Types.SQL_DATE()), "OBJECT_ARRAY<SQL_DATE>"),
    (Types.MAP(Types.STRING(), Types.LONG()), "MAP<STRING, LONG>"),
    (Types.LIST(Types.LIST(Types.INT())), "LIST<LIST<INT>>"),
    (Types.DICT({"a": Types.INT(), "b": Types.STRING()}), "DICT<a: INT, b: STRING>"),
    (Types.DATACLASS(Reading), "Reading<sensor: STRING, value: DOUBLE?, extra: PICKLED>"),
]


@pytest.mark.parametrize(("type_info", "text"), ALL, ids=[text for _, text in ALL])
def test_every_type_prints_itself_and_survives_a_pickle(type_info: TypeInformation, text: str) -> None:
    assert repr(type_info) == text
    restored = pickle.loads(pickle.dumps(type_info))
    assert restored == type_info
    assert hash(restored) == hash(type_info)


def test_no_two_types_are_equal() -> None:
    assert len({type_info for type_info, _ in ALL}) == len(ALL)


def test_lists_given_to_a_type_are_copied() -> None:
    fields = [Types.INT()]
    row = Types.ROW(fields)
    fields.append(Types.STRING())
    assert row.get_field_types() == [Types.INT()]


def test_rows_and_tuples_name_their_fields() -> None:
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    assert named.get_field_names() == ["a", "b"]
    assert (named.get_field_index("b"), named.get_field_index("c")) == (1, -1)
    assert Types.ROW([Types.INT(), Types.INT()]).get_field_names() == ["f0", "f1"]
    assert Types.TUPLE([Types.INT()]).get_field_names() == ["f0"]
    assert Types.DATACLASS(Reading).get_field_names() == ["sensor", "value", "extra"]


def test_names_and_types_must_pair_up() -> None:
    with pytest.raises(InvalidArgumentError, match="1 names for 2 types"):
        Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()])
    with pytest.raises(InvalidArgumentError, match="twice"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])


@pytest.mark.parametrize(
    "build",
    [
        lambda: Types.ROW([Types.INT]),  # type: ignore[list-item]
        lambda: Types.TUPLE([int]),  # type: ignore[list-item]
        lambda: Types.LIST("INT"),  # type: ignore[arg-type]
        lambda: Types.MAP(Types.INT(), None),  # type: ignore[arg-type]
        lambda: Types.DICT({"a": int}),  # type: ignore[dict-item]
        lambda: Types.OBJECT_ARRAY(int),  # type: ignore[arg-type]
        lambda: Types.PRIMITIVE_ARRAY(Types.STRING()),
        lambda: Types.BASIC_ARRAY(Types.BIG_DEC()),
        lambda: Types.DATACLASS(int),
        lambda: Types.DATACLASS(Reading("a", None, None)),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_type_is_refused(build: Any) -> None:
    with pytest.raises(TypeMismatchError):
        build()


def test_nullable_is_part_of_a_type() -> None:
    assert Types.LONG().as_nullable() != Types.LONG()
    assert repr(Types.TUPLE([Types.INT().as_nullable()]).as_nullable()) == "TUPLE<INT?>?"


def test_to_type_info_reads_every_way_to_write_a_type() -> None:
    assert to_type_info(None) is None
    assert to_type_info(Types.INT()) == Types.INT()
    assert to_type_info([Types.INT()]) == Types.ROW([Types.INT()])
    assert to_type_info(int) == Types.LONG()
    assert to_type_info(tuple[str, int]) == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert isinstance(to_type_info(Reading), DataclassTypeInfo)
    for nothing in (object, "INT", 3, Types.INT):
        with pytest.raises(TypeMismatchError, match="names no type"):
            to_type_info(nothing)
