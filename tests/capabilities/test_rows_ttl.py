"""Row 59, and no leaks: state with a time to live goes by itself, and a program that tidies up leaves nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Trigger,
    TriggerResult,
    ValueStateDescriptor,
    bounded,
    tumbling,
)
from flintstream.errors import UnsupportedError
from tests.capabilities.support import Epochs, Lists, collect

EVENT_TTL = StateTtlConfig.new_builder("1m").use_event_time().build()


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def descriptors(ttl: StateTtlConfig | None) -> list[tuple[str, Any]]:
    kinds: list[tuple[str, Any]] = [
        ("get_state", ValueStateDescriptor("value")),
        ("get_list_state", ListStateDescriptor("list")),
        ("get_map_state", MapStateDescriptor("map")),
        ("get_reducing_state", ReducingStateDescriptor("reducing", lambda a, b: a + b)),
        ("get_aggregating_state", AggregatingStateDescriptor("aggregating", Total())),
    ]
    for _, descriptor in kinds:
        if ttl is not None:
            descriptor.enable_time_to_live(ttl)
    return kinds


class EveryKind(KeyedProcessFunction):
    """Puts each record's number into all kinds of state; with `tidies` a timer clears them, else they must expire."""

    def __init__(self, ttl: StateTtlConfig | None, tidies: bool) -> None:
        self._ttl, self._tidies = ttl, tidies

    def open(self, runtime_context):
        self._states = [getattr(runtime_context, get)(each) for get, each in descriptors(self._ttl)]

    def process_element(self, value, ctx) -> Iterable[Any]:
        held, several, by_number, total, sums = self._states
        held.update(value[1])
        several.add(value[1])
        by_number.put(value[1], value[1])
        total.add(value[1])
        sums.add(value[1])
        ctx.timer_service().register_event_time_timer(value[2] + 30_000)
        return ()

    def on_timer(self, timestamp, ctx):
        held, several, by_number, total, sums = self._states
        yield ctx.get_current_key(), held.value(), list(several), sorted(by_number), total.get(), sums.get()
        if self._tidies:
            for state in self._states:
                state.clear()


RECORDS = [(key, n, n * 1000) for n in (1, 2, 3) for key in ("a", "b", "c")] + [("d", 9, 500_000)]
SEEN = [(key, *contents) for key in "abc" for contents in [(3, [1, 2, 3], [1, 2, 3], 6, 6)]]


def run_every_kind(env: Any, ttl: StateTtlConfig | None, tidies: bool) -> tuple[list[Any], list[dict[str, int]]]:
    """Return what the first timer of each key sees, and the ledger's entries after each epoch."""
    epochs = Epochs()
    env.add_listener(epochs)
    stream = env.from_source(Lists(RECORDS)).uid("in").assign_timestamps_and_watermarks(bounded("1s", on=2)).uid("time")
    results = collect(stream.key_by(0).process(EveryKind(ttl, tidies)).uid("kept"))
    first = {result[0]: result for result in reversed(results) if result[0] != "d"}
    return [first[key] for key in sorted(first)], [manifest.entries for manifest in epochs.manifests]


@pytest.mark.row(59)
@pytest.mark.parametrize(("ttl", "tidies"), [(None, True), (EVENT_TTL, True), (EVENT_TTL, False)])
def test_after_the_last_timer_the_ledger_has_no_entries(new_env, ttl, tidies):
    seen, entries = run_every_kind(new_env(max_records=4), ttl, tidies)
    assert seen == SEEN
    # 3 values, 9 numbers in maps, 3 lists, sums and totals each; then timers, and deadlines of what expires.
    assert max(each["kept"] for each in entries) >= 15
    assert entries[-1]["kept"] == 0


class Sightings(MapFunction):
    """How often a key was seen within its time to live; it knows no timers."""

    def open(self, runtime_context):
        descriptor = ReducingStateDescriptor("seen", lambda a, b: a + b)
        descriptor.enable_time_to_live(EVENT_TTL)
        self._seen = runtime_context.get_reducing_state(descriptor)

    def map(self, value):
        self._seen.add(1)
        return value[0], self._seen.get()


@pytest.mark.row(59)
def test_state_of_a_keyed_map_expires_between_two_epochs_and_within_one(new_env):
    seconds = [("a", 0), ("a", 1), ("b", 30), ("b", 70), ("a", 71), ("b", 80), ("a", 400), ("b", 401)]
    records = [(key, at * 1000) for key, at in seconds]
    results = []
    for max_records in (0, 2):
        env = new_env(max_records=max_records)
        stream = env.from_source(Lists(records)).assign_timestamps_and_watermarks(bounded("1s", on=1))
        results.append(collect(stream.key_by(0).map(Sightings())))
    # At ("a", 71 s) the watermark is a little before 69 s, so what was seen at 1 s is over; at ("b", 80 s) 70 s is not.
    for found in results:
        assert [count for key, count in found if key == "a"] == [1, 2, 1, 2]
        assert [count for key, count in found if key == "b"] == [1, 2, 3, 1]


class Largest(ReduceFunction):
    """Keeps count of its own besides what is reduced."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("calls", int)
        descriptor.enable_time_to_live(EVENT_TTL)
        self._calls = runtime_context.get_state(descriptor)

    def reduce(self, value1, value2):
        self._calls.update((self._calls.value() or 0) + 1)
        return value1[0], value2[1], self._calls.value()


@pytest.mark.row(59)
def test_a_reduce_function_has_state_of_its_key_that_expires(new_env):
    records = [("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 2, 0), ("b", 3, 0), ("b", 90_000, 0), ("a", 90_001, 0)]
    stream = new_env().from_source(Lists(records)).assign_timestamps_and_watermarks(bounded("0s", on=1))
    results = collect(stream.key_by(0).reduce(Largest()))
    assert [calls for key, _, calls in results if key == "a"] == [0, 1, 2, 1]
    assert [calls for key, _, calls in results if key == "b"] == [0, 1, 2]


class Marking(KeyedBroadcastProcessFunction):
    """A rule marks the state of every key that has some."""

    def __init__(self) -> None:
        self._descriptor = ValueStateDescriptor("kept")
        self._descriptor.enable_time_to_live(EVENT_TTL)

    def open(self, runtime_context):
        self._kept = runtime_context.get_state(self._descriptor)

    def process_element(self, value, ctx):
        yield value[0], self._kept.value()
        self._kept.update("put")

    def process_broadcast_element(self, value, ctx):
        ctx.apply_to_keyed_state(self._descriptor, lambda key, state: state.update("marked"))
        return ()


@pytest.mark.row(59)
@pytest.mark.parametrize("max_records", [0, 1])
def test_a_rule_does_not_reach_what_has_expired(make_env, max_records):
    records = [("a", 0), ("b", 100_000), ("rule", 100_001), ("a", 100_002), ("b", 100_003)]
    env = make_env("local", max_records=max_records)
    stream = env.from_source(Lists(records)).assign_timestamps_and_watermarks(bounded("0s", on=1))
    rules = stream.filter(lambda r: r[0] == "rule").broadcast(MapStateDescriptor("rules"))
    marked = stream.filter(lambda r: r[0] != "rule").key_by(0).connect(rules).process(Marking())
    assert sorted(collect(marked), key=str) == [("a", None), ("a", None), ("b", "marked"), ("b", None)]


class Forgetful(Trigger):
    """Asks for state of a window that is to expire."""

    def on_element(self, element, timestamp, window, ctx):
        descriptor = ValueStateDescriptor("n")
        descriptor.enable_time_to_live(EVENT_TTL)
        ctx.get_partitioned_state(descriptor)
        return TriggerResult.FIRE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    on_processing_time = on_event_time

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


@pytest.mark.row(59)
def test_the_state_of_a_window_cannot_have_a_time_to_live_of_its_own(make_env):
    stream = make_env("local").from_source(Lists(RECORDS)).assign_timestamps_and_watermarks(bounded("1s", on=2))
    windows = stream.key_by(0).window(tumbling("5s")).trigger(Forgetful())
    message = (
        r"state 'n' of a window has a time to live, .*; operator .*; .*test_rows_ttl.py:[0-9]+; .*global_state\(\)"
    )
    with pytest.raises(UnsupportedError, match=message):
        collect(windows.reduce(lambda a, b: a))
