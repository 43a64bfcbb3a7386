"""Timers that nobody waits for hold the same rows as others do, and go all at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.cep import CEP, Pattern
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.ops.cep_timers import ExpiryTimers
from flintstream.state.timers import NEVER, TimerTable
from flintstream.testing import PipelineHarness

WINDOW = 5_000  # a stretch is 4 ms then
KEYS = st.sampled_from(["a", "b", "c", "d"])
TIMES = st.integers(-9, 20)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("register"), KEYS, TIMES),
        st.tuples(st.just("unregister"), KEYS, st.none()),
        st.tuples(st.just("sweep"), st.none(), TIMES),
        st.tuples(st.sampled_from(["commit", "restart"]), st.none(), st.none()),
    ),
    max_size=30,
)


def new_timers() -> ExpiryTimers:
    return ExpiryTimers("timers", WINDOW)


class Log:
    """Timers with the changelogs that they have written."""

    def __init__(self) -> None:
        self.table, self.changes = new_timers(), list[Any]()

    def commit(self) -> None:
        batch = self.table.delta(16)
        self.table.mark_clean()
        self.changes += [] if batch is None else [batch]

    def read_by(self, table: Any) -> Any:
        for batch in self.changes:
            table.apply(batch)
        return table


def rows(table: Any) -> list[Any]:
    """Return the timers of a table, by way of a snapshot that any table of timers reads."""
    snapshot, copy = table.snapshot(16), TimerTable("copy")
    if snapshot is not None:
        copy.apply(snapshot)
    return sorted((key, time) for key, _, time in copy.data)


@settings(max_examples=300, deadline=None)
@given(ACTIONS)
def test_they_are_a_dict_that_forgets_what_is_over(script: list[Any]) -> None:
    log, model = Log(), dict[str, int]()
    for action, key, time in script:
        if action == "register" and key not in model:
            log.table.register(key, None, time)
            model[key] = time
        elif action == "unregister" and key in model:
            log.table.unregister(key, None, model.pop(key))
        elif action == "sweep":
            over = sorted(each for each, due in model.items() if due <= time)
            assert sorted(log.table.sweep(time)) == over
            model = {each: due for each, due in model.items() if due > time}
        elif action in ("commit", "restart"):
            log.commit()
            if action == "restart":
                log.table = log.read_by(new_timers())
        assert rows(log.table) == sorted(model.items())
        assert (len(log.table), log.table.due) == (len(model), NEVER)
    log.commit()
    assert rows(log.read_by(TimerTable("other"))) == rows(log.read_by(new_timers())) == sorted(model.items())


def test_a_timer_set_before_the_one_found_by_a_record_was_swept_stays() -> None:
    log = Log()
    log.table.register("a", None, 4)
    log.commit()
    log.table.register("a", None, 6)
    assert log.table.sweep(5) == ["a"]
    log.commit()
    assert rows(log.table) == rows(log.read_by(new_timers())) == [("a", 6)]


def test_a_timer_at_the_end_of_time_goes_with_the_last_watermark() -> None:
    table = new_timers()
    table.register("a", None, MAX_TIMESTAMP)
    assert (table.sweep(MAX_TIMESTAMP - 1), table.sweep(MAX_TIMESTAMP)) == ([], ["a"])


def test_clearing_forgets_everything() -> None:
    log = Log()
    log.table.register("a", None, 5)
    log.commit()
    log.table.unregister("a", None, 5)
    log.table.register("b", None, 6)
    log.table.clear()
    assert (len(log.table), log.table.delta(16), log.table.snapshot(16), log.table.sweep(9)) == (0, None, None, [])


def test_matches_that_begin_and_end_leave_no_trail() -> None:
    table = new_timers()
    for number in range(1_000):
        table.register("a", None, number % 3)
        table.unregister("a", None, number % 3)
    table.register("a", None, 1)
    assert table.sweep(9) == ["a"]
    assert (len(table), table.delta(16)) == (0, None)


def is_letter(letter: str) -> Any:
    return lambda record: record["v"] == letter


def unheard(records: Any) -> Any:
    pattern = Pattern.begin("a").where(is_letter("a")).followed_by("b").where(is_letter("b")).within("10ms")
    return CEP.pattern(records.key_by("k"), pattern).select(lambda match: [each[0]["t"] for each in match.values()])


def test_after_each_epoch_state_has_no_partial_match_whose_time_is_over() -> None:
    def rows_of(*given: tuple[str, str, int]) -> dict[str, list[Any]]:
        values = [{"k": key, "v": letter, "t": time} for key, letter, time in given]
        return {"values": values, "timestamps": [each["t"] for each in values]}

    with PipelineHarness(unheard) as harness:
        harness.process_all(**rows_of(("x", "a", 0), ("y", "a", 1), ("x", "a", 4), ("z", "a", 6)))
        harness.watermark(6)
        assert [(each.key, each.time) for each in harness.timers()] == [("x", 10), ("y", 11), ("z", 16)]
        harness.restart(2)
        harness.process_all(**rows_of(("x", "c", 10), ("y", "b", 11), ("y", "a", 12)))
        harness.watermark(12)
        assert [(each.key, each.time) for each in harness.timers()] == [("x", 14), ("z", 16), ("y", 22)]
        harness.process_all(**rows_of(("x", "b", 13), ("z", "b", 15)))
        assert harness.watermark(15) == [[4, 13], [6, 15]]
        assert [(each.key, each.time) for each in harness.timers()] == [("y", 22)]
        harness.watermark(22)
        assert harness.entries()["timers"] == 0
        assert set(harness.entries().values()) == {0}
