"""Windows that the data cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.assigners_data import DataWindows, DeltaWindows, UntilWindows
from flintstream.model.evictors import CountEvictor
from flintstream.model.functions import as_reduce_function
from flintstream.model.functions_window import ProcessWindowFunction
from flintstream.model.panes import PaneInfo, PaneMode, Panes, PaneTiming
from flintstream.model.state import ValueStateDescriptor
from flintstream.model.triggers import CountTrigger
from flintstream.ops.window_data import DataWindowOperator, EvictingDataWindowOperator
from tests.unit.ops.window_harness import END, Contents, Record, Total, WindowHarness, play
from tests.unit.values import law

DELTA = DeltaWindows.of(10, lambda speed: speed)
LOGOUT = UntilWindows.of(lambda value: value == 0)
RECORDS = st.lists(st.builds(Record, st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 50)), max_size=30)


def operator(assigner: Any, trigger: Any = None, **rest: Any) -> Callable[[], DataWindowOperator]:
    return lambda: DataWindowOperator(assigner, trigger, **rest)


def fed(assigner: Any, *values: int, trigger: Any = None, **rest: Any) -> WindowHarness:
    harness = WindowHarness(operator(assigner, trigger, **(rest or {"apply": Contents()})))
    harness.feed(*(Record("a", value, 100 + index) for index, value in enumerate(values)))
    return harness


def test_a_window_ends_before_the_record_that_has_changed_too_much() -> None:
    harness = fed(DELTA, 50, 60, 45, 61, 72, 70)
    assert harness.values() == [("a", [50, 60, 45]), ("a", [61])]
    assert [emission.timestamp for emission in harness.emitted] == [103, 104]
    harness.feed(END)
    assert harness.values()[2:] == [("a", [72, 70])]
    assert harness.entries() == {}


def test_a_window_ends_with_the_record_that_ends_it_and_leaves_nothing() -> None:
    harness = fed(LOGOUT, 1, 2, 0)
    assert harness.values() == [("a", [1, 2, 0])]
    assert harness.entries() == {}
    harness.feed(Record("a", 0, 7))
    assert harness.values()[1:] == [("a", [0])]
    assert harness.entries() == {}


def test_a_record_can_both_end_a_window_and_be_one() -> None:
    class Alone(DataWindows[int]):
        """A zero is a window of its own."""

        def begins_window(self, element: int, mark: Any) -> bool:
            assert mark is None
            return element == 0

        def ends_window(self, element: int) -> bool:
            return element == 0

    harness = fed(Alone(), 1, 2, 0, 3)
    assert harness.values() == [("a", [1, 2]), ("a", [0])]
    assert len({emission.stamp for emission in harness.emitted}) == 2
    harness.feed(END)
    assert harness.values()[2:] == [("a", [3])]


def test_a_trigger_gives_results_in_between_and_an_evictor_takes_away() -> None:
    assert fed(LOGOUT, 1, 2, 3, 0, trigger=CountTrigger(2)).values() == [
        ("a", [1, 2]),
        ("a", [1, 2, 3, 0]),
        ("a", [1, 2, 3, 0]),
    ]
    harness = WindowHarness(
        lambda: EvictingDataWindowOperator(LOGOUT, None, CountEvictor(2), aggregate=Total(), apply=Contents())
    )
    harness.feed(*(Record("a", value, 1) for value in (5, 6, 7, 0)))
    assert harness.values() == [("a", [(7, 2)])]
    assert harness.entries() == {}


def test_state_of_a_window_is_cleared_when_it_ends() -> None:
    class Fired(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            fired = context.window_state().get_state(ValueStateDescriptor("fired"))
            fired.update((fired.value() or 0) + 1)
            yield fired.value()

        def clear(self, context: Any) -> None:
            context.window_state().get_state(ValueStateDescriptor("fired")).clear()

    harness = fed(LOGOUT, 1, 0, 2, 0, trigger=CountTrigger(1), apply=Fired())
    assert harness.values() == [1, 2, 3, 1, 2, 3]
    assert harness.entries() == {}


def test_the_pane_of_a_window_that_ends_is_its_last_and_on_time() -> None:
    def build() -> DataWindowOperator:
        operator = DataWindowOperator(LOGOUT, CountTrigger(2), reduce=as_reduce_function(max))
        operator.panes = Panes(PaneMode.ACCUMULATING, shown=True)
        return operator

    harness = WindowHarness(build)
    harness.feed(*(Record("a", value, 1) for value in (1, 2, 0)))
    assert [(pane.value, pane.info) for pane in harness.values()] == [
        (2, PaneInfo(PaneTiming.EARLY, 0)),
        (2, PaneInfo(PaneTiming.ON_TIME, 1, last=True)),
    ]
    assert harness.entries() == {}


def cut(values: list[int]) -> list[list[int]]:
    windows: list[list[int]] = []
    for value in values:
        if not windows or abs(value - windows[-1][0]) > 10:
            windows.append([])
        windows[-1].append(value)
    return windows


@law
@given(RECORDS, st.lists(st.integers(0, 30), max_size=4), st.lists(st.integers(1, 30), max_size=3))
def test_every_record_is_in_one_window_however_the_input_is_cut(
    records: list[Record], cuts: list[int], restarts: list[int]
) -> None:
    script = [*records, END]
    places = range(len(script))
    build = operator(DELTA, apply=Contents())
    harness = play(build, script, [c for c in cuts if c in places], [r for r in restarts if r in places])
    for key in "ab":
        mine = [record.value for record in records if record.key == key]
        assert [elements for found, elements in harness.values() if found == key] == cut(mine)
    assert harness.entries() == {}
    assert harness.emitted == play(build, script).emitted


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"threshold of -1; test_window_data.py:\d+; give 0 or more"):
        DeltaWindows.of(-1, lambda value: value)
    with pytest.raises(TypeMismatchError, match=r"'speed' is not a function; test_window_data.py:\d+; pass one"):
        DeltaWindows.of(1, "speed")  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="None is not a function"):
        UntilWindows.of(None)  # type: ignore[arg-type]
    assert not DELTA.is_event_time()
