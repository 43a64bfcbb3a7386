from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import DefinitionError
from flintstream.model.row import Row
from flintstream.ops.batch import Values
from flintstream.ops.selectors import ConstantKey, FieldKey, FunctionKey, field_column
from tests.unit.values import SHAPES, Frozen, Pair, Point, exactly, law

RECORDS: list[tuple[Any, str | int]] = [
    (("a", 7), 1),
    (("a", 7), -1),
    (Row("a", 7), 1),
    (Row(a="a", n=7), 1),
    (Row(a="a", n=7), "n"),
    (Row(as_dict=7), "as_dict"),
    ({"a": "a", "n": 7}, "n"),
    (Pair("a", 7), "right"),
    (Frozen("a", 7), "number"),
    (Point("a", 7), "y"),
    (Point("a", 7), 1),
]


def forms(rows: list[Any]) -> list[Values]:
    """The same records as rows, as a column, and as both."""
    both = Values(rows)
    array, kind = both.column()
    return [Values(rows), Values(None, array, kind), both]


@pytest.mark.parametrize(("record", "field"), RECORDS, ids=repr)
def test_a_field_is_found_in_any_record_whatever_form_it_has(record: Any, field: str | int) -> None:
    for values in forms([record, record]):
        assert field_column(values, field).rows() == [7, 7]


MISSING: list[tuple[Any, str | int]] = [
    (("a",), 1),
    (("a",), "f0"),
    (Row("a"), "f0"),
    (Row(a=1), "b"),
    (Row(a=1), 1),
    ({"a": 1}, 0),
    ({"a": 1}, "b"),
    (Pair(1, 2), 0),
    (Pair(1, 2), "middle"),
    ("text", "n"),
    (None, "n"),
]


@pytest.mark.parametrize(("record", "field"), MISSING, ids=repr)
def test_a_field_that_is_not_there_is_named_whatever_form_the_record_has(record: Any, field: str | int) -> None:
    for values in forms([record]):
        with pytest.raises(DefinitionError, match=f"no field {field!r}"):
            field_column(values, field)


def test_a_missing_record_among_others_is_an_error_and_not_a_null() -> None:
    for values in forms([{"n": 1}, None]):
        with pytest.raises(DefinitionError, match="no field 'n': None"):
            field_column(values, "n")


def test_a_field_of_a_column_is_a_column() -> None:
    rows, column, _ = forms([(1, "a"), (2, "b")])
    assert not field_column(rows, 0).is_column
    assert field_column(column, 0).is_column
    assert FieldKey((0, 1)).keys(column).is_column


@law
@given(st.data())
def test_keys_are_the_same_from_rows_and_from_columns(data: st.DataObject) -> None:
    first, second, third = data.draw(SHAPES), data.draw(SHAPES), data.draw(SHAPES)
    rows = data.draw(st.lists(st.tuples(first, second, third), max_size=5))
    for values in forms(rows):
        assert exactly(FieldKey((1,)).keys(values).rows()) == exactly([row[1] for row in rows])
        assert exactly(FieldKey((2, 0)).keys(values).rows()) == exactly([(row[2], row[0]) for row in rows])
        assert exactly(FunctionKey(lambda row: row[2]).keys(values).rows()) == exactly([row[2] for row in rows])


def test_a_slice_of_columns_gives_the_keys_of_the_slice() -> None:
    _, column, _ = forms([(1, "a"), (2, "b"), (3, "c")])
    assert FieldKey((1, 0)).keys(column.slice(1, 3)).rows() == [("b", 2), ("c", 3)]


def test_fields_of_foreign_columns_are_found_by_name_and_by_position() -> None:
    table = pa.array([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    values = Values(None, table, ["row", ["id", "name"], ["int", "str"]])
    assert FieldKey(("name", 0)).keys(values).rows() == [("a", 1), ("b", 2)]


def test_a_constant_key_is_one_key_for_all() -> None:
    assert ConstantKey().keys(Values(["a", "b"])).rows() == [0, 0]
