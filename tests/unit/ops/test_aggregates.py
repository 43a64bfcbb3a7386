"""Built-in aggregates on columns, against plain Python over the same values, however they were cut into batches."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import JobError, UnsupportedError
from flintstream.model.assigners import TumblingEventTimeWindows
from flintstream.model.row import Row
from flintstream.ops.aggregates import Aggregate, column_aggregate
from flintstream.ops.batch import Values
from flintstream.ops.window_fold import WindowFolder
from flintstream.state.codec import decode
from flintstream.state.partials import concat
from tests.unit.values import law


def over(kind: str, batches: list[list[Any]], field: Any = None, options: tuple[Any, ...] = ()) -> Any:
    """Aggregate one key's values: each batch into a partial result, and the partial results into one."""
    folder = WindowFolder(TumblingEventTimeWindows(10), [("x", Aggregate(kind, field, options))])
    parts: list[pa.Table] = []
    for batch in batches:
        keys, times = Values([0] * len(batch)), np.zeros(len(batch), np.int64)
        parts.append(folder.fold(folder.records(Values(batch), keys, times)))
    merged = folder.merge(concat(parts))
    (value,) = decode(*folder.aggregates[0][1].result(merged))
    return value


def exact(values: list[Any]) -> Any:
    total = sum(map(Fraction, values), Fraction(0))
    return int(total) if all(type(value) is int for value in values) else total.numerator / total.denominator


INTEGERS = st.integers(-(2**55), 2**55)
FLOATS = st.floats(-1e9, 1e9).map(lambda value: round(value, 6))
MIXED = st.sampled_from([INTEGERS, FLOATS, INTEGERS | FLOATS])


@st.composite
def batches(draw: st.DrawFn, values: Any = None) -> tuple[list[Any], list[list[Any]]]:
    shape = draw(MIXED) if values is None else values
    shape = shape | st.none() if draw(st.booleans()) else shape
    numbers = draw(st.lists(shape, min_size=1, max_size=10))
    cuts = sorted(draw(st.sets(st.integers(1, len(numbers) - 1), max_size=3))) if len(numbers) > 1 else []
    bounds = [0, *cuts, len(numbers)]
    return numbers, [numbers[start:stop] for start, stop in itertools.pairwise(bounds)]


@law
@given(batches())
def test_a_sum_is_exact_and_does_not_depend_on_the_cuts(pair: tuple[list[Any], list[list[Any]]]) -> None:
    numbers, cut = pair
    present = [number for number in numbers if number is not None]
    result = over("sum", cut)
    if not present:
        assert result is None
    else:
        assert result == exact(present)
        assert type(result) is type(exact(present))
    assert over("count", cut) == len(numbers)


@law
@given(batches(values=FLOATS))
def test_an_average_is_the_sum_over_the_number_of_values(pair: tuple[list[Any], list[list[Any]]]) -> None:
    numbers, cut = pair
    present = [number for number in numbers if number is not None]
    assert over("avg", cut) == (exact(present) / len(present) if present else None)


@law
@given(batches())
def test_least_and_greatest_do_not_depend_on_the_cuts(pair: tuple[list[Any], list[list[Any]]]) -> None:
    numbers, cut = pair
    present = [number for number in numbers if number is not None]
    for kind, best in (("min", min), ("max", max)):
        result = over(kind, cut)
        assert result == best(present, default=None)
        assert type(result) is type(over(kind, [numbers[::-1]]))


EXTREMES = [
    [["b", "a"], ["c"]],
    [[True, False]],
    [[dt.datetime(2026, 1, 2)], [dt.datetime(2026, 1, 1)]],
    [[dt.date(2026, 1, 2), dt.date(2026, 1, 1)]],
]


@pytest.mark.parametrize("cut", EXTREMES, ids=repr)
def test_whatever_has_an_order_has_extremes(cut: list[list[Any]]) -> None:
    values = [value for batch in cut for value in batch]
    assert over("min", cut) == min(values)
    assert over("max", cut) == max(values)


@pytest.mark.parametrize("values", [[2**62, 2**62 - 1], [-(2**62), -(2**62)], [2**62, 2**62, -(2**62)]])
def test_sums_up_to_64_bits_are_integers(values: list[int]) -> None:
    assert over("sum", [values]) == sum(values)
    assert over("sum", [[value] for value in values]) == sum(values)


@pytest.mark.parametrize("values", [[2**62, 2**62], [-(2**62), -(2**62), -1]])
def test_a_sum_beyond_64_bits_is_an_error_and_not_a_wrong_number(values: list[int]) -> None:
    with pytest.raises(JobError, match="does not fit into 64 bits"):
        over("sum", [values])


def test_small_sums_of_many_batches_do_not_lose_their_upper_half() -> None:
    assert over("sum", [[2**31 - 1]] * 5 + [[-1], [2**40]]) == 5 * (2**31 - 1) - 1 + 2**40


RECORDS = [
    ([("a", 2), ("b", 3)], 1),
    ([{"n": 2}, {"n": 3}], "n"),
    ([Row(n=2), Row(n=3)], "n"),
    ([2, 3], None),
]


@pytest.mark.parametrize(("records", "field"), RECORDS, ids=repr)
def test_aggregates_read_a_field_of_any_record(records: list[Any], field: Any) -> None:
    assert over("sum", [records], field) == 5


def test_infinities_and_nans_come_through() -> None:
    assert over("sum", [[1.0], [math.inf]]) == math.inf
    assert math.isnan(over("sum", [[1.0, math.nan], [2.0]]))


@pytest.mark.parametrize("values", [["a", "b"], [True], [dt.date(2026, 1, 1)]], ids=repr)
def test_what_has_no_sum_says_so(values: list[Any]) -> None:
    with pytest.raises(JobError, match="has no sum"):
        over("sum", [values], None)


@pytest.mark.parametrize("values", [[1, "a"], [(1, 2)], [2**70], [1, 2**70, 0.5]], ids=repr)
def test_what_cannot_be_aggregated_says_so(values: list[Any]) -> None:
    for kind in ("sum", "min"):
        with pytest.raises(JobError, match="cannot be aggregated"):
            over(kind, [values])


def test_numbers_have_no_order_among_texts() -> None:
    with pytest.raises(JobError, match="int, text"):
        over("min", [[1], ["a"]])


def test_a_number_that_is_none_is_neither_least_nor_greatest() -> None:
    assert over("min", [[2.0, math.nan], [3]]) == 2.0
    assert over("max", [[math.nan], [3]]) == 3.0
    assert math.isnan(over("max", [[math.nan], [math.nan]]))


def test_an_unknown_aggregate_is_named() -> None:
    with pytest.raises(UnsupportedError, match="'median'"):
        column_aggregate(Aggregate("median"), "a0.")


def test_an_aggregate_shows_itself_as_a_call() -> None:
    assert str(Aggregate("sum", "price")) == "sum(price)"
    assert str(Aggregate("count")) == "count()"
