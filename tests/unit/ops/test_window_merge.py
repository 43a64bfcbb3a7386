from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from flintstream.errors import JobError
from flintstream.model.assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from flintstream.model.functions import as_reduce_function
from flintstream.model.triggers import ContinuousEventTimeTrigger, CountTrigger, EventTimeTrigger, PurgingTrigger
from flintstream.model.window_assigner import MergingWindowAssigner
from flintstream.model.windows import TimeWindow
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_merge import MergingWindows
from flintstream.state.map_table import MapTable
from tests.unit.ops.window_harness import END, Contents, Describe, Record, Total, Watermark, WindowHarness

SESSION = EventTimeSessionWindows(10)
BY_VALUE = DynamicEventTimeSessionWindows(lambda value: value)


def operator(assigner: Any = SESSION, **rest: Any) -> Callable[[], WindowOperator]:
    return lambda: WindowOperator(assigner, **rest)


def test_records_within_the_gap_are_one_session() -> None:
    harness = WindowHarness(operator(apply=Describe()))
    harness.feed(Record("a", 1, 0), Record("a", 2, 9), Record("a", 3, 30), Record("b", 4, 5), Watermark(18))
    assert sorted(harness.values()) == [("a", 0, 19, [1, 2]), ("b", 5, 15, [4])]
    assert harness.entries() == {"#window-contents": 1, "#merging-windows": 1, "#event-timers": 1}
    harness.feed(END)
    assert harness.values()[-1] == ("a", 30, 40, [3])
    assert harness.entries() == {}


def test_sessions_that_touch_are_one() -> None:
    harness = WindowHarness(operator(aggregate=Total(), apply=Describe()))
    harness.feed(Record("a", 1, 0), Record("a", 2, 10), END)
    assert harness.values() == [("a", 0, 20, [(3, 2)])]


@pytest.mark.parametrize("function", [{"reduce": as_reduce_function(lambda a, b: a + b)}, {"aggregate": Total()}, {}])
def test_a_record_between_two_sessions_joins_them(function: Any) -> None:
    harness = WindowHarness(operator(apply=Describe(), **function))
    harness.feed(Record("a", 1, 0), Record("a", 2, 18))
    assert harness.entries()["#window-contents"] == 2
    harness.feed(Record("a", 4, 9))
    assert harness.entries() == {"#window-contents": 1, "#merging-windows": 1, "#event-timers": 1}
    harness.feed(END)
    (value,) = harness.values()
    assert value[:3] == ("a", 0, 28)
    assert value[3] in ([7], [(7, 3)], [1, 2, 4])


def test_contents_stay_where_they_are_while_a_session_grows() -> None:
    harness = WindowHarness(operator(aggregate=Total()))
    harness.feed(Record("a", 1, 0), Record("a", 1, 5), Record("a", 1, 12))
    changes = harness.commit()
    live = [gone is False for gone in changes["window/#merging-windows"].column("gone").to_pylist()]
    windows = changes["window/#merging-windows"].column("part1").filter(live).to_pylist()
    homes = changes["window/#merging-windows"].column("value").filter(live).to_pylist()
    assert (windows, homes) == ([{"start": 0, "end": 22}], [{"start": 0, "end": 10}])


def test_a_window_equal_to_one_in_flight_keeps_its_contents() -> None:
    harness = WindowHarness(operator(BY_VALUE, apply=Contents()))
    harness.feed(Record("a", 10, 0), Record("a", 10, 5), Record("a", 15, 0), END)
    assert harness.values() == [("a", [10, 10, 15])]
    assert harness.entries() == {}


def test_a_window_inside_one_in_flight_changes_nothing_but_the_contents() -> None:
    harness = WindowHarness(operator(BY_VALUE, apply=Describe()))
    harness.feed(Record("a", 20, 0), Record("a", 3, 5), END)
    assert harness.values() == [("a", 0, 20, [20, 3])]
    assert harness.entries() == {}


def test_a_window_inside_one_in_flight_leaves_the_triggers_state_alone() -> None:
    harness = WindowHarness(operator(BY_VALUE, trigger=CountTrigger(3), apply=Contents()))
    harness.feed(Record("a", 20, 0), Record("a", 3, 5), Record("a", 4, 6))
    assert harness.values() == [("a", [20, 3, 4])]


def test_merged_windows_leave_no_timers_behind() -> None:
    harness = WindowHarness(operator(apply=Contents(), allowed_lateness_ms=50))
    harness.feed(Record("a", 1, 0), Record("a", 2, 18), Record("a", 4, 9))
    assert harness.entries()["#event-timers"] == 2


def test_a_late_session_is_late_unless_it_merges_with_one_that_is_not() -> None:
    harness = WindowHarness(operator(apply=Describe(), late_tag="late"))
    harness.feed(Record("a", 1, 20), Watermark(25), Record("a", 2, 5), Record("a", 3, 12), END)
    assert harness.values("late") == [2]
    assert harness.values() == [("a", 12, 30, [1, 3])]
    assert harness.late == 1
    assert harness.entries() == {}


def test_a_session_that_has_fired_grows_within_allowed_lateness() -> None:
    harness = WindowHarness(operator(apply=Describe(), allowed_lateness_ms=20))
    harness.feed(Record("a", 1, 0), Watermark(15), Record("a", 2, 4), Record("a", 3, 10), END)
    assert harness.values() == [("a", 0, 10, [1]), ("a", 0, 14, [1, 2]), ("a", 0, 20, [1, 2, 3])]
    assert [e.timestamp for e in harness.emitted] == [9, 13, 19]
    assert harness.entries() == {}


def test_merging_adds_up_the_counts_of_a_count_trigger() -> None:
    harness = WindowHarness(operator(trigger=CountTrigger(4), apply=Describe()))
    harness.feed(Record("a", 1, 0), Record("a", 2, 1), Record("a", 3, 18))
    assert harness.values() == []
    harness.feed(Record("a", 4, 9))
    assert harness.values() == [("a", 0, 28, [1, 2, 3, 4])]
    harness.feed(END)
    assert harness.entries() == {}


def test_merging_keeps_the_next_time_of_a_continuous_trigger() -> None:
    harness = WindowHarness(operator(trigger=ContinuousEventTimeTrigger(4), apply=Contents()))
    harness.feed(Record("a", 1, 1), Record("a", 2, 6), Watermark(4), Watermark(8), Record("a", 3, 9), END)
    assert harness.values() == [("a", [1, 2]), ("a", [1, 2]), *[("a", [1, 2, 3])] * 3]
    assert [e.stamp[3] for e in harness.emitted] == [4, 8, 12, 16, 18]
    assert harness.entries() == {}


def test_a_purged_session_can_be_merged() -> None:
    harness = WindowHarness(operator(trigger=PurgingTrigger.of(CountTrigger(2)), aggregate=Total()))
    harness.feed(Record("a", 1, 0), Record("a", 2, 1), Record("a", 4, 5), Record("a", 8, 30), END)
    assert harness.values() == [(3, 2)]
    assert harness.entries() == {}


def test_sessions_in_processing_time() -> None:
    harness = WindowHarness(operator(ProcessingTimeSessionWindows(10), apply=Contents()))
    harness.set_processing_time(0)
    harness.feed(Record("a", 1))
    harness.set_processing_time(5)
    harness.feed(Record("a", 2))
    assert harness.set_processing_time(14) == []
    (fired,) = harness.set_processing_time(15)
    assert (fired.value, fired.timestamp) == (("a", [1, 2]), 14)
    assert harness.entries() == {}


def test_sessions_go_on_after_a_restart() -> None:
    harness = WindowHarness(operator(aggregate=Total(), apply=Describe()))
    harness.feed(Record("a", 1, 0), Record("a", 2, 8), Record("a", 3, 30))
    harness.restart()
    harness.feed(Record("a", 4, 15))
    harness.restart()
    harness.feed(Record("a", 5, 20), END)
    assert harness.values() == [("a", 0, 40, [(15, 5)])]
    assert harness.entries() == {}


def test_a_timer_that_a_trigger_left_behind_is_ignored() -> None:
    class Forgetful(EventTimeTrigger):
        def clear(self, window: Any, ctx: Any) -> None:
            """Leave the timer where it is."""

    harness = WindowHarness(operator(trigger=Forgetful(), apply=Contents(), allowed_lateness_ms=1))
    harness.feed(Record("a", 1, 0), Record("a", 2, 5))
    assert harness.feed(Watermark(12)) == []
    harness.feed(END)
    assert harness.values() == [("a", [1, 2])]
    assert harness.entries() == {}


class Shrinking(MergingWindowAssigner[Any, TimeWindow]):
    """Merges everything into a window that has been over for long."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Collection[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + 10)]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        if len(list(windows)) > 1:
            callback.merge(windows, TimeWindow(-10, 0))

    def get_default_trigger(self, env: Any = None) -> EventTimeTrigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


def test_an_assigner_that_merges_windows_into_the_past_is_an_error() -> None:
    harness = WindowHarness(operator(Shrinking(), apply=Contents()))
    with pytest.raises(JobError, match=r"TimeWindow\(start=-10, end=0\), which is over; operator 'the window'"):
        harness.feed(Watermark(0), Record("a", 1, 5), Record("a", 1, 6))


def test_the_set_reports_who_replaces_whom() -> None:
    table, merges = MapTable("windows"), []
    windows = MergingWindows(SESSION, table, lambda *merge: merges.append(merge))
    first, second = TimeWindow(0, 10), TimeWindow(18, 28)
    assert windows.add("k", first) == first
    assert windows.add("k", second) == second
    assert windows.add("other", TimeWindow(9, 19)) == TimeWindow(9, 19)
    assert merges == []
    joined = windows.add("k", TimeWindow(9, 19))
    assert joined == TimeWindow(0, 28)
    assert merges == [(joined, [first, second], first, [second])]
    assert windows.state_window("k", joined) == first
    assert windows.state_window("k", first) is None
    windows.retire("k", joined)
    windows.retire("other", TimeWindow(9, 19))
    assert len(table) == 0
