from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from flintstream.errors import DefinitionError, InvalidArgumentError, JobError, TypeMismatchError
from flintstream.model.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flintstream.model.functions import AggregateFunction, MapFunction, as_map_function, as_reduce_function
from flintstream.model.functions_window import AllWindowFunction, ProcessAllWindowFunction, WindowFunction
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    PurgingTrigger,
    TriggerResult,
)
from flintstream.model.window_assigner import WindowAssigner
from flintstream.model.windows import GlobalWindow, TimeWindow
from flintstream.ops.batch import FIRST
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_aligned import AlignedWindowOperator, is_aligned
from tests.unit.ops.window_harness import END, Contents, Describe, Record, Total, Watermark, WindowHarness

TUMBLING = TumblingEventTimeWindows(10)
SLIDING = SlidingEventTimeWindows(10, 5)


def general(assigner: Any, **rest: Any) -> Callable[[], WindowOperator]:
    return lambda: WindowOperator(assigner, **rest)


def aligned(assigner: Any, **rest: Any) -> Callable[[], WindowOperator]:
    return lambda: AlignedWindowOperator(assigner, **rest)


@pytest.fixture(params=[general, aligned])
def way(request: pytest.FixtureRequest) -> Any:
    """Both ways to run aligned windows with their default trigger."""
    return request.param


def test_a_window_fires_when_the_watermark_reaches_its_last_millisecond(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, apply=Describe()))
    assert harness.feed(Record("a", 1, 3), Record("a", 2, 9), Watermark(8)) == []
    (fired,) = harness.feed(Watermark(9))
    assert fired.value == ("a", 0, 10, [1, 2])
    assert fired.timestamp == 9


def test_a_result_has_the_stamp_of_the_advance_that_fired_it(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total()))
    harness.feed(Record("a", 1, 3), Watermark(5), Record("a", 1, 4), Watermark(12), Record("a", 1, 17), Watermark(30))
    (first, second) = harness.emitted
    # (watermark before the advance, lane, position of the record that caused it, time of the timer)
    assert first.stamp[:4] == (5, 0, 1, 9)
    assert second.stamp[:4] == (12, 0, 2, 19)


def test_windows_that_one_advance_passes_fire_in_the_order_of_their_ends_then_of_key_hashes(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, apply=Describe()))
    keys = [f"k{i}" for i in range(50)]
    harness.feed(*(Record(key, 1, t) for t in (25, 5, 15) for key in keys), Watermark(40))
    starts = [value[1] for value in harness.values()]
    assert starts == [0] * 50 + [10] * 50 + [20] * 50
    by_window = [[v[0] for v in harness.values() if v[1] == start] for start in (0, 10, 20)]
    assert by_window[0] == by_window[1] == by_window[2]
    assert sorted(by_window[0]) == sorted(keys)
    assert [e.stamp[4] for e in harness.emitted[:50]] == sorted(e.stamp[4] for e in harness.emitted[:50])


def test_reduce_emits_the_reduced_value(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, reduce=as_reduce_function(lambda a, b: a + b)))
    harness.feed(Record("a", 1, 1), Record("b", 5, 1), Record("a", 2, 2), END)
    assert sorted(harness.values()) == [3, 5]


def test_reduce_with_apply_hands_the_reduced_value_over_as_the_single_element(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, reduce=as_reduce_function(max), apply=Describe()))
    harness.feed(Record("a", 1, 1), Record("a", 7, 2), Record("a", 3, 3), END)
    assert harness.values() == [("a", 0, 10, [7])]


def test_aggregate_with_apply_hands_the_result_over_as_the_single_element(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total(), apply=Describe()))
    harness.feed(Record("a", 1, 1), Record("a", 7, 2), END)
    assert harness.values() == [("a", 0, 10, [(8, 2)])]


class ApplyKeyed(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, window, sorted(inputs))]


class ApplyAll(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(window, sorted(inputs))]


class ProcessAll(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window(), sorted(elements)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (ApplyKeyed(), ("a", TimeWindow(0, 10), [1, 2])),
        (ApplyAll(), (TimeWindow(0, 10), [1, 2])),
        (ProcessAll(), (TimeWindow(0, 10), [1, 2])),
    ],
)
def test_all_kinds_of_window_functions_are_called(way: Any, function: Any, expected: Any) -> None:
    harness = WindowHarness(way(TUMBLING, apply=function))
    harness.feed(Record("a", 2, 1), Record("a", 1, 2), END)
    assert harness.values() == [expected]


class Nothing(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return None


def test_a_window_function_that_returns_nothing_emits_nothing_and_the_window_still_goes(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, apply=Nothing()))
    assert harness.feed(Record("a", 2, 1), END) == []
    assert harness.entries() == {}


def test_a_window_function_may_change_its_list_without_harm_to_the_window(way: Any) -> None:
    class Emptying(WindowFunction[Any, Any, Any, Any]):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            taken = list(inputs)
            inputs.clear()
            return [taken]

    harness = WindowHarness(way(TUMBLING, apply=Emptying(), allowed_lateness_ms=50))
    harness.feed(Record("a", 1, 1), Watermark(20), Record("a", 2, 2))
    assert harness.values() == [[1], [1, 2]]


def test_a_window_function_can_emit_to_side_outputs(way: Any) -> None:
    class Tagging(WindowFunction[Any, Any, Any, Any]):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            yield key
            yield OutputTag("side"), list(inputs)

    harness = WindowHarness(way(TUMBLING, apply=Tagging()))
    harness.feed(Record("a", 1, 1), END)
    assert harness.values() == ["a"]
    assert harness.values("side") == [[1]]


def test_sliding_windows_take_a_record_into_each_window_that_covers_it(way: Any) -> None:
    harness = WindowHarness(way(SLIDING, apply=Describe()))
    harness.feed(Record("a", 1, 7), Record("a", 2, 12), END)
    assert harness.values() == [("a", 0, 10, [1]), ("a", 5, 15, [1, 2]), ("a", 10, 20, [2])]


def test_windows_before_1970_and_with_an_offset(way: Any) -> None:
    harness = WindowHarness(way(TumblingEventTimeWindows(10, 3), apply=Describe()))
    harness.feed(Record("a", 1, -8), Record("a", 2, -7), Record("a", 3, 2), Record("a", 4, 3), END)
    assert harness.values() == [("a", -17, -7, [1]), ("a", -7, 3, [2, 3]), ("a", 3, 13, [4])]


def test_times_at_the_ends_of_the_calendar_do_not_wrap_around() -> None:
    harness = WindowHarness(aligned(TUMBLING, apply=Describe()))
    harness.feed(Record("a", 1, -(2**63) + 8), Record("a", 2, MAX_TIMESTAMP - 20), Record("a", 3, MAX_TIMESTAMP), END)
    assert [value[3] for value in harness.values()] == [[1], [2], [3]]
    assert harness.emitted[-1].timestamp == MAX_TIMESTAMP
    assert harness.entries() == {}


def test_a_late_record_is_counted_once_and_dropped(way: Any) -> None:
    harness = WindowHarness(way(SLIDING, aggregate=Total()))
    harness.feed(Record("a", 1, 7), Watermark(14), Record("a", 2, 7))
    assert harness.late == 1
    assert harness.values() == [(1, 1), (1, 1)]
    assert harness.entries() == {}


def test_a_record_that_is_late_in_some_windows_only_is_not_late(way: Any) -> None:
    harness = WindowHarness(way(SLIDING, apply=Describe()))
    harness.feed(Watermark(9), Record("a", 1, 7), END)
    assert harness.late == 0
    assert harness.values() == [("a", 5, 15, [1])]


def test_a_late_record_goes_to_the_side_output_as_it_came_and_is_counted_too(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total(), late_tag="late"))
    harness.feed(Watermark(9), Record("a", ("x", 1), 7))
    (late,) = harness.emitted
    assert (late.tag, late.value, late.timestamp) == ("late", ("x", 1), 7)
    assert late.stamp == (9, 0, 0, FIRST, 0, 0)
    assert harness.late == 1


def test_a_late_record_within_allowed_lateness_fires_its_window_again(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total(), allowed_lateness_ms=5, late_tag="late"))
    harness.feed(Record("a", 1, 3), Watermark(9))
    again = harness.feed(Record("a", 4, 2))
    assert [(e.value, e.timestamp) for e in again] == [((5, 2), 9)]
    assert again[0].stamp[:4] == (9, 0, 1, FIRST)
    harness.feed(Watermark(13), Record("a", 10, 2), Watermark(14))
    assert harness.values() == [(1, 1), (5, 2), (15, 3)]
    assert harness.entries() == {}
    harness.feed(Record("a", 100, 2))
    assert harness.values("late") == [100]


def test_a_first_record_within_allowed_lateness_opens_its_window_and_fires_it(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total(), allowed_lateness_ms=5))
    harness.feed(Watermark(12), Record("a", 4, 2))
    assert harness.values() == [(4, 1)]
    harness.feed(Watermark(14))
    assert harness.values() == [(4, 1)]
    assert harness.entries() == {}


def test_a_record_that_fires_several_windows_fires_them_in_the_order_of_its_stamps(way: Any) -> None:
    harness = WindowHarness(way(SlidingEventTimeWindows(20, 5), apply=Describe(), allowed_lateness_ms=100))
    fired = harness.feed(Watermark(40), Record("a", 1, 7))
    assert [(e.value[1], e.timestamp) for e in fired] == [(5, 24), (0, 19), (-5, 14), (-10, 9)]
    assert len({e.stamp for e in fired}) == 4


def test_lateness_without_end_keeps_the_window_and_sets_no_cleanup_timer(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total(), allowed_lateness_ms=MAX_TIMESTAMP))
    harness.feed(Record("a", 1, 3), Watermark(1000), Record("a", 1, 4))
    assert harness.values() == [(1, 1), (2, 2)]
    assert harness.entries() == {"#window-contents": 1}


def test_a_record_without_timestamp_is_an_error_that_says_what_to_do(way: Any) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Total()))
    with pytest.raises(JobError, match="assign_timestamps_and_watermarks"):
        harness.feed(Record("a", 1, 3), Record("a", 1))


class OnlyPositive(Total):
    def get_result(self, accumulator: Any) -> Any:
        return accumulator if accumulator[0] > 0 else None


@pytest.mark.parametrize("lateness", [0, 50])
def test_a_result_of_none_is_no_result(way: Any, lateness: int) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=OnlyPositive(), allowed_lateness_ms=lateness))
    harness.feed(Record("a", -1, 3), Record("b", 1, 3), Watermark(9), Record("c", -1, 4), END)
    assert harness.values() == [(1, 1)]
    assert harness.entries() == {}


class Resetting(AggregateFunction):
    """An accumulator that becomes None: nothing."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return None if value == "reset" else accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


@pytest.mark.parametrize("cut", [0, 1])
def test_an_accumulator_of_none_is_an_empty_window(way: Any, cut: int) -> None:
    harness = WindowHarness(way(TUMBLING, aggregate=Resetting()))
    script = [Record("a", 5, 1), Record("a", "reset", 2), Record("b", 1, 2), Record("b", "reset", 3), Record("b", 2, 4)]
    harness.feed(*script[:cut])
    harness.restart()
    harness.feed(*script[cut:])
    harness.restart()
    harness.feed(END)
    assert harness.values() == [2]
    assert harness.entries() == {}


def test_functions_are_opened_and_closed(way: Any) -> None:
    calls: list[str] = []

    class Tracked(Total):
        def open(self, runtime_context: Any) -> None:
            calls.append(f"open {runtime_context.get_task_name()}")

        def close(self) -> None:
            calls.append("close")

    harness = WindowHarness(way(TUMBLING, aggregate=Tracked()))
    harness.operator.close()
    assert calls == ["open the window", "close"]


def test_a_pair_that_comes_and_goes_within_a_run_never_enters_the_changelog() -> None:
    harness = WindowHarness(aligned(TUMBLING, aggregate=Total()))
    harness.feed(Record("a", 1, 1), Watermark(9), Record("a", 1, 11))
    changes = harness.commit()
    assert changes["window/#window-contents"].column("part1").to_pylist() == [{"start": 10, "end": 20}]
    assert changes["window/#event-timers"].column("part2").to_pylist() == [19]
    harness.feed(END)
    assert {name: batch.column("gone").to_pylist() for name, batch in harness.commit().items()} == {
        "window/#window-contents": [True],
        "window/#event-timers": [True],
    }


@pytest.mark.parametrize(("before", "after"), [(general, aligned), (aligned, general)])
def test_state_passes_from_one_way_to_the_other(before: Any, after: Any) -> None:
    def build(kind: Any) -> Any:
        return kind(TUMBLING, aggregate=Total(), allowed_lateness_ms=5)

    harness = WindowHarness(build(before))
    harness.feed(Record("a", 1, 1), Record("b", 1, 12), Watermark(9))
    harness.restart(build(after))
    harness.feed(Record("a", 2, 2), Record("b", 2, 12), END)
    assert harness.values() == [(1, 1), (3, 2), (3, 2)]
    assert harness.entries() == {}


def test_timers_of_an_earlier_program_do_nothing() -> None:
    harness = WindowHarness(general(TUMBLING, trigger=ContinuousEventTimeTrigger(2), aggregate=Total()))
    harness.feed(Record("a", 1, 1))
    harness.restart(aligned(TUMBLING, aggregate=Total()))
    assert harness.feed(Watermark(5)) == []
    harness.feed(END)
    assert harness.values() == [(1, 1)]


def test_windows_of_an_earlier_size_still_fire_on_time() -> None:
    harness = WindowHarness(aligned(TumblingEventTimeWindows(7), apply=Describe()))
    harness.feed(Record("a", 1, 1))
    harness.restart(aligned(TUMBLING, apply=Describe()))
    harness.feed(Record("a", 2, 2), Watermark(6), Record("a", 3, 8), END)
    assert harness.values() == [("a", 0, 7, [1]), ("a", 0, 10, [2, 3])]
    assert harness.entries() == {}


@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0), (5, 3), (0, MAX_TIMESTAMP)])
@pytest.mark.parametrize("reached", [8, 11])
def test_another_allowed_lateness_after_a_restart_loses_nothing(before: int, after: int, reached: int) -> None:
    harness = WindowHarness(aligned(TUMBLING, aggregate=Total(), allowed_lateness_ms=before))
    harness.feed(Record("a", 1, 1), Record("b", 1, 1), Watermark(reached))
    harness.restart(aligned(TUMBLING, aggregate=Total(), allowed_lateness_ms=after))
    harness.feed(Watermark(11), Record("a", 2, 2), Watermark(20))
    # Of a window that was over before the restart, contents are there as long as lateness had been allowed.
    again = [(3, 2)] if after > 2 and (before or reached == 8) else [(2, 1)] if after else []
    assert harness.values() == [(1, 1), (1, 1), *again]
    assert harness.entries() == ({"#window-contents": 2 - (reached == 11)} if after == MAX_TIMESTAMP else {})


@pytest.mark.parametrize(("before", "after"), [(0, 0), (5, 5), (0, 5), (5, 0), (50, 5)])
def test_the_default_trigger_takes_over_what_another_trigger_left(before: int, after: int) -> None:
    trigger = CountTrigger(9)
    harness = WindowHarness(general(TUMBLING, trigger=trigger, aggregate=Total(), allowed_lateness_ms=before))
    harness.feed(Record("a", 1, 1), Watermark(5))
    harness.restart(aligned(TUMBLING, aggregate=Total(), allowed_lateness_ms=after))
    harness.feed(Record("a", 2, 2), Watermark(9), Watermark(100))
    assert harness.values() == [(3, 2)]
    # What the other trigger kept for itself stays, as in Flink: nobody claims it, and nobody may throw it away.
    assert harness.entries() == {"#trigger:count": 1}


def test_which_windows_are_aligned() -> None:
    assert is_aligned(TUMBLING, None)
    assert is_aligned(SLIDING, EventTimeTrigger())
    assert not is_aligned(SlidingEventTimeWindows(10, 3), None)
    assert not is_aligned(SlidingEventTimeWindows(3, 10), None)
    assert not is_aligned(TUMBLING, CountTrigger(2))
    assert not is_aligned(TumblingProcessingTimeWindows(10), None)
    assert not is_aligned(EventTimeSessionWindows(10), None)


def test_count_trigger_fires_within_a_window_and_leaves_no_count_behind() -> None:
    harness = WindowHarness(general(TUMBLING, trigger=CountTrigger(2), apply=Contents()))
    harness.feed(*(Record("a", i, i) for i in range(5)), Record("b", 9, 1))
    assert harness.values() == [("a", [0, 1]), ("a", [0, 1, 2, 3])]
    assert harness.entries() == {"#trigger:count": 2, "#window-contents": 2, "#event-timers": 2}
    assert harness.feed(END) == []
    assert harness.entries() == {}


def test_a_record_that_makes_a_trigger_fire_stamps_the_result() -> None:
    harness = WindowHarness(general(TUMBLING, trigger=CountTrigger(1), aggregate=Total()))
    harness.feed(Watermark(0), Record("a", 1, 3), Record("a", 1, 4))
    assert [(e.timestamp, e.stamp) for e in harness.emitted] == [
        (9, (0, 0, 0, FIRST, 0, 0)),
        (9, (0, 0, 1, FIRST, 0, 0)),
    ]


def test_purging_trigger_starts_over_after_each_result() -> None:
    harness = WindowHarness(general(TUMBLING, trigger=PurgingTrigger.of(CountTrigger(2)), apply=Contents()))
    harness.feed(*(Record("a", i, i) for i in range(5)), END)
    assert harness.values() == [("a", [0, 1]), ("a", [2, 3])]
    assert harness.entries() == {}


def test_continuous_event_time_trigger_fires_on_the_way() -> None:
    harness = WindowHarness(general(TUMBLING, trigger=ContinuousEventTimeTrigger(4), apply=Contents()))
    harness.feed(Record("a", 1, 1), Watermark(4), Record("a", 2, 6), Watermark(7), Watermark(8), END)
    assert harness.values() == [("a", [1]), ("a", [1, 2]), ("a", [1, 2])]
    assert [e.stamp[3] for e in harness.emitted] == [4, 8, 9]
    assert harness.entries() == {}


def test_a_global_window_has_no_cleanup_timer_and_ends_with_time() -> None:
    harness = WindowHarness(general(GlobalWindows(), trigger=EventTimeTrigger(), apply=Contents()))
    harness.feed(Record("a", 1, 5), Watermark(100))
    assert harness.entries() == {"#window-contents": 1, "#event-timers": 1}
    (fired,) = harness.feed(END)
    assert (fired.value, fired.timestamp) == (("a", [1]), MAX_TIMESTAMP)


def test_a_global_window_without_a_trigger_only_collects() -> None:
    harness = WindowHarness(general(GlobalWindows(), apply=Contents()))
    assert harness.feed(Record("a", 1), Record("a", 2), END) == []
    assert harness.entries() == {"#window-contents": 1}


def test_a_purged_global_window_leaves_nothing_behind() -> None:
    trigger = PurgingTrigger.of(CountTrigger(2))
    harness = WindowHarness(general(GlobalWindows(), trigger=trigger, apply=Contents()))
    harness.feed(Record("a", 1), Record("a", 2))
    assert harness.values() == [("a", [1, 2])]
    assert harness.entries() == {}


def test_windows_by_count() -> None:
    harness = WindowHarness(general(CountTumblingWindowAssigner(2), trigger=CountTrigger(2), apply=Contents()))
    harness.feed(*(Record("ab"[i % 2], i) for i in range(9)))
    assert harness.values() == [("a", [0, 2]), ("b", [1, 3]), ("a", [4, 6]), ("b", [5, 7])]


def test_sliding_windows_by_count() -> None:
    harness = WindowHarness(general(CountSlidingWindowAssigner(2, 1), apply=Contents()))
    harness.feed(*(Record("a", i) for i in range(4)))
    assert harness.values() == [("a", [0, 1]), ("a", [1, 2]), ("a", [2, 3])]


def test_processing_time_windows_follow_the_epochs_clock() -> None:
    harness = WindowHarness(general(TumblingProcessingTimeWindows(10), apply=Contents()))
    harness.set_processing_time(3)
    harness.feed(Record("a", 1), Watermark(1000), Record("a", 2))
    assert harness.set_processing_time(9) == []
    harness.feed(Record("a", 3))  # in the window's last millisecond
    (fired,) = harness.set_processing_time(10)
    assert (fired.value, fired.timestamp) == (("a", [1, 2, 3]), 9)
    assert harness.late == 0
    assert harness.entries() == {}


def test_continuous_processing_time_trigger() -> None:
    trigger = ContinuousProcessingTimeTrigger(4)
    harness = WindowHarness(general(TumblingProcessingTimeWindows(10), trigger=trigger, apply=Contents()))
    harness.set_processing_time(1)
    harness.feed(Record("a", 1))
    for now in (5, 9, 10):
        harness.set_processing_time(now)
    assert harness.values() == [("a", [1])] * 3
    assert harness.entries() == {}


def test_a_window_of_event_time_is_not_cleaned_up_by_processing_time() -> None:
    class ByClock(NeverTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            ctx.register_processing_time_timer(window.max_timestamp())
            return TriggerResult.CONTINUE

        def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.FIRE

    harness = WindowHarness(general(TUMBLING, trigger=ByClock(), apply=Contents()))
    harness.feed(Record("a", 1, 1))
    harness.set_processing_time(10)
    harness.feed(Record("a", 2, 2))
    harness.set_processing_time(11)
    assert harness.values() == [("a", [1]), ("a", [1, 2])]
    harness.feed(END)
    assert harness.entries() == {}


def test_a_record_between_windows_belongs_to_none_and_is_late_only_if_it_is_old() -> None:
    harness = WindowHarness(general(SlidingEventTimeWindows(3, 10), apply=Contents(), late_tag="late"))
    harness.feed(Record("a", 1, 5), Watermark(6), Record("a", 2, 6), Record("a", 3, 7), END)
    assert harness.values() == []
    assert harness.values("late") == [2]
    assert harness.late == 1


class Backwards(WindowAssigner[Any, TimeWindow]):
    """Puts a record into a window that ended before it."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Collection[TimeWindow]:
        return [TimeWindow(timestamp - 20, timestamp - 10)]

    def get_default_trigger(self, env: Any = None) -> EventTimeTrigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


def test_a_record_whose_windows_are_all_late_is_late_even_if_it_is_young() -> None:
    harness = WindowHarness(general(Backwards(), apply=Contents()))
    harness.feed(Watermark(15), Record("a", 1, 20), END)
    assert harness.values() == []
    assert harness.late == 1


def test_a_trigger_that_fires_a_window_without_contents_emits_nothing() -> None:
    harness = WindowHarness(general(GlobalWindows(), trigger=PurgingTrigger.of(EventTimeTrigger()), apply=Contents()))
    harness.feed(Record("a", 1))
    harness.operator.timers.event.register("b", GlobalWindow.get(), 7)
    harness.feed(Watermark(7), END)
    assert harness.values() == [("a", [1])]


@pytest.mark.parametrize(
    "functions",
    [{}, {"reduce": as_reduce_function(max), "aggregate": Total()}],
)
def test_a_window_needs_functions_that_fit_together(functions: Any) -> None:
    with pytest.raises(DefinitionError, match="reduce, aggregate and apply"):
        WindowOperator(TUMBLING, **functions)


def test_negative_lateness_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="-1 ms"):
        WindowOperator(TUMBLING, allowed_lateness_ms=-1, aggregate=Total())


def test_a_trigger_that_cannot_merge_is_refused_for_merging_windows() -> None:
    with pytest.raises(DefinitionError, match="NeverTrigger cannot merge"):
        WindowOperator(EventTimeSessionWindows(10), NeverTrigger(), aggregate=Total())


def test_a_function_that_is_no_window_function_is_refused() -> None:
    function = as_map_function(str)
    assert isinstance(function, MapFunction)
    with pytest.raises(TypeMismatchError, match="no window function"):
        WindowHarness(general(TUMBLING, apply=function))
