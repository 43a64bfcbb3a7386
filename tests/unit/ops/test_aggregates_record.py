"""Every built-in aggregate, on columns and record by record: the same to the last bit, and what Python says it is."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import statistics
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import JobError
from flintstream.model.assigners import TumblingEventTimeWindows
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_record import RecordAggregates
from flintstream.ops.batch import Values
from flintstream.ops.window_fold import WindowFolder
from flintstream.state.codec import decode
from flintstream.state.partials import concat
from tests.unit.values import exactly, law

NUMERIC = [
    Aggregate("count"),
    Aggregate("sum"),
    Aggregate("avg"),
    Aggregate("min"),
    Aggregate("max"),
    Aggregate("variance", None, (False,)),
    Aggregate("stddev", None, (True,)),
    Aggregate("quantile", None, (0.3,)),
    Aggregate("approx_quantile", None, (0.9, 0.01)),
    Aggregate("top_n", None, (3,)),
]
ANY = [
    Aggregate("first"),
    Aggregate("last"),
    Aggregate("count_distinct"),
    Aggregate("approx_count_distinct", None, (0.02,)),
    Aggregate("collect_list"),
]
Batches = list[list[tuple[Any, int]]]


def on_columns(aggregate: Aggregate, batches: Batches) -> Any:
    """Fold each batch of (value, time) pairs, and merge what they became."""
    folder = WindowFolder(TumblingEventTimeWindows(10), [("x", aggregate)])
    parts = []
    for batch in batches:
        times = np.array([time for _, time in batch], np.int64)
        records = folder.records(Values([value for value, _ in batch]), Values([0] * len(batch)), times)
        parts.append(folder.fold(records))
    (value,) = decode(*folder.aggregates[0][1].result(folder.merge(concat(parts))))
    return value


def by_record(aggregate: Aggregate, pairs: list[tuple[Any, int]]) -> Any:
    function = RecordAggregates([aggregate])
    held = function.create_accumulator()
    for pair in pairs:
        held = function.add(pair, held)
    return function.get_result(held)[0]


NUMBERS = st.sampled_from(
    [
        st.integers(-(2**40), 2**40),
        st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
        st.integers(-9, 9) | st.sampled_from([0.5, 3.0, -0.0, 1e-30]),
        st.floats(-(2.0**60), 2.0**60),
    ]
)
THINGS = st.sampled_from([1, 1.0, True, "a", "ü", None, (1, "x"), 2.5, 2**70, dt.date(2026, 1, 1), b"a", {"a": 1}])


@st.composite
def cut(draw: st.DrawFn, values: Any = None) -> Batches:
    shape = draw(NUMBERS) if values is None else values
    shape = shape | st.none() if draw(st.booleans()) else shape
    pairs = draw(st.lists(st.tuples(shape, st.integers(0, 3)), min_size=1, max_size=12))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(pairs) - 1)), max_size=3)))
    bounds = sorted({0, *cuts, len(pairs)})
    return [pairs[start:stop] for start, stop in itertools.pairwise(bounds)]


@pytest.mark.parametrize("aggregate", [*NUMERIC, *ANY], ids=str)
@law
@given(cut())
def test_columns_and_records_agree_on_numbers(aggregate: Aggregate, batches: Batches) -> None:
    pairs = [pair for batch in batches for pair in batch]
    assert exactly(on_columns(aggregate, batches)) == exactly(by_record(aggregate, pairs))


@pytest.mark.parametrize("aggregate", ANY, ids=str)
@law
@given(cut(THINGS))
def test_columns_and_records_agree_on_anything(aggregate: Aggregate, batches: Batches) -> None:
    pairs = [pair for batch in batches for pair in batch]
    assert exactly(on_columns(aggregate, batches)) == exactly(by_record(aggregate, pairs))


@pytest.mark.parametrize("aggregate", [*NUMERIC, *ANY], ids=str)
@law
@given(cut(), cut())
def test_merging_accumulators_is_adding_their_records(aggregate: Aggregate, one: Batches, other: Batches) -> None:
    function = RecordAggregates([aggregate])
    left = [pair for batch in one for pair in batch]
    right = [(value, time + 10) for batch in other for value, time in batch]
    parts = []
    for pairs in (left, right):
        held = function.create_accumulator()
        for pair in pairs:
            held = function.add(pair, held)
        parts.append(held)
    assert exactly(function.get_result(function.merge(*parts))[0]) == exactly(by_record(aggregate, left + right))


@law
@given(cut())
def test_a_variance_is_the_exact_one_rounded(batches: Batches) -> None:
    present = [Fraction(value) for batch in batches for value, _ in batch if value is not None]
    expected = float(statistics.variance(present)) if len(present) > 1 else None
    assert on_columns(Aggregate("variance", None, (False,)), batches) == expected


@law
@given(cut())
def test_order_changes_nothing_where_it_should_not(batches: Batches) -> None:
    pairs = [pair for batch in batches for pair in batch]
    shuffled = random.Random(1).sample(pairs, len(pairs))
    for aggregate in [*NUMERIC, *ANY[2:4]]:
        assert exactly(by_record(aggregate, pairs)) == exactly(by_record(aggregate, shuffled))


@law
@given(cut(THINGS.filter(lambda thing: type(thing) is not dict)))
def test_distinct_values_are_those_of_a_set(batches: Batches) -> None:
    values = {value for batch in batches for value, _ in batch if value is not None}
    assert on_columns(Aggregate("count_distinct"), batches) == len(values)


@law
@given(cut(), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(batches: Batches, share: float) -> None:
    present = [float(value) for batch in batches for value, _ in batch if value is not None]
    found = on_columns(Aggregate("quantile", None, (share,)), batches)
    if not present:
        assert found is None
        return
    assert found == pytest.approx(np.quantile(present, share), rel=1e-9, abs=1e-9)
    near = on_columns(Aggregate("approx_quantile", None, (share, 0.01)), batches)
    exact = np.quantile(present, share, method="lower")
    # Numbers below the smallest normal one have fewer bits to lose.
    assert abs(near - exact) <= 0.01 * abs(exact) + sys.float_info.min


def test_an_estimate_of_distinct_values_is_near() -> None:
    for count in (1, 10, 1_000, 5_000, 40_000):
        batch = [(number, 0) for number in range(count)]
        found = on_columns(Aggregate("approx_count_distinct", None, (0.02,)), [batch, batch[: count // 2 + 1]])
        assert abs(found - count) <= 0.06 * count


def test_numbers_without_digits_have_no_variance() -> None:
    for wild in (math.inf, math.nan, 1e300):
        assert math.isnan(on_columns(Aggregate("variance", None, (True,)), [[(1.0, 0)], [(wild, 0), (2, 0)]]))
        assert math.isnan(by_record(Aggregate("variance", None, (True,)), [(1.0, 0), (wild, 0)]))


@pytest.mark.parametrize("kind", ["sum", "variance", "quantile"])
def test_text_has_no_sum_however_it_is_added(kind: str) -> None:
    aggregate = Aggregate(kind, None, {"variance": (True,), "quantile": (0.5,)}.get(kind, ()))
    with pytest.raises(JobError, match="aggregate a field of numbers"):
        on_columns(aggregate, [[("a", 0)]])
    with pytest.raises(JobError, match="aggregate a field of numbers"):
        by_record(aggregate, [("a", 0)])


def test_of_one_time_the_first_is_who_came_first() -> None:
    batches = [[("b", 5), ("a", 2), ("c", 2)], [("d", 2), ("e", 5), ("f", 5)]]
    assert on_columns(Aggregate("first"), batches) == "a"
    assert on_columns(Aggregate("last"), batches) == "f"
    assert on_columns(Aggregate("collect_list"), batches) == ["a", "c", "d", "b", "e", "f"]
