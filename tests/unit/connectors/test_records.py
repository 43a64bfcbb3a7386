from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest

from flintstream.connectors.records import batch_of_column, batch_of_rows
from flintstream.errors import SinkError
from flintstream.model.row import Row
from flintstream.state.codec import encode


@dataclass
class Reading:
    id: str
    value: float


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([("a", 1), ("b", 2)], {"f0": ["a", "b"], "f1": [1, 2]}),
        ([{"x": 1}, {"x": None}], {"x": [1, None]}),
        ([Row(x=1, y="a")], {"x": [1], "y": ["a"]}),
        ([Row(1, "a")], {"f0": [1], "f1": ["a"]}),
        ([Reading("a", 1.0)], {"id": ["a"], "value": [1.0]}),
        ([Pair(1, 2)], {"a": [1], "b": [2]}),
        ([1, 2], {"value": [1, 2]}),
        (["a", None], {"value": ["a", None]}),
        ([[1], [2, 3]], {"value": [[1], [2, 3]]}),
        ([None], {"value": [None]}),
        ([("a", 1), None], {"f0": ["a", None], "f1": [1, None]}),
        ([{"x": 1}, {"y": 2}], {"x": [1, None], "y": [None, 2]}),
        ([("a", 1), ("b", 2.5)], {"f0": ["a", "b"], "f1": [1.0, 2.5]}),
        ([("a", 1), 7], {"f0": ["a", None], "f1": [1, None], "value": [None, 7]}),
        ([Decimal("1.5")], {"value": [Decimal("1.5")]}),
        ([(1, Decimal("1.5"), (2, "x"))], {"f0": [1], "f1": [Decimal("1.5")], "f2": [{"f0": 2, "f1": "x"}]}),
        ([{"x": {1}}], {"x": [[1]]}),
        ([{"x": Decimal(1), "y": [Row(a=1)]}], {"x": [Decimal(1)], "y": [[{"a": 1}]]}),
    ],
)
def test_records_become_columns(rows, columns):
    assert batch_of_rows(rows).to_pydict() == columns


def test_a_column_becomes_its_fields_without_python_rows():
    array, kind = encode([("a", 1), None])
    assert batch_of_column(array, kind).to_pydict() == {"f0": ["a", None], "f1": [1, None]}
    assert batch_of_column(pa.array([1, 2]), "int").to_pydict() == {"value": [1, 2]}


def test_a_column_with_pickles_inside_is_left_to_the_rows():
    for rows in ([("a", object)], [1, 1.5], [[{"x": {1}}]]):
        array, kind = encode(rows)
        assert batch_of_column(array, kind) is None


@pytest.mark.parametrize(
    ("rows", "field"),
    [([("a", object())], "f1"), ([1, "a"], "value"), ([{"x": 2**70}], "x"), ([{"x": "\ud800"}], "x")],
)
def test_values_that_no_column_can_hold_are_named_by_their_field(rows, field):
    with pytest.raises(SinkError, match=f"field '{field}' has values that no column can hold"):
        batch_of_rows(rows)


def test_records_without_fields_cannot_be_written():
    with pytest.raises(SinkError, match="has no fields"):
        batch_of_rows([()])
