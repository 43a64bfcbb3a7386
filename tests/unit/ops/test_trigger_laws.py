"""Properties of all triggers of the algebra, on random expressions, assigners and scripts.

After the last window of a key has closed, nothing of it is left; cuts and restarts are invisible; panes are numbered
without gaps; what is emitted less what is taken back is what the window held in the end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    after,
    after_count,
    after_watermark,
    each,
    every,
    never,
    on,
)
from flintstream.model.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.model.functions_window import WindowFunction
from flintstream.model.panes import Pane, PaneMode, Panes, PaneTiming
from flintstream.ops.window import WindowOperator
from tests.unit.ops.window_harness import END, Record, Watermark, WindowHarness


def is_odd(value: int) -> bool:
    return value % 2 == 1


FLINKS = st.sampled_from(
    [
        EventTimeTrigger(),
        ProcessingTimeTrigger(),
        CountTrigger(2),
        ContinuousEventTimeTrigger(3),
        ContinuousProcessingTimeTrigger(3),
        PurgingTrigger.of(CountTrigger(3)),
    ]
)
TERMS = st.one_of(
    st.builds(after_count, st.integers(1, 4)),
    st.builds(every, st.integers(1, 9), st.booleans()),
    st.builds(after, st.integers(1, 9)),
    st.sampled_from([each(), never(), on(is_odd), after_watermark()]),
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    part = st.one_of(inner, FLINKS)
    return st.one_of(
        st.builds(lambda a, b: a | b, inner, part),
        st.builds(lambda a, b: b & a, inner, part),
        st.builds(lambda a, b: a.then(b), inner, part),
        st.builds(lambda a: a.repeat(), inner),
        st.builds(after_watermark, st.none() | part, st.none() | part),
    )


TRIGGERS = st.one_of(st.recursive(TERMS, combined, max_leaves=6), FLINKS)
ASSIGNERS = st.sampled_from(
    [
        TumblingEventTimeWindows(10),
        SlidingEventTimeWindows(9, 4),
        EventTimeSessionWindows(5),
        TumblingProcessingTimeWindows(10),
        ProcessingTimeSessionWindows(6),
    ]
)
STEPS = st.one_of(
    st.builds(Record, st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 40)),
    st.builds(Record, st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 40)),
    st.builds(Watermark, st.integers(0, 45)),
    st.integers(1, 9),
)
SCRIPTS = st.lists(STEPS, max_size=25)
MODES = st.sampled_from(list(PaneMode))


class AsTuple(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, tuple(inputs)


def harness_of(assigner: Any, trigger: Any, lateness: int, mode: PaneMode | None) -> WindowHarness:
    def build() -> WindowOperator:
        operator = WindowOperator(assigner, trigger, lateness, apply=AsTuple())
        operator.panes = None if mode is None else Panes(mode, shown=True)
        return operator

    return WindowHarness(build)


def play(harness: WindowHarness, script: list[Any], restarts: bool = False, only: Any = None) -> WindowHarness:
    """Play a script, in which a number lets so much processing time pass, to the end of both clocks.

    With `only`, an assigner, only the clock of its windows goes to its end: whoever relies on the other leaves traces.
    """
    now = 0
    for step in script:
        if isinstance(step, int):
            now += step
            harness.set_processing_time(now)
        else:
            harness.feed(step)
        if restarts:
            harness.restart()
    if only is None or only.is_event_time():
        harness.feed(END)
    if only is None or not only.is_event_time():
        harness.set_processing_time(now + 1000)
    return harness


@settings(max_examples=300, deadline=None)
@given(ASSIGNERS, TRIGGERS, st.sampled_from([0, 0, 7]), st.none() | MODES, SCRIPTS)
def test_nothing_is_left_when_the_last_window_has_closed(
    assigner: Any, trigger: Any, lateness: int, mode: PaneMode | None, script: list[Any]
) -> None:
    assert play(harness_of(assigner, trigger, lateness, mode), script, only=assigner).entries() == {}


@settings(max_examples=150, deadline=None)
@given(ASSIGNERS, TRIGGERS, st.sampled_from([0, 7]), MODES, SCRIPTS)
def test_restarts_are_invisible(assigner: Any, trigger: Any, lateness: int, mode: PaneMode, script: list[Any]) -> None:
    whole = play(harness_of(assigner, trigger, lateness, mode), script)
    assert play(harness_of(assigner, trigger, lateness, mode), script, restarts=True).emitted == whole.emitted


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([TumblingEventTimeWindows(10), SlidingEventTimeWindows(9, 4)]), TRIGGERS, MODES, SCRIPTS)
def test_panes_of_a_window_are_numbered_and_in_order(
    assigner: Any, trigger: Any, mode: PaneMode, script: list[Any]
) -> None:
    panes: dict[Any, list[Pane[Any]]] = defaultdict(list)
    for pane in play(harness_of(assigner, trigger, 7, mode), script).values():
        if not pane.info.is_retraction:
            panes[pane.value[0], pane.window].append(pane)
    order = list(PaneTiming)
    for mine in panes.values():
        assert [pane.info.number for pane in mine] == list(range(len(mine)))
        timings = [order.index(pane.info.timing) for pane in mine]
        assert timings == sorted(timings)
        assert timings.count(order.index(PaneTiming.ON_TIME)) <= 1
        assert not any(pane.info.last for pane in mine[:-1])


@settings(max_examples=150, deadline=None)
@given(ASSIGNERS, st.recursive(TERMS, combined, max_leaves=4), SCRIPTS)
def test_at_most_one_result_of_a_window_stands_when_results_are_taken_back(
    assigner: Any, trigger: Any, script: list[Any]
) -> None:
    standing: list[Pane[Any]] = []
    purged = "Purging" in repr(trigger)
    for pane in play(harness_of(assigner, trigger, 7, PaneMode.RETRACTING), script).values():
        same = [one for one in standing if (one.value, one.window) == (pane.value, pane.window)]
        if pane.info.is_retraction:
            standing.remove(same[0])
        else:
            standing.append(pane)
            windows = [one.window for one in standing if one.value[0] == pane.value[0]]
            assert purged or len(windows) == len(set(windows))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([TumblingEventTimeWindows(10), EventTimeSessionWindows(5)]), TERMS, SCRIPTS)
def test_no_record_is_lost_or_doubled(assigner: Any, early: Any, script: list[Any]) -> None:
    """In = shown in exactly one pane + late, where panes are discarded and late records fire."""
    harness = play(harness_of(assigner, after_watermark(early=early), 7, PaneMode.DISCARDING), script)
    shown = [value for pane in harness.values() for value in pane.value[1]]
    assert len(shown) + harness.late == sum(isinstance(step, Record) for step in script)
