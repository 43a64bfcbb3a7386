"""Rows by position and by name."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.row import Row, RowKind, get_field


def test_positional_row_is_read_by_position_only() -> None:
    row = Row(1, "b", None)
    assert (row[0], row[-1], row[:2], len(row), list(row)) == (1, None, [1, "b"], 3, [1, "b", None])
    assert "b" in row and "c" not in row
    assert row.get_field_names() is None
    assert repr(row) == "<Row(1, 'b', None)>"
    assert not hasattr(row, "f0")


def test_named_row_is_read_by_name_attribute_and_position() -> None:
    row = Row(name="a", count=1)
    assert (row.name, row["count"], row[0]) == ("a", 1, "a")
    assert "name" in row and "a" not in row
    assert repr(row) == "Row(name='a', count=1)"
    assert row.get_fields_by_names(["count", "name"]) == [1, "a"]


def test_row_refuses_positions_and_names_at_once() -> None:
    with pytest.raises(ValueError, match="at once"):
        Row(1, b=2)


def test_fields_are_set_by_item_never_by_attribute() -> None:
    row = Row(a=1, b=2)
    row["a"] = 10
    row[1] = 20
    assert list(row) == [10, 20]
    with pytest.raises(AttributeError):
        row.a = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        row.c = 3  # type: ignore[attr-defined]


def test_unknown_fields_are_named_in_the_error() -> None:
    row = Row(a=1)
    with pytest.raises(AttributeError, match="missing"):
        _ = row.missing
    for read in (lambda: row["missing"], lambda: Row(1)["missing"], lambda: row.get_fields_by_names(["missing"])):
        with pytest.raises(ValueError, match="'missing'"):
            read()
    with pytest.raises(ValueError, match="'missing'"):
        row["missing"] = 1


def test_as_dict_converts_nested_rows_only_if_asked() -> None:
    inner = Row(x=1)
    row = Row(one=inner, many=[inner], by_name={"k": inner})
    assert row.as_dict()["one"] is inner
    assert row.as_dict(recursive=True) == {"one": {"x": 1}, "many": [{"x": 1}], "by_name": {"k": {"x": 1}}}
    with pytest.raises(TypeError, match="no field names"):
        Row(1).as_dict()


def test_a_row_of_names_makes_named_rows() -> None:
    point = Row("x", "y")
    assert point(1, 2) == Row(x=1, y=2)
    assert repr(point(1)) == "Row(x=1)"
    assert not hasattr(point(1), "y")
    with pytest.raises(InvalidArgumentError, match="3 values for a row with 2 fields"):
        point(1, 2, 3)


def test_set_field_names_wants_one_name_a_value() -> None:
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row == Row(a=1, b=2)
    with pytest.raises(InvalidArgumentError, match="1 names for 2 values"):
        row.set_field_names(["a"])


def test_equal_rows_have_equal_fields_in_any_order_and_the_same_kind() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))
    assert Row(1, 2) == Row(1, 2) and hash(Row(1, 2)) == hash(Row(1, 2))
    assert Row(1, 2) != Row(2, 1)
    assert Row(a=1) != Row(1) and Row(1) != Row(a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1, b=2) != Row(a=2, b=1)
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert Row(1) != (1,)


def test_row_kinds_print_as_in_a_changelog() -> None:
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    row = Row(1)
    assert row.get_row_kind() is RowKind.INSERT
    row.set_row_kind(RowKind.UPDATE_AFTER)
    assert row.get_row_kind() is RowKind.UPDATE_AFTER


@pytest.mark.parametrize("row", [Row(), Row(1, [2]), Row.of_kind(RowKind.DELETE, a=1, b=None), Row("x", "y")(1)])
def test_rows_survive_pickle_and_copy(row: Row) -> None:
    for other in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert other == row
        assert other.get_row_kind() is row.get_row_kind()
        assert other.get_field_names() == row.get_field_names()


def test_a_copied_row_does_not_share_its_fields() -> None:
    row = Row(a=1)
    other = copy.copy(row)
    other["a"] = 2
    assert row.a == 1


@dataclass
class Reading:
    ts: int


class Pair(NamedTuple):
    ts: int
    other: int


@pytest.mark.parametrize("record", [Row(ts=7), {"ts": 7}, Reading(7), Pair(7, 0)])
def test_get_field_reads_any_record_with_names(record: Any) -> None:
    assert get_field(record, "ts") == 7
    with pytest.raises(InvalidArgumentError, match="'nope'"):
        get_field(record, "nope")


def test_get_field_of_a_dict_never_finds_its_methods() -> None:
    with pytest.raises(InvalidArgumentError, match="'items'"):
        get_field({"a": 1}, "items")


def test_as_dict_of_a_row_without_names_is_a_type_mismatch() -> None:
    with pytest.raises(TypeMismatchError):
        Row(1, 2).as_dict()
