"""Sorting by event time, against `sorted`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import JobError
from flintstream.ops.operator import MAIN
from flintstream.ops.sort import SortOperator
from flintstream.state.timers import order_of
from tests.unit.ops.window_harness import END, Record, Step, Watermark, WindowHarness, play
from tests.unit.values import law

STEPS = st.one_of(
    st.builds(lambda key, ts: Record(key, None, ts), st.sampled_from("abc"), st.integers(0, 30)),
    st.builds(Watermark, st.integers(0, 32)),
)


def numbered(steps: list[Step]) -> list[Step]:
    """Give every record a value of its own."""
    return [step._replace(value=n) if isinstance(step, Record) else step for n, step in enumerate(steps)]


SCRIPTS = st.lists(STEPS, max_size=40).map(numbered)


def sort(late_tag: str | None = "late") -> Callable[[], Any]:
    return lambda: SortOperator(late_tag)


def expected(script: list[Step]) -> tuple[list[Any], list[Any]]:
    watermark, main, late, held = -(2**63), [], [], []
    for step in [*script, END]:
        if isinstance(step, Record):
            (late if step.timestamp <= watermark else held).append(step)
        elif step.time > watermark:
            watermark = step.time
            due = [record for record in held if record.timestamp <= watermark]
            main += sorted(due, key=lambda record: (record.timestamp, order_of(record.key)))
            held = [record for record in held if record.timestamp > watermark]
    return [record.value for record in main], [record.value for record in late]


@law
@given(SCRIPTS, st.lists(st.integers(0, 40), max_size=5), st.lists(st.integers(0, 40), max_size=3))
def test_records_leave_in_order_at_the_watermark_that_passes_them(
    script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    script = [*script, END]
    places = range(len(script))
    harness = play(sort(), script, [c for c in cuts if c in places], [r for r in restarts if r in places and r])
    main, late = expected(script)
    assert harness.values() == main
    assert harness.values("late") == late
    assert harness.late == len(late)
    assert harness.entries() == {}
    whole = play(sort(), script)
    for tag in (MAIN, "late"):
        assert [e for e in harness.emitted if e.tag == tag] == [e for e in whole.emitted if e.tag == tag]
    assert len({(e.tag, e.stamp) for e in harness.emitted}) == len(harness.emitted)


def test_nothing_older_than_the_watermark_waits() -> None:
    harness = WindowHarness(sort())
    assert harness.feed(Record("a", 1, 5), Record("a", 2, 3), Watermark(2)) == []
    assert [e.value for e in harness.feed(Watermark(3))] == [2]
    assert [(e.value, e.timestamp) for e in harness.feed(Watermark(5))] == [(1, 5)]
    assert harness.entries() == {}


def test_equal_timestamps_keep_their_order_over_restarts() -> None:
    harness = WindowHarness(sort())
    for number in range(100):
        harness.feed(Record("a", number, 7))
        if number % 10 == 0:
            harness.restart()
    harness.feed(Watermark(7))
    assert harness.values() == list(range(100))


def test_late_records_are_counted_even_without_an_output_for_them() -> None:
    harness = WindowHarness(sort(late_tag=None))
    harness.feed(Watermark(5), Record("a", 1, 5), Record("a", 2, 6), END)
    assert harness.values() == [2]
    assert harness.late == 1


def test_late_records_can_be_logged() -> None:
    harness = WindowHarness(sort())
    harness.ctx.logs_late = True
    harness.feed(Watermark(5), Record("a", "x", 5))
    assert harness.ctx.notes == ["key 'a', timestamp 5, watermark 5: 'x'"]


def test_a_record_without_a_timestamp_is_an_error() -> None:
    with pytest.raises(JobError, match="no timestamp, but sort_by_event_time"):
        WindowHarness(sort()).feed(Record("a", 1))


def test_a_sort_is_always_behind_an_exchange() -> None:
    harness = WindowHarness(sort())
    with pytest.raises(AssertionError, match="behind an exchange"):
        harness.operator.process(None, 0, harness)  # type: ignore[arg-type]
