from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import Batch, Values, concat_values, count_before, expand, sort_order
from tests.unit.values import columns, exactly, law

NUMBERS = st.integers(-2, 2) | st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP])


@st.composite
def stamps(draw: st.DrawFn) -> list[tuple[int, ...]]:
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.tuples(*[NUMBERS] * width), max_size=12)) or [(0,) * width]


def as_columns(rows: list[tuple[int, ...]]) -> list[Any]:
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


@law
@given(stamps())
def test_sort_order_is_the_stable_order_by_stamp_or_none(rows: list[tuple[int, ...]]) -> None:
    order = sort_order(as_columns(rows))
    wanted = sorted(range(len(rows)), key=rows.__getitem__)
    if order is None:
        assert wanted == list(range(len(rows)))
    else:
        assert order.tolist() == wanted


@law
@given(stamps())
def test_sorted_stamps_need_no_order(rows: list[tuple[int, ...]]) -> None:
    assert sort_order(as_columns(sorted(rows))) is None


def test_no_records_need_no_order() -> None:
    assert sort_order([np.zeros(0, np.int64)] * 3) is None


@law
@given(stamps(), st.data())
def test_count_before_counts_what_is_less_than_the_bound(rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    bound = tuple(data.draw(st.lists(NUMBERS, min_size=1, max_size=4)))
    width = min(len(bound), len(rows[0]))
    wanted = sum(row[:width] < bound[:width] for row in rows)
    assert count_before(as_columns(sorted(rows)), bound) == wanted


@law
@given(st.lists(st.lists(st.integers(), max_size=3), min_size=1, max_size=8))
def test_expand_gives_every_output_the_stamp_of_its_cause_and_a_number(outputs: list[list[int]]) -> None:
    count = len(outputs)
    stamp = [np.arange(count) * 10, np.zeros(count, np.int64)]
    batch = Batch(Values(list(range(count))), np.arange(count) + 100, stamp, np.arange(count) - 5)
    rows = [row for each in outputs for row in each]
    ends = np.cumsum([len(each) for each in outputs])
    grown = expand(batch, rows, ends)
    causes = [(cause, number) for cause, each in enumerate(outputs) for number in range(len(each))]
    assert grown.values.rows() == rows
    assert grown.timestamps.tolist() == [cause + 100 for cause, _ in causes]
    assert list(zip(*(column.tolist() for column in grown.stamp), strict=True)) == [(c * 10, 0, n) for c, n in causes]
    assert grown.watermarks is not None
    assert grown.watermarks.tolist() == [cause - 5 for cause, _ in causes]


@st.composite
def both_forms(draw: st.DrawFn) -> tuple[list[Any], Values]:
    """Values as rows, as a column, or as both."""
    rows = draw(columns())
    values = Values(rows)
    form = draw(st.sampled_from(["rows", "column", "both"]))
    if form == "rows":
        return rows, values
    array, kind = values.column()
    return rows, values if form == "both" else Values(None, array, kind)


@law
@given(both_forms(), st.data())
def test_values_are_the_same_as_rows_and_as_a_column(pair: tuple[list[Any], Values], data: st.DataObject) -> None:
    rows, values = pair
    assert len(values) == len(rows)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5)) if rows else []
    assert exactly(values.slice(start, stop).rows()) == exactly(rows[start:stop])
    assert len(values.slice(start, stop)) == stop - start
    taken = values.take(np.array(indices, np.int64))
    assert exactly(taken.rows()) == exactly([rows[index] for index in indices])
    array, kind = values.column()
    assert exactly(Values(None, array, kind).rows()) == exactly(rows)
    assert exactly(values.rows()) == exactly(rows)


@law
@given(st.lists(both_forms(), min_size=1, max_size=4))
def test_concatenated_values_are_all_values_in_order(parts: list[tuple[list[Any], Values]]) -> None:
    joined = concat_values([values for _, values in parts])
    assert exactly(joined.rows()) == exactly([row for rows, _ in parts for row in rows])


def test_a_conversion_is_made_once() -> None:
    values = Values([1, 2])
    assert not values.is_column
    assert values.column()[0] is values.column()[0]
    assert values.is_column
    read = Values(None, pa.array([1, 2]), "int")
    assert read.rows() is read.rows()


def test_columns_of_one_kind_stay_a_column() -> None:
    parts = [Values(None, pa.array([1]), "int"), Values(None, pa.array([2]), "int")]
    assert concat_values(parts).is_column
    assert not concat_values([*parts, Values(None, pa.array(["a"]), "str")]).is_column


def test_a_batch_is_cut_and_picked_in_all_its_columns() -> None:
    count = 4
    batch = Batch(
        Values(list("abcd")), np.arange(count), [np.arange(count) + 10], np.arange(count) + 20, Values(list("wxyz"))
    )
    for part in (batch.slice(1, 3), batch.take(np.array([1, 2]))):
        assert part.keys is not None
        assert part.watermarks is not None
        assert (part.values.rows(), part.keys.rows()) == (["b", "c"], ["x", "y"])
        assert (part.timestamps.tolist(), part.stamp[0].tolist(), part.watermarks.tolist()) == (
            [1, 2],
            [11, 12],
            [21, 22],
        )
        assert len(part) == 2
    other = batch.with_values(Values([1, 2, 3, 4]))
    assert other.values.rows() == [1, 2, 3, 4]
    assert other.keys is batch.keys
