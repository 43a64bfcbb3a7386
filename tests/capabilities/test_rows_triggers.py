"""Rows 47 to 52: triggers, their combinations, and the panes that windows give."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import (
    AggregateFunction,
    CollectSink,
    GlobalWindows,
    OutputTag,
    PaneTiming,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    Trigger,
    TriggerResult,
    WatermarkStrategy,
    after,
    after_count,
    after_watermark,
    bounded,
    each,
    every,
    never,
    on,
    session,
    tumbling,
)
from tests.capabilities.support import Epochs, Lists, collect

HOUR = 3_600_000
LATE = OutputTag("late")


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def stream_of(env, *stamps: Any, bound: int = 0):
    """Return records of one key with these timestamps, also as `n`; a negative one is of a VIP."""
    records = [{"id": "k", "ts": abs(ts), "n": abs(ts), "vip": ts < 0} for ts in stamps]
    return env.from_source(Lists(records), bounded(bound, on="ts")).key_by("id")


def shown(panes: list[Any]) -> list[Any]:
    return [(pane.info.timing.name, pane.info.number, pane.value) for pane in panes]


class Values(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window().start, [element["n"] for element in elements]


@pytest.mark.row(47)
def test_without_a_trigger_a_window_fires_once_when_the_watermark_passes_its_end(new_env):
    windows = stream_of(new_env(max_records=2), 1, 5, 9, 10, 25).window(tumbling("10ms"))
    assert collect(windows.process(Values())) == [(0, [1, 5, 9]), (10, [10]), (20, [25])]


class Alternating(Trigger):
    """Fires at every second record of a window, a count of its own says which, and when the window ends."""

    COUNT = ReducingStateDescriptor("seen", lambda x, y: x + y)

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        seen = ctx.get_partitioned_state(self.COUNT)
        seen.add(1)
        return TriggerResult.FIRE if seen.get() % 2 == 0 else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.COUNT)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())
        ctx.get_partitioned_state(self.COUNT).clear()


@pytest.mark.row(48)
def test_a_users_trigger_with_state_works_on_tumbling_windows(new_env):
    windows = stream_of(new_env(max_records=2), 1, 2, 3, 11, 12).window(tumbling("10ms")).trigger(Alternating())
    assert collect(windows.process(Values())) == [(0, [1, 2]), (0, [1, 2, 3]), (10, [11, 12]), (10, [11, 12])]


@pytest.mark.row(48)
def test_a_users_trigger_with_state_works_on_sessions_that_merge(new_env):
    windows = stream_of(new_env(max_records=2), 1, 9, 5, 6, 30, bound=20).window(session("5ms")).trigger(Alternating())
    # 5 makes one session of two, whose counts add up to 2; with it they are 3, with 6 they are 4.
    assert collect(windows.process(Values())) == [(1, [1, 9, 5, 6]), (1, [1, 9, 5, 6]), (30, [30])]


@pytest.mark.row(48)
def test_a_users_trigger_can_be_part_of_an_expression(new_env):
    trigger = Alternating() | on(lambda record: record["vip"])
    windows = stream_of(new_env(max_records=2), 1, -2, 3, 4, 30).window(tumbling("10ms")).trigger(trigger)
    # The VIP comes with a second record: both fire at once, and both start anew.
    assert collect(windows.process(Values())) == [(0, [1, 2]), (0, [1, 2, 3, 4]), (30, [30])]


@pytest.mark.row(49)
def test_early_results_on_the_way_and_the_exact_one_at_the_watermark(new_env):
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: i)
    records = new_env().generate(generator=lambda i: i, count=120, rate=20, splits=1, watermark=stamped)
    windows = records.key_by(lambda i: "all").window(tumbling("1h"))
    panes = collect(windows.trigger(after_watermark(early=every("500ms"))).with_pane().aggregate(Count()))
    *early, final = panes
    assert len(early) >= 4
    assert {pane.info.timing for pane in early} == {PaneTiming.EARLY}
    assert (final.info.timing, final.value, final.info.last) == (PaneTiming.ON_TIME, 120, True)
    assert [pane.info.number for pane in panes] == list(range(len(panes)))
    assert [pane.info.first for pane in panes] == [True, *[False] * len(early)]
    counts = [pane.value for pane in early]
    assert counts == sorted(set(counts))


@pytest.mark.row(49)
def test_panes_are_discarded_or_taken_back(new_env):
    def panes(declare):
        windows = stream_of(new_env(max_records=2), 1, 2, 3, 12, 4, 40).window(tumbling("10ms"))
        windows = windows.trigger(after_watermark(early=after_count(2), late=each())).allowed_lateness("5ms")
        return [pane for pane in collect(declare(windows).aggregate(Count())) if pane.window.start == 0]

    assert shown(panes(lambda w: w.discarding().with_pane())) == [("EARLY", 0, 2), ("ON_TIME", 1, 1), ("LATE", 2, 1)]
    taken_back = panes(lambda w: w.retracting())
    assert [(pane.info.is_retraction, pane.value) for pane in taken_back] == [
        (False, 2),
        (True, 2),
        (False, 3),
        (True, 3),
        (False, 4),
    ]


@pytest.mark.row(50)
def test_an_alert_at_the_tenth_event_and_the_hourly_count_all_the_same(new_env):
    stamps = [*range(0, 25_000, 1000), 2 * HOUR]
    windows = stream_of(new_env(max_records=4), *stamps).window(tumbling("1h"))
    trigger = after_watermark(early=after_count(10).then(never()))
    panes = collect(windows.trigger(trigger).with_pane().aggregate(Count()))
    assert shown(panes) == [("EARLY", 0, 10), ("ON_TIME", 1, 25), ("ON_TIME", 0, 1)]


@pytest.mark.row(51)
def test_any_of_count_time_and_value(new_env):
    trigger = after_count(5) | every("1h") | on(lambda record: record["vip"])
    windows = stream_of(new_env(max_records=3), 1, 2, -3, 4, 5, 6, 7, 8, 9, -10).window(tumbling("1h"))
    panes = collect(windows.trigger(trigger).discarding().process(Values()))
    # The VIP ends the pane, so that the five are counted from there.
    assert [values for _, values in panes] == [[1, 2, 3], [4, 5, 6, 7, 8], [9, 10]]


@pytest.mark.row(51)
def test_any_of_count_time_and_value_fires_by_the_clock(new_env):
    trigger = after_count(10**6) | every("100ms") | on(lambda i: i < 0)
    records = new_env().generate(generator=lambda i: i, rate=50, splits=1)
    windows = records.key_by(lambda i: "all").window(GlobalWindows.create())
    panes = windows.trigger(trigger).discarding().aggregate(Count()).execute_and_collect(limit=2)
    assert all(count > 0 for count in panes)


@pytest.mark.row(51)
@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        ((1, 2, 3, 4, 5, 6, 30), [("ON_TIME", 0, 6)]),
        ((1, 2, 3, 4, 15, 30), []),
        ((1, 2, 3, 4, 15, 5, 40), [("LATE", 0, 5)]),
    ],
    ids=["five in time", "four only", "the fifth is late"],
)
def test_both_the_watermark_and_a_count(make_env, stamps, expected):
    windows = stream_of(make_env("local", max_records=2), *stamps).window(tumbling("10ms")).allowed_lateness("10ms")
    panes = collect(windows.trigger(after_watermark() & after_count(5)).with_pane().aggregate(Count()))
    assert shown(panes) == expected


@pytest.mark.row(51)
def test_both_the_watermark_and_a_count_on_either_runtime(new_env):
    windows = stream_of(new_env(max_records=2), 1, 2, 3, 4, 15, 5, 40).window(tumbling("10ms"))
    windows = windows.allowed_lateness("10ms").trigger(after_watermark() & after_count(5)).with_pane()
    assert shown(collect(windows.aggregate(Count()))) == [("LATE", 0, 5)]


@pytest.mark.row(52)
def test_a_count_window_with_a_timeout_does_not_stay_open_for_ever(new_env):
    """Seven records of a key come at once, and never another, while those of other keys go on."""
    env, epochs, sink = new_env(), Epochs(), CollectSink()
    env.add_listener(epochs)
    others = env.generate(generator=lambda i: (f"other {i}", i), count=100, rate=50, splits=1)
    records = env.from_source(Lists([("seven", i) for i in range(7)])).union(others)
    windows = records.key_by(lambda record: record[0]).window(GlobalWindows.create())
    windows = windows.trigger(after_count(100) | after("200ms")).discarding()
    windows.process(Keyed()).uid("windows").sink_to(sink)
    env.execute()
    results = dict(sink.results)
    assert results.pop("seven") == 7
    assert results
    # What is left at the end is of the last of the others, whose time had not come.
    assert len(results) + left_of(epochs, "windows") == 100


class Keyed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, len(list(elements))


def left_of(epochs: Epochs, uid: str) -> int:
    """Return how many windows have contents at the end, and check that no other state is of any other window."""
    rows: dict[str, int] = {}
    for report in epochs.reports[-1]:
        for name, count in report.entries.items():
            if name.startswith(f"{uid}/"):
                rows[name] = rows.get(name, 0) + count
    contents = rows.pop(f"{uid}/#window-contents", 0)
    assert all(count == contents for count in rows.values() if count), rows
    return contents
