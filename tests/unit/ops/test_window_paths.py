"""Windows on columns against the same windows record by record: results, their stamps, late records, what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_record import RecordAggregates, ResultRows
from flintstream.ops.selectors import FunctionKey
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_choice import column_operator
from tests.unit.ops.window_harness import END, Record, Step, Watermark, WindowHarness, play
from tests.unit.values import exactly, law

AGGREGATES = [
    ("n", Aggregate("count")),
    ("total", Aggregate("sum", 0)),
    ("least", Aggregate("min", 0)),
    ("spread", Aggregate("variance", 0, (False,))),
    ("kinds", Aggregate("count_distinct", 0)),
    ("middle", Aggregate("quantile", 0, (0.5,))),
    ("first", Aggregate("first", 0)),
    ("all", Aggregate("collect_list", 0)),
]
ASSIGNERS = [
    TumblingEventTimeWindows(10, 3),
    SlidingEventTimeWindows(12, 4),
    SlidingEventTimeWindows(12, 4, -1),
    SlidingEventTimeWindows(10, 4, 1),
    SlidingEventTimeWindows(9, 9),
    EventTimeSessionWindows(5),
    EventTimeSessionWindows(1),
]


def on_columns(assigner: Any) -> Callable[[], Any]:
    return lambda: column_operator(assigner, FunctionKey(lambda value: value), AGGREGATES, "late")


def by_record(assigner: Any) -> Callable[[], Any]:
    aggregate = RecordAggregates([aggregate for _, aggregate in AGGREGATES])
    rows = ResultRows(["key"], [name for name, _ in AGGREGATES])
    return lambda: WindowOperator(assigner, None, 0, "late", None, aggregate, rows)


def seen(harness: WindowHarness) -> list[Any]:
    found: list[Any] = []
    for e in harness.emitted:
        # Late records keep the stamps they came with.
        stamp = e.stamp[:3] if e.tag else e.stamp
        found.append((stamp, e.tag, repr(e.value if e.tag else exactly(list(e.value))), e.timestamp))
    return sorted(found)


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    floats = st.sampled_from([0.5, 1.25, -3.5])
    number = draw(st.sampled_from([st.integers(-9, 9), floats, st.integers(0, 3) | st.none()]))
    record = st.builds(Record, st.sampled_from("abc"), st.tuples(number), st.integers(-25, 60))
    steps = st.one_of(record, record, record, st.builds(Watermark, st.integers(-25, 70)))
    return [*draw(st.lists(steps, max_size=25)), END]


CUTS = st.lists(st.integers(0, 25), max_size=4)


def played(build: Callable[[], Any], script: list[Step], cuts: list[int], restarts: list[int]) -> WindowHarness:
    limit = len(script)
    return play(build, script, [min(c, limit) for c in cuts], [min(c, limit - 1) for c in restarts])


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=str)
@law
@given(scripts(), CUTS, CUTS)
def test_columns_give_what_records_give(
    assigner: Any, script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    columns = played(on_columns(assigner), script, cuts, restarts)
    records = played(by_record(assigner), script, [], [])
    assert seen(columns) == seen(records)
    assert columns.late == records.late
    assert columns.entries() == {}
