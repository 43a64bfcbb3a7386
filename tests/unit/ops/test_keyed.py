"""Keyed process functions and their timers, against a loop over records and watermarks that takes one at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.context import TimeDomain
from flintstream.model.functions import Function, as_filter_function, as_map_function, as_reduce_function
from flintstream.model.functions_process import KeyedProcessFunction
from flintstream.model.state import ValueStateDescriptor
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.model.types import Types
from flintstream.ops import keyed
from flintstream.ops.batch import FIRST, NO_TIMESTAMP, Batch, Values
from flintstream.ops.keyed import KeyedFunctionOperator, KeyedProcessOperator, ReduceOperator
from flintstream.ops.run import Run
from flintstream.state.timers import order_of
from tests.unit.ops.window_harness import END, Emission, Record, Step, Watermark, WindowHarness, play
from tests.unit.values import law

SIDE = OutputTag("side", Types.STRING())


def follow_ups(time: int) -> list[int]:
    """What a firing timer sets: some set one in the past, some one in the future, most set none."""
    return {0: [time - 2], 1: [time + 4], 2: [time - 1, time + 1]}.get(time % 7, [])


class Obedient(KeyedProcessFunction):
    """Does what its records say; counts them per key; tells of every timer."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        service = ctx.timer_service()
        for verb, number in value:
            if verb == "set":
                service.register_event_time_timer(number)
            elif verb == "delete":
                service.delete_event_time_timer(number)
            elif verb == "side":
                yield SIDE, ("side", ctx.get_current_key(), number)
            else:
                yield (
                    verb,
                    ctx.get_current_key(),
                    number,
                    self.seen.value(),
                    ctx.timestamp(),
                    service.current_watermark(),
                )

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        service = ctx.timer_service()
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield "timer", ctx.get_current_key(), timestamp, self.seen.value(), ctx.timestamp(), service.current_watermark()
        for time in follow_ups(timestamp):
            service.register_event_time_timer(time)
        if timestamp % 5 == 0:
            yield "again", ctx.get_current_key(), timestamp


def expected(script: Iterable[Step]) -> list[tuple[Any, int]]:
    """Return (value, timestamp) of everything that a script causes on the main output."""
    out: list[tuple[Any, int]] = []
    timers: set[tuple[int, Any]] = set()
    seen: dict[Any, int] = {}
    watermark = MIN_TIMESTAMP
    for step in script:
        if isinstance(step, Record):
            key = step.key
            seen[key] = seen.get(key, 0) + 1
            for verb, number in step.value:
                if verb == "set":
                    timers.add((number, key))
                elif verb == "delete":
                    timers.discard((number, key))
                elif verb == "emit":
                    out.append(((verb, key, number, seen[key], step.timestamp, watermark), step.timestamp))
        elif step.time > watermark:
            watermark = step.time
            while due := sorted((t for t in timers if t[0] <= watermark), key=lambda t: (t[0], order_of(t[1]))):
                time, key = due[0]
                timers.discard(due[0])
                out.append((("timer", key, time, seen[key], time, watermark), time))
                if time % 5 == 0:
                    out.append((("again", key, time), time))
                timers |= {(later, key) for later in follow_ups(time) if later < 60}
    return out


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["set", "set", "delete", "emit", "side"]), st.integers(0, 40)), max_size=3
).map(tuple)
SCRIPTS = st.lists(
    st.one_of(
        st.builds(Record, st.sampled_from(["a", "b", 3]), ACTIONS, st.integers(0, 40)),
        st.builds(Watermark, st.integers(0, 45)),
    ),
    max_size=14,
)


class Bounded(Obedient):
    """Sets no timer beyond 60, so that a script comes to an end."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield from super().on_timer(timestamp, _Until(ctx, 60))


class _Until:
    """A context whose timer service sets nothing from a time on."""

    def __init__(self, ctx: Any, limit: int) -> None:
        self._ctx, self._limit = ctx, limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def timer_service(self) -> Any:
        return self

    def current_watermark(self) -> int:
        return self._ctx.timer_service().current_watermark()

    def register_event_time_timer(self, time: int) -> None:
        if time < self._limit:
            self._ctx.timer_service().register_event_time_timer(time)


def process() -> KeyedProcessOperator:
    return KeyedProcessOperator(Bounded())


def main(emissions: Iterable[Emission]) -> list[tuple[Any, int]]:
    return [(emission.value, emission.timestamp) for emission in emissions if not emission.tag]


@law
@given(SCRIPTS)
def test_timers_fire_once_in_order_at_the_advance_that_reaches_them(script: list[Step]) -> None:
    harness = play(process, [*script, END])
    assert main(harness.emitted) == expected([*script, END])
    assert "#event-timers" not in harness.entries()


@law
@given(SCRIPTS, st.lists(st.integers(0, 14), max_size=4), st.lists(st.integers(0, 14), max_size=2))
def test_neither_cuts_nor_restarts_change_values_timestamps_or_stamps(
    script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    script = [*script, END]
    whole = play(process, script)
    limit = len(script)
    parts = play(process, script, [min(cut, limit) for cut in cuts], [min(cut, limit - 1) for cut in restarts])
    assert sorted(parts.emitted, key=lambda e: (e.tag, e.stamp)) == sorted(
        whole.emitted, key=lambda e: (e.tag, e.stamp)
    )
    assert main(parts.emitted) == main(whole.emitted)


@law
@given(SCRIPTS, st.integers(1, 6))
def test_pieces_of_a_run_cause_what_the_run_causes(script: list[Step], size: int) -> None:
    script = [*script, END]
    whole = play(process, script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "PIECE", size)
        parts = play(process, script)
    assert [e for e in parts.emitted if not e.tag] == [e for e in whole.emitted if not e.tag]
    assert [e for e in parts.emitted if e.tag] == [e for e in whole.emitted if e.tag]


def acting(*actions: Any) -> Record:
    return Record("a", actions, 100)


def fired(harness: WindowHarness) -> list[int]:
    return [value[2] for value in harness.values() if value[0] == "timer"]


def test_a_timer_set_twice_fires_once() -> None:
    harness = WindowHarness(process)
    harness.feed(acting(("set", 3), ("set", 3)), acting(("set", 3)), Watermark(10))
    assert fired(harness) == [3]


def test_a_deleted_timer_does_not_fire() -> None:
    harness = WindowHarness(process)
    harness.feed(acting(("set", 3), ("set", 4)), acting(("delete", 3)), Watermark(10))
    assert fired(harness) == [4]


def test_a_timer_for_a_time_that_has_passed_waits_for_the_next_advance() -> None:
    harness = WindowHarness(process)
    harness.feed(Watermark(20), acting(("set", 3)), acting())
    assert fired(harness) == []
    harness.feed(acting())
    assert fired(harness) == []
    harness.feed(Watermark(21))
    assert fired(harness) == [3]


def test_a_timer_that_a_timer_sets_for_a_passed_time_fires_at_once() -> None:
    harness = WindowHarness(process)
    harness.feed(acting(("set", 21)), Watermark(30))
    # 21 sets 19, which has passed, too.
    assert fired(harness) == [21, 19]


def test_each_timer_sees_the_watermark_that_reached_it() -> None:
    harness = WindowHarness(process)
    harness.feed(acting(("set", 3), ("set", 12)), Watermark(4), Watermark(15))
    assert [value[5] for value in harness.values()] == [4, 15]


def test_a_timer_beyond_the_end_of_time_fires_at_the_end_and_can_be_deleted() -> None:
    harness = WindowHarness(process)
    harness.feed(acting(("set", MAX_TIMESTAMP + 5), ("set", 2**70)), Watermark(1000))
    assert fired(harness) == []
    harness.feed(acting(("delete", MAX_TIMESTAMP + 9)))
    assert harness.entries() == {"seen": 1}
    harness.feed(acting(("set", 2**64), ("set", -(2**70))), END)
    assert fired(harness)[:1] == [MIN_TIMESTAMP]
    assert MAX_TIMESTAMP in fired(harness)


class ByTheClock(KeyedProcessFunction):
    """Sets processing-time timers."""

    def process_element(self, value: Any, ctx: Any) -> None:
        service = ctx.timer_service()
        for verb, number in value:
            if verb == "set":
                service.register_processing_time_timer(number)
            else:
                service.delete_processing_time_timer(number)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        if timestamp == 9:
            ctx.timer_service().register_processing_time_timer(4)
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()


def test_processing_time_timers_fire_when_an_epoch_starts_after_them() -> None:
    harness = WindowHarness(lambda: KeyedProcessOperator(ByTheClock()))
    harness.feed(acting(("set", 3), ("set", 9), ("set", 5), ("set", 20)), acting(("delete", 5)), Watermark(100))
    assert harness.set_processing_time(3) == []
    emissions = harness.set_processing_time(12)
    assert [emission.value for emission in emissions] == [("a", 3, 12), ("a", 9, 12), ("a", 4, 12)]
    assert {emission.timestamp for emission in emissions} == {NO_TIMESTAMP}
    assert {emission.stamp[:3] for emission in emissions} == {(FIRST, FIRST, FIRST)}
    harness.restart()
    assert [emission.value for emission in harness.set_processing_time(21)] == [("a", 20, 21)]


class TwoInputs(Function):
    """A co-process function by the names that the operator calls."""

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value)
        return [("first", value)]

    def process_element2(self, value: Any, ctx: Any) -> None:
        return None

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        return [("timer", timestamp)]


class Caught:
    """An output that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, Batch]] = []

    def emit(self, batch: Batch, tag: str = "") -> None:
        self.batches.append((tag, batch))

    def rows(self) -> list[Any]:
        return [row for _, batch in self.batches for row in batch.values.rows()]


def opened(operator: Any) -> Any:
    return WindowHarness(lambda: operator).operator


def batch_of(keys: list[Any], values: list[Any]) -> Batch:
    count = len(keys)
    numbers = np.arange(count)
    stamp = [np.zeros(count, np.int64), np.zeros(count, np.int64), numbers]
    return Batch(Values(values), numbers + 100, stamp, np.zeros(count, np.int64), Values(keys))


@pytest.mark.parametrize("size", [1, 2, 10])
def test_records_of_two_inputs_reach_their_methods_in_order(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(keyed, "PIECE", size)
    operator, out = opened(KeyedProcessOperator(TwoInputs(), ("process_element1", "process_element2"))), Caught()
    batch = batch_of(["a", "a", "a"], [2, 5, 9])
    batch.watermarks = np.array([0, 0, 4])
    none = np.zeros(1, np.int64)
    run = Run(batch, np.array([4]), np.array([2]), [none, none, none + 1], 0, 0, np.array([0, 1, 0]))
    operator.process_run(run, out)
    assert out.rows() == [("first", 2), ("timer", 2), ("first", 9)]


class Nth(Function):
    """Counts the records of a key, as map, filter and flat_map."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def _next(self) -> int:
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()

    def map(self, value: Any) -> Any:
        return value, self._next()

    def filter(self, value: Any) -> bool:
        return self._next() % 2 == 0

    def flat_map(self, value: Any) -> Any:
        return [value] * self._next() if value != "none" else None


def test_map_on_a_keyed_stream_keeps_state_by_key() -> None:
    operator, out = opened(KeyedFunctionOperator(Nth(), "map")), Caught()
    operator.process(batch_of([1, 2, 1], ["x", "y", "z"]), 0, out)
    assert out.rows() == [("x", 1), ("y", 1), ("z", 2)]


def test_filter_on_a_keyed_stream_keeps_records_where_they_stand() -> None:
    operator, out = opened(KeyedFunctionOperator(Nth(), "filter")), Caught()
    operator.process(batch_of([1, 2, 1, 2], ["w", "x", "y", "z"]), 0, out)
    ((_, batch),) = out.batches
    assert batch.values.rows() == ["y", "z"]
    assert batch.timestamps.tolist() == [102, 103]


def test_flat_map_on_a_keyed_stream_numbers_its_outputs() -> None:
    operator, out = opened(KeyedFunctionOperator(Nth(), "flat_map")), Caught()
    operator.process(batch_of([1, 1, 2], ["x", "y", "none"]), 0, out)
    ((_, batch),) = out.batches
    assert batch.values.rows() == ["x", "y", "y"]
    assert batch.stamp[-1].tolist() == [0, 0, 1]
    assert batch.timestamps.tolist() == [100, 101, 101]


@pytest.mark.parametrize(
    ("operator", "rows"),
    [
        (KeyedFunctionOperator(as_map_function(lambda v: v * 2), "map"), [2, 4, 6]),
        (KeyedFunctionOperator(as_filter_function(lambda v: v > 1), "filter"), [2, 3]),
        (ReduceOperator(as_reduce_function(lambda a, b: a + b)), [1, 2, 4]),
    ],
)
def test_plain_callables_do_as_well(operator: Any, rows: list[int]) -> None:
    out = Caught()
    opened(operator).process(batch_of(["a", "b", "a"], [1, 2, 3]), 0, out)
    assert out.rows() == rows


def test_reduce_goes_on_from_its_state() -> None:
    harness = WindowHarness(lambda: ReduceOperator(as_reduce_function(lambda a, b: a + b)))
    harness.feed(Record("a", 1, 0), Record("b", 10, 0))
    harness.restart()
    harness.feed(Record("a", 2, 0), Record("b", 20, 0))
    assert harness.values() == [1, 10, 3, 30]


def test_a_keyed_operator_is_never_called_inside_a_level() -> None:
    with pytest.raises(AssertionError, match="behind an exchange"):
        opened(process()).process(batch_of(["a"], [()]), 0, Caught())
