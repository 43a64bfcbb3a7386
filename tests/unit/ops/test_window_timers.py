from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.windows import TimeWindow
from flintstream.ops.window_timers import WindowTimers, in_timer_order
from flintstream.state.timers import NEVER, TimerTable, order_of

KEYS = ["a", "b", "c"]
timers = st.tuples(st.sampled_from(KEYS), st.integers(0, 2), st.integers(0, 3))
actions = st.lists(
    st.one_of(
        st.tuples(st.just("register"), timers),
        st.tuples(st.just("unregister"), timers),
        st.tuples(st.just("pop"), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=30,
)


def window(number: int) -> TimeWindow:
    return TimeWindow(number, number + 10)


class Log:
    """A table with the changelogs it has written."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.table: TimerTable = kind("timers")
        self.changes: list[Any] = []

    def commit(self) -> None:
        batch = self.table.delta(16)
        self.table.mark_clean()
        if batch is not None:
            self.changes.append(batch)

    def restore(self) -> None:
        self.commit()
        self.table = self.kind("timers")
        for batch in self.changes:
            self.table.apply(batch)

    def due(self) -> list[Any]:
        """Drain a copy and return all timers as a set would."""
        copy = self.kind("timers")
        snapshot = self.table.snapshot(16)
        if snapshot is not None:
            copy.apply(snapshot)
        popped: list[Any] = []
        while (timer := copy.pop_due(MAX_TIMESTAMP)) is not None:
            popped.append(timer)
        return sorted(popped, key=repr)


@settings(deadline=None)
@given(actions)
def test_it_holds_the_same_timers_as_a_timer_table(script: list[Any]) -> None:
    logs = [Log(WindowTimers), Log(TimerTable)]
    for action, argument in script:
        for log in logs:
            if action == "register":
                log.table.register(argument[0], window(argument[1]), argument[2])
            elif action == "unregister":
                log.table.unregister(argument[0], window(argument[1]), argument[2])
            elif action == "pop":
                while log.table.pop_due(argument) is not None:
                    pass
            elif action == "commit":
                log.commit()
            else:
                log.restore()
        ours, reference = logs
        assert ours.table.due == reference.table.due
        assert len(ours.table) == len(reference.table)
    assert logs[0].due() == logs[1].due()


@settings(deadline=None)
@given(actions)
def test_a_timer_table_reads_its_changelogs_and_it_reads_a_timer_tables(script: list[Any]) -> None:
    for writer, reader in ((WindowTimers, TimerTable), (TimerTable, WindowTimers)):
        log = Log(writer)
        for action, argument in script:
            if action in ("register", "unregister"):
                getattr(log.table, action)(argument[0], window(argument[1]), argument[2])
            elif action == "pop":
                log.table.pop_due(argument)
            elif action == "commit":
                log.commit()
        log.commit()
        expected = log.due()
        log.kind = reader
        log.restore()
        assert log.due() == expected


def test_groups_of_one_time_come_in_the_order_of_their_windows_whatever_came_first() -> None:
    table = WindowTimers("timers")
    for number in (2, 0, 1):
        table.register("a", window(number), 7)
    table.register("b", window(1), 7)
    table.register("a", window(9), 5)
    popped = [table.pop_group() for _ in range(4)]
    assert [(group.time, group.window.start, sorted(group)) for group in popped] == [
        (5, 9, ["a"]),
        (7, 0, ["a"]),
        (7, 1, ["a", "b"]),
        (7, 2, ["a"]),
    ]
    assert table.due == NEVER
    assert len(table) == 0


def test_clearing_forgets_everything() -> None:
    table = WindowTimers("timers")
    table.register("a", window(0), 5)
    table.mark_clean()
    table.unregister("a", window(0), 5)
    table.register("b", window(0), 5)
    table.clear()
    assert (len(table), table.due, table.delta(16), table.snapshot(16)) == (0, NEVER, None, None)


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers())), unique=True, max_size=80))
def test_keys_are_ordered_as_timers_are_however_many_there_are(keys: list[Any]) -> None:
    ordered, places = in_timer_order(keys)
    assert places.tolist() == sorted(order_of(key) for key in keys)
    assert [order_of(key) for key in ordered] == places.tolist()
    assert sorted(map(repr, ordered)) == sorted(map(repr, keys))
