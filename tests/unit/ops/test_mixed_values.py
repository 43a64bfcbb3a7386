"""Values of several kinds side by side: like a list of rows, but each kind still a column."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.ops.batch import MixedValues, Values, concat_values
from flintstream.state.codec import encode
from tests.unit.values import law

PARTS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 9), min_size=1, max_size=4),
        st.lists(st.text(max_size=2), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(0, 9), st.text(max_size=2)), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=6,
)


def column(rows: list[Any]) -> Values:
    return Values(None, *encode(rows))


@law
@given(PARTS, st.data())
def test_it_is_a_list_of_rows(parts: list[list[Any]], data: st.DataObject) -> None:
    rows = [row for part in parts for row in part]
    values = concat_values([column(part) for part in parts])
    assert len(values) == len(rows)
    assert isinstance(values, MixedValues) == (len({type(row) for row in rows}) > 1)
    at = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)), np.int64)
    start = data.draw(st.integers(0, len(rows)))
    taken = values.take(at)
    assert taken.rows() == [rows[index] for index in at]
    assert taken.slice(1, 3).rows() == [rows[index] for index in at][1:3]
    assert values.slice(start, len(rows)).rows() == rows[start:]
    assert Values(None, *values.column()).rows() == rows
    assert values.rows() == rows


def test_what_is_of_one_kind_is_a_column() -> None:
    values = concat_values([column([1, 2]), column(["a", "b"]), column([3])])
    assert not values.is_column
    numbers = values.take(np.array([0, 4, 1]))
    assert numbers.is_column
    assert numbers.rows() == [1, 3, 2]


def test_rows_among_columns_make_rows() -> None:
    assert concat_values([column([1]), Values(["a"])]).rows() == [1, "a"]
