"""Rows 21, 22 and 27 to 29: event time, processing time, and the borders of watermarks."""

from __future__ import annotations

import json
import random
import time

import pytest

from flintstream import (
    CollectSink,
    OutputTag,
    ProcessWindowFunction,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
    avg,
    bounded,
    count,
    max_of,
    min_of,
    sum_of,
    tumbling,
)
from tests.capabilities.support import Epochs, Lists, collect

TEN = 36_000_000  # ten o'clock, in ms of its day
LATE = OutputTag("late")


class Contents(ProcessWindowFunction):
    """Emits all there is to know about a window that fires."""

    def process(self, key, context, elements):
        window = context.window()
        values = [element["n"] for element in elements]
        yield key, window.start, window.end, values, context.current_watermark()


def readings() -> list[dict]:
    rng = random.Random(5)
    return [{"id": f"s{rng.randrange(4)}", "ts": rng.randrange(5_000), "celsius": rng.gauss(20, 5)} for _ in range(300)]


@pytest.mark.row(21)
def test_arrival_order_does_not_change_a_byte_of_window_results(new_env):
    outputs = set()
    for seed in (None, 1, 2):
        arrived = readings()
        if seed is not None:
            random.Random(seed).shuffle(arrived)
        env = new_env(max_records=120)
        stream = env.from_source(Lists(arrived[:140], arrived[140:]), watermark=bounded("5s", on="ts"))
        rows = (
            stream.key_by("id")
            .window(tumbling("500ms"))
            .agg(
                mean=avg("celsius"), total=sum_of("celsius"), least=min_of("celsius"), most=max_of("celsius"), n=count()
            )
        )
        results = sorted(collect(rows), key=lambda row: (row.id, row.window_start))
        assert sum(row.n for row in results) == 300
        outputs.add(json.dumps([tuple(row) for row in results]))
    assert len(outputs) == 1


@pytest.mark.row(21)
def test_arrival_order_does_not_change_the_contents_of_windows(new_env):
    outputs = set()
    for seed in (1, 2):
        arrived = [{"id": "a", "ts": n, "n": n} for n in range(100)]
        random.Random(seed).shuffle(arrived)
        stream = new_env(max_records=40).from_source(Lists(arrived), watermark=bounded("100ms", on="ts"))
        windows = collect(stream.key_by("id").window(tumbling("10ms")).process(Contents()))
        outputs.add(json.dumps([(key, start, end, sorted(values)) for key, start, end, values, _ in windows]))
        assert len(windows) == 10
    assert len(outputs) == 1


class WithClock(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield window.start, window.end, len(list(elements)), context.current_processing_time()


@pytest.mark.row(22)
def test_a_processing_time_window_goes_by_the_clock_and_not_by_the_stamps(new_env):
    """Event time runs backwards by years here; windows are those seconds in which records came."""
    before = int(time.time() * 1000)
    env = new_env()
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: 10**12 - i * 10**9)
    numbers = env.generate(generator=lambda i: i, rate=100, splits=1, watermark=stamped)
    windows = numbers.key_by(lambda i: 0).window(TumblingProcessingTimeWindows.of("1s")).process(WithClock())
    fired = windows.execute_and_collect(limit=2)
    after = int(time.time() * 1000)
    for start, end, size, now in fired:
        assert (start % 1000, end) == (0, start + 1000)
        assert before - 1000 < start <= after
        assert end - 1 <= now <= after
        assert size > 0
    assert fired[0][0] < fired[1][0]


def watermark_after(new_env, last: int) -> list:
    """Return what the window from 10:00 to 10:01 emits if the record at `last` follows its own."""
    records = [{"id": "a", "ts": TEN + at, "n": at} for at in (0, 30_000, 59_999)] + [{"id": "a", "ts": last, "n": -1}]
    # The end of the input fires everything: a record far away tells which windows had fired before.
    env = new_env()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    stream = env.from_source(Lists(records), strategy)
    return collect(stream.key_by("id").window(tumbling("1min")).process(Contents()))


@pytest.mark.row(27)
def test_a_window_fires_when_the_watermark_has_reached_its_end(new_env):
    exact = watermark_after(new_env, TEN + 60_001)[0]
    assert exact == ("a", TEN, TEN + 60_000, [0, 30_000, 59_999], TEN + 60_000)


@pytest.mark.row(27)
def test_a_later_watermark_has_the_same_effect(new_env):
    at = TEN + 3 * 60_000 + 43_000
    later = watermark_after(new_env, at + 1)[0]
    assert later == ("a", TEN, TEN + 60_000, [0, 30_000, 59_999], at)


@pytest.mark.row(27)
def test_the_last_millisecond_of_a_window_is_the_border(make_env):
    """The watermark is one below the greatest timestamp; at end - 2 nothing fires, at end - 1 the window does."""

    def new_env():
        return make_env("local")

    on_border = watermark_after(new_env, TEN + 60_000)[0]
    assert on_border[-1] == TEN + 59_999
    (still_open,) = watermark_after(new_env, TEN + 59_999)
    assert still_open[-1] == 2**63 - 1


@pytest.mark.row(28)
def test_exactly_five_seconds_late_is_on_time(new_env):
    """Watermark = greatest timestamp - 5 s - 1 ms; a record is dropped only if its window has closed by then."""
    events = [
        (14_999, "watermark 9,998"),
        (9_999, "exactly 5 s late, window still open"),
        (15_000, "watermark 9,999: the window of 10 s closes"),
        (10_000, "exactly 5 s late, in the next window"),
        (9_999, "5.001 s late, window closed"),
        (18_000, "watermark 12,999"),
        (10_001, "behind the watermark, window still open"),
        (0, "long gone"),
    ]
    env, late, epochs = new_env(max_records=3), CollectSink(), Epochs()
    env.add_listener(epochs)
    stream = env.from_source(Lists([{"id": "a", "ts": ts, "n": text} for ts, text in events]), bounded("5s", on="ts"))
    windows = stream.key_by("id").window(tumbling("10s")).side_output_late_data(LATE).process(Contents()).uid("windows")
    sink = CollectSink()
    windows.sink_to(sink)
    windows.get_side_output(LATE).map(lambda record: record["n"]).sink_to(late)
    env.execute()
    assert [result[:4] for result in sink.results] == [
        ("a", 0, 10_000, ["exactly 5 s late, window still open"]),
        (
            "a",
            10_000,
            20_000,
            [
                "watermark 9,998",
                "watermark 9,999: the window of 10 s closes",
                "exactly 5 s late, in the next window",
                "watermark 12,999",
                "behind the watermark, window still open",
            ],
        ),
    ]
    assert [result[4] for result in sink.results] == [9_999, 2**63 - 1]
    assert late.results == ["5.001 s late, window closed", "long gone"]
    assert epochs.counts("windows", "late") == 2


@pytest.mark.row(29)
def test_sorted_input_is_never_late_even_with_equal_stamps(new_env):
    stamps = [0, 0, 5, 9, 9, 10, 10, 10, 19, 19, 20, 40, 40]
    env, late, epochs = new_env(max_records=4), CollectSink(), Epochs()
    env.add_listener(epochs)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record["ts"])
    stream = env.from_source(Lists([{"id": "a", "ts": ts, "n": 1} for ts in stamps]), strategy)
    windows = (
        stream.key_by("id").window(tumbling("10ms")).side_output_late_data(LATE).process(Contents()).uid("windows")
    )
    sink = CollectSink()
    windows.sink_to(sink)
    windows.get_side_output(LATE).sink_to(late)
    env.execute()
    assert [(start, len(values)) for _, start, _, values, _ in sink.results] == [(0, 5), (10, 5), (20, 1), (40, 2)]
    assert late.results == []
    assert epochs.counts("windows", "late") == 0
