"""Timers of one partition, against a set that is sorted whenever someone asks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.model.windows import CountWindow, TimeWindow
from flintstream.state.timers import NEVER, TimerTable, order_of
from tests.unit.values import LAW, law

KEYS = ["a", "b", 1, 2.5, None, ("a", 1)]
NAMESPACES = [None, TimeWindow(0, 10), TimeWindow(5, 10), TimeWindow(5, 15)]
TIMERS = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(NAMESPACES),
    st.integers(-5, 20) | st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP]),
)


def place(timer: tuple[Any, Any, int]) -> tuple[Any, ...]:
    """Where a timer stands: by time, then by the hash of its key, then by its window."""
    key, namespace, time = timer
    return time, order_of(key), (0, 0) if namespace is None else (namespace.start, namespace.end)


def popped(table: TimerTable, until: int) -> list[tuple[Any, Any, int]]:
    timers: list[tuple[Any, Any, int]] = []
    while (due := table.pop_due(until)) is not None:
        assert due[3] == order_of(due[0])
        timers.append(due[:3])
    return timers


def restored(table: TimerTable, *, through_snapshot: bool) -> TimerTable:
    batch = table.snapshot(16) if through_snapshot else table.delta(16)
    other = TimerTable("other")
    if batch is not None:
        other.apply(batch)
    return other


class Timers(RuleBasedStateMachine):
    """Registers, deletes, fires and restarts in any order."""

    timers: Bundle[Any] = Bundle("timers")

    def __init__(self) -> None:
        super().__init__()
        self.table = TimerTable("timers")
        self.model: set[Any] = set()
        self.committed = TimerTable("committed")

    @rule(target=timers, timer=TIMERS)
    def register(self, timer: Any) -> Any:
        self.table.register(*timer)
        self.model.add(timer)
        return timer

    @rule(timer=timers)
    def register_again(self, timer: Any) -> None:
        self.table.register(*timer)
        self.model.add(timer)

    @rule(timer=timers | TIMERS)
    def delete(self, timer: Any) -> None:
        self.table.unregister(*timer)
        self.model.discard(timer)

    @rule(until=st.integers(-6, 21))
    def advance(self, until: int) -> None:
        wanted = sorted((timer for timer in self.model if timer[2] <= until), key=place)
        assert popped(self.table, until) == wanted
        self.model -= set(wanted)

    @rule()
    def commit_and_restart(self) -> None:
        batch = self.table.delta(16)
        if batch is not None:
            self.committed.apply(batch)
        self.table = restored(self.committed, through_snapshot=True)

    @invariant()
    def the_earliest_time_is_known(self) -> None:
        assert self.table.due == min((time for _, _, time in self.model), default=NEVER)
        assert len(self.table) == len(self.model)


TestTimers = Timers.TestCase
TestTimers.settings = LAW


@law
@given(st.lists(TIMERS, max_size=20))
def test_a_timer_set_twice_fires_once_and_all_fire_in_order(timers: list[Any]) -> None:
    table = TimerTable("timers")
    for timer in timers * 2:
        table.register(*timer)
    assert popped(table, MAX_TIMESTAMP) == sorted(set(timers), key=place)
    assert table.due == NEVER
    assert len(table) == 0


@law
@given(st.lists(TIMERS, max_size=20), st.booleans())
def test_a_restart_changes_no_order(timers: list[Any], through_snapshot: bool) -> None:
    table = TimerTable("timers")
    for timer in timers:
        table.register(*timer)
    other = restored(table, through_snapshot=through_snapshot)
    assert other.due == table.due
    assert popped(other, MAX_TIMESTAMP) == popped(table, MAX_TIMESTAMP)


def test_a_timer_at_the_end_of_time_fires_with_the_last_watermark() -> None:
    table = TimerTable("timers")
    table.register("a", None, MAX_TIMESTAMP)
    assert popped(table, MAX_TIMESTAMP - 1) == []
    assert popped(table, MAX_TIMESTAMP) == [("a", None, MAX_TIMESTAMP)]


def test_timers_of_other_namespaces_are_others() -> None:
    table = TimerTable("timers")
    for namespace in (None, CountWindow(1), CountWindow(2)):
        table.register("a", namespace, 5)
    table.unregister("a", CountWindow(1), 5)
    assert {namespace for _, namespace, _ in popped(table, 5)} == {None, CountWindow(2)}


def test_what_fired_or_was_deleted_is_gone_from_the_changelog() -> None:
    table = TimerTable("timers")
    table.register("fired", None, 1)
    table.register("deleted", None, 2)
    table.register("kept", None, 3)
    first = table.delta(16)
    table.mark_clean()
    assert table.delta(16) is None
    popped(table, 1)
    table.unregister("deleted", None, 2)
    second = table.delta(16)
    other = TimerTable("other")
    for batch in (first, second):
        assert batch is not None
        other.apply(batch)
    assert popped(other, 9) == [("kept", None, 3)]


def test_a_cleared_table_has_no_timers() -> None:
    table = TimerTable("timers")
    table.register("a", None, 1)
    table.clear()
    assert (table.due, len(table), popped(table, MAX_TIMESTAMP)) == (NEVER, 0, [])


def test_a_timer_that_is_moved_on_and_on_leaves_no_trail():
    table = TimerTable("moved")
    for key in range(10):
        table.register(key, None, 500)
    for time in range(1000, 11_000):
        table.register("a", None, time)
        table.unregister("a", None, time - 1)
    assert len(table._heap) < 200
    assert popped(table, 20_000) == [*sorted(((key, None, 500) for key in range(10)), key=place), ("a", None, 10_999)]
