"""Triggers in the window operator: Flink's less common ones, timers that must stay, timers that must go, panes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from flintstream import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    Trigger,
    TriggerResult,
    after_count,
    after_watermark,
    each,
    every,
)
from flintstream.errors import DefinitionError, InvalidArgumentError, UnsupportedError
from flintstream.model.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from flintstream.model.evictors import DeltaFunction
from flintstream.model.panes import PaneMode, Panes
from flintstream.model.tags import OutputTag
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_evict import EvictingWindowOperator
from tests.unit.ops.window_harness import END, Contents, Record, Total, Watermark, WindowHarness

TUMBLING, GLOBAL, SESSION = TumblingEventTimeWindows(10), GlobalWindows(), EventTimeSessionWindows(5)


def windows(
    assigner: Any, trigger: Any = None, panes: Panes | None = None, apply: Any = None
) -> Callable[[], WindowOperator]:
    def build() -> WindowOperator:
        operator = WindowOperator(assigner, trigger, apply=apply or Contents())
        operator.panes = panes
        return operator

    return build


class Distance(DeltaFunction):
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        return abs(old_data_point - new_data_point)


@pytest.mark.parametrize("measure", [Distance(), lambda old, new: abs(old - new)])
def test_delta_fires_for_a_record_that_is_farther_than_the_threshold(measure: Any) -> None:
    harness = WindowHarness(windows(GLOBAL, PurgingTrigger.of(DeltaTrigger.of(10, measure))))
    harness.feed(*(Record("a", value) for value in (50, 58, 60, 61, 70, 49)))
    assert harness.values() == [("a", [50, 58, 60, 61]), ("a", [70, 49])]


def test_delta_leaves_nothing_behind() -> None:
    harness = WindowHarness(windows(TUMBLING, DeltaTrigger.of(1, Distance())))
    harness.feed(Record("a", 1, 1), Record("a", 9, 2), Watermark(9))
    assert harness.values() == [("a", [1, 9])]
    assert harness.entries() == {}


def test_timeout_fires_when_the_other_trigger_does_not() -> None:
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger(3), "5ms"))
    harness = WindowHarness(windows(GLOBAL, trigger))
    harness.set_processing_time(10)
    harness.feed(Record("a", 1), Record("a", 2))
    harness.set_processing_time(14)
    harness.feed(Record("b", 3), Record("b", 4), Record("b", 5))
    assert harness.values() == [("b", [3, 4, 5])]
    harness.set_processing_time(15)
    harness.set_processing_time(16)
    assert harness.values()[1:] == [("a", [1, 2])]
    assert harness.entries() == {}


def test_timeout_can_be_counted_from_the_last_record() -> None:
    fired: list[int] = []
    for reset in (False, True):
        harness = WindowHarness(windows(GLOBAL, ProcessingTimeoutTrigger.of(CountTrigger(9), 5, reset)))
        for now in (10, 13):
            harness.set_processing_time(now)
            harness.feed(Record("a", now))
        fired.append(next(now for now in range(14, 30) if harness.set_processing_time(now)))
    assert fired == [16, 19]


def test_timeout_clears_the_other_trigger_unless_told_not_to() -> None:
    results: list[list[Any]] = []
    for clear in (True, False):
        harness = WindowHarness(windows(GLOBAL, ProcessingTimeoutTrigger.of(CountTrigger(3), 5, False, clear)))
        harness.feed(Record("a", 1), Record("a", 2))
        harness.set_processing_time(20)
        harness.feed(Record("a", 3))
        results.append(harness.values())
    assert results == [[("a", [1, 2])], [("a", [1, 2]), ("a", [1, 2, 3])]]


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"timeout of 0 ms; test_window_triggers.py:\d+; give 1 ms or more"):
        ProcessingTimeoutTrigger.of(CountTrigger(3), 0)


def test_the_end_of_the_input_fires_what_waits_for_it() -> None:
    harness = WindowHarness(windows(GlobalWindows.create_with_end_of_stream_trigger()))
    harness.feed(Record("a", 1, 1), Watermark(10**9), Record("a", 2, 2))
    assert harness.values() == []
    harness.feed(END)
    assert harness.values() == [("a", [1, 2])]


@pytest.mark.parametrize("assigner", [TUMBLING, SESSION])
def test_a_window_that_goes_before_the_end_takes_its_timer_along(assigner: Any) -> None:
    harness = WindowHarness(windows(assigner, EndOfStreamTrigger.create()))
    harness.feed(Record("a", 1, 1), Record("a", 2, 4), Watermark(50))
    assert (harness.values(), harness.entries()) == ([], {})


class Hasty(EventTimeTrigger):
    """Deletes the timer at the end of the window whenever the clock strikes."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_processing_time_timer(5)
        return super().on_element(element, timestamp, window, ctx)

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        self.clear(window, ctx)
        return TriggerResult.CONTINUE


@pytest.mark.parametrize("trigger", [Hasty(), every("4ms") | after_watermark()])
def test_no_trigger_can_delete_the_timer_that_cleans_up(trigger: Trigger[Any, Any]) -> None:
    harness = WindowHarness(windows(TUMBLING, trigger))
    harness.feed(Record("a", 1, 1))
    harness.set_processing_time(20)
    harness.feed(Watermark(9))
    assert harness.entries() == {}


@pytest.mark.parametrize(
    "trigger", [ContinuousProcessingTimeTrigger(7), ContinuousEventTimeTrigger(3), every("7ms"), each() & every("7ms")]
)
def test_windows_that_merge_leave_no_timers_behind(trigger: Trigger[Any, Any]) -> None:
    harness = WindowHarness(windows(SESSION, trigger))
    harness.feed(Record("a", 1, 1), Record("a", 2, 9), Record("a", 3, 5))
    timers = sum(rows for name, rows in harness.entries().items() if name.endswith("timers"))
    assert timers <= 3  # the window's end, and one or two of the trigger's
    harness.feed(Watermark(50))
    assert harness.entries() == {}


class Told(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.pane().number, list(elements)
        yield OutputTag("side"), key


def test_a_function_that_asks_for_its_pane_needs_them_declared() -> None:
    harness = WindowHarness(windows(TUMBLING, apply=Told()))
    with pytest.raises(UnsupportedError, match=r"operator 'the window'; call accumulating\(\)"):
        harness.feed(Record("a", 1, 1), END)


@pytest.mark.parametrize("mode", list(PaneMode))
def test_side_outputs_are_neither_wrapped_nor_taken_back(mode: PaneMode) -> None:
    harness = WindowHarness(windows(TUMBLING, after_count(1), Panes(mode, shown=True), apply=Told()))
    harness.feed(Record("a", 1, 1), Record("a", 2, 2))
    assert harness.values("side") == ["a", "a"]
    assert len(harness.values()) == (3 if mode is PaneMode.RETRACTING else 2)


def test_panes_of_windows_with_an_evictor() -> None:
    def build() -> WindowOperator:
        operator = EvictingWindowOperator(TUMBLING, after_count(2), CountEvictor.of(1), aggregate=Total())
        operator.panes = Panes(PaneMode.RETRACTING, shown=True)
        return operator

    harness = WindowHarness(build)
    harness.feed(*(Record("a", value, value) for value in (1, 2, 3, 4)), END)
    # One of the first two was evicted for good; then one of the three that were left with the next two.
    assert [(p.value, p.info.is_retraction, p.info.number) for p in harness.values()] == [
        ((2, 1), False, 0),
        ((2, 1), True, 0),
        ((4, 1), False, 1),
    ]
    assert harness.entries() == {}


def test_an_expression_with_a_part_that_cannot_merge_is_refused_for_sessions() -> None:
    with pytest.raises(DefinitionError, match="AnyOf cannot merge, but windows of EventTimeSessionWindows do"):
        WindowOperator(SESSION, each() | DeltaTrigger.of(1, Distance()), aggregate=Total())
