from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flintstream.model.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from flintstream.model.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from flintstream.model.functions import as_reduce_function
from flintstream.model.triggers import CountTrigger
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_evict import EvictingWindowOperator
from tests.unit.ops.window_harness import END, Contents, Describe, Record, Total, Watermark, WindowHarness


def operator(assigner: Any, trigger: Any, evictor: Any, **rest: Any) -> Callable[[], WindowOperator]:
    return lambda: EvictingWindowOperator(assigner, trigger, evictor, **rest)


def last_three(**rest: Any) -> Callable[[], WindowOperator]:
    return operator(GlobalWindows(), CountTrigger(2), CountEvictor(3), **rest)


def test_every_two_records_the_last_three() -> None:
    harness = WindowHarness(last_three(apply=Contents()))
    harness.feed(*(Record("a", i) for i in range(6)))
    assert harness.values() == [("a", [0, 1]), ("a", [1, 2, 3]), ("a", [3, 4, 5])]


def test_what_was_evicted_is_gone_after_a_restart_too() -> None:
    harness = WindowHarness(last_three(apply=Contents()))
    harness.feed(*(Record("a", i, 100 + i) for i in range(5)))
    harness.restart()
    harness.feed(Record("a", 5, 105))
    assert harness.values()[-1] == ("a", [3, 4, 5])


def test_reduce_and_aggregate_see_what_the_evictor_leaves() -> None:
    summed = as_reduce_function(lambda a, b: a + b)
    for function, expected in (({"reduce": summed}, [1, 6, 12]), ({"aggregate": Total()}, [(1, 2), (6, 3), (12, 3)])):
        harness = WindowHarness(last_three(**function))
        harness.feed(*(Record("a", i) for i in range(6)))
        assert harness.values() == expected


def test_reduce_with_apply_hands_over_the_single_reduced_value() -> None:
    harness = WindowHarness(last_three(reduce=as_reduce_function(max), apply=Contents()))
    harness.feed(*(Record("a", i) for i in range(4)))
    assert harness.values() == [("a", [1]), ("a", [3])]


def test_evicting_after_the_function_changes_the_next_result_only() -> None:
    evictor = CountEvictor(1, do_evict_after=True)
    harness = WindowHarness(operator(GlobalWindows(), CountTrigger(2), evictor, apply=Contents()))
    harness.feed(*(Record("a", i) for i in range(4)))
    assert harness.values() == [("a", [0, 1]), ("a", [1, 2, 3])]


def test_time_evictor_uses_the_records_own_timestamps() -> None:
    harness = WindowHarness(operator(TumblingEventTimeWindows(100), None, TimeEvictor(10), apply=Describe()))
    harness.feed(Record("a", 1, 5), Record("a", 2, 30), Record("a", 3, 20), Record("a", 4, 25), END)
    assert harness.values() == [("a", 0, 100, [2, 4])]
    assert harness.entries() == {}


def test_time_evictor_leaves_records_without_timestamps_alone() -> None:
    harness = WindowHarness(operator(GlobalWindows(), CountTrigger(2), TimeEvictor(1), apply=Contents()))
    harness.feed(Record("a", 1), Record("a", 2))
    assert harness.values() == [("a", [1, 2])]


def test_delta_evictor_measures_against_the_last_record() -> None:
    evictor = DeltaEvictor(5, lambda old, new: abs(new - old))
    harness = WindowHarness(operator(GlobalWindows(), CountTrigger(3), evictor, apply=Contents()))
    harness.feed(Record("a", 1), Record("a", 9), Record("a", 10))
    assert harness.values() == [("a", [9, 10])]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"apply": Contents()}, [("a", [])]),
        ({"reduce": as_reduce_function(max)}, []),
        ({"aggregate": Total()}, [(0, 0)]),
    ],
)
def test_a_window_from_which_everything_was_evicted(function: Any, expected: Any) -> None:
    harness = WindowHarness(operator(TumblingEventTimeWindows(10), None, CountEvictor(0), **function))
    harness.feed(Record("a", 1, 1), END)
    assert harness.values() == expected
    assert harness.entries() == {}


def test_merged_sessions_keep_their_records_for_the_evictor() -> None:
    harness = WindowHarness(operator(EventTimeSessionWindows(10), None, CountEvictor(2), apply=Describe()))
    harness.feed(Record("a", 1, 0), Record("a", 2, 18), Record("a", 3, 9), END)
    assert harness.values() == [("a", 0, 28, [2, 3])]
    assert harness.entries() == {}


def test_lateness_works_as_without_an_evictor() -> None:
    build = operator(TumblingEventTimeWindows(10), None, CountEvictor(1), allowed_lateness_ms=5, apply=Contents())
    harness = WindowHarness(build)
    harness.feed(Record("a", 1, 1), Watermark(9), Record("a", 2, 2), Watermark(14), Record("a", 3, 3))
    assert harness.values() == [("a", [1]), ("a", [2])]
    assert harness.late == 1
    assert harness.entries() == {}


def test_an_evictor_sees_window_size_and_clocks() -> None:
    seen: list[Any] = []

    class Spy(Evictor[Any, Any]):
        def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
            evictor_context.get_metric_group().counter("evictions").inc()
            times = evictor_context.get_current_watermark(), evictor_context.get_current_processing_time()
            seen.append(("before", size, window.start, *times))

        def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
            seen.append(("after", [(element.get_value(), element.get_timestamp()) for element in elements]))

    harness = WindowHarness(operator(TumblingEventTimeWindows(10), None, Spy(), apply=Contents()))
    harness.set_processing_time(77)
    harness.feed(Record("a", 1, 12), Record("a", 2, 13), Watermark(25))
    assert seen == [("before", 2, 10, 25, 77), ("after", [(1, 12), (2, 13)])]
    assert harness.ctx.counters == {"user.evictions": 1}
