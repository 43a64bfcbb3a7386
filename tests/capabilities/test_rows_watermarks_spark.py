"""Rows 30, 36 and 97 on streams that Spark reads: generators, idleness, alignment, ranges of time."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import CollectSink, WatermarkGenerator, WatermarkStrategy, bounded, count, tumbling
from tests.capabilities.support import Epochs
from tests.capabilities.test_frames import record, stream_of, write_batches

pytestmark = pytest.mark.spark
SCHEMA = "split STRING, at INT, key STRING, ts LONG, n INT"


class Counting(WatermarkGenerator):
    """Only at every fourth record it has seen it says how far time has got."""

    def __init__(self):
        self.greatest, self.seen = 0, 0

    def on_event(self, event, timestamp, output):
        self.greatest, self.seen = max(self.greatest, timestamp), self.seen + 1
        if self.seen % 4 == 0:
            output.emit_watermark(self.greatest - 1)


def stream(session: Any, folder: Any, batches: list[list[dict]]) -> Any:
    return stream_of(session, write_batches(folder, batches), SCHEMA)


@pytest.mark.row(30)
@pytest.mark.parametrize("order", [None, "at"])
def test_a_generator_goes_on_from_batch_to_batch(make_env, spark_session, tmp_path, order):
    """Three records per batch: the generator speaks at every fourth, so it must remember those of earlier batches."""
    batches = [[record("x", 3 * batch + n, 10 * (3 * batch + n)) for n in range(3)] for batch in range(4)]
    frame = stream(spark_session, tmp_path / "in", batches)
    strategy = WatermarkStrategy.for_generator(Counting).with_timestamp_column("ts")
    source = make_env("spark").from_dataframe(frame, strategy, order_by=order)
    windows = source.key_by("key").window(tumbling("10ms")).agg(n=count())
    found = windows.execute_and_collect(limit=11)
    assert [row.window_start for row in found] == list(range(0, 110, 10))


@pytest.mark.row(36)
def test_a_silent_split_of_a_stream_is_left_out_and_a_slow_one_is_not(make_env, spark_session, tmp_path):
    """Split `silent` brings one record; `slow` lags a minute behind `fast`, and nothing of it is late until it ends."""
    batches = [[record("silent", 0, 1000)]]
    batches += [[record("fast", n, 60_000 + n * 5000), record("slow", n, n * 5000)] for n in range(4)]
    batches += [[record("fast", n, 60_000 + n * 5000)] for n in range(4, 8)]
    frame = stream(spark_session, tmp_path / "in", batches)
    env, epochs = make_env("spark"), Epochs()
    env.add_listener(epochs)
    source = env.from_dataframe(frame, bounded(0, on="ts").with_idleness("200ms"), split_by="split", order_by="at")
    windows = source.key_by("key").window(tumbling("10s")).agg(n=count()).uid("windows")
    found = windows.execute_and_collect(limit=5)
    assert [(row.window_start, row.n) for row in found] == [
        (0, 3),
        (10_000, 2),
        (60_000, 2),
        (70_000, 2),
        (80_000, 2),
    ]
    assert epochs.counts("windows", "late") == 0


@pytest.mark.row(36)
def test_records_of_a_stream_that_is_ahead_of_its_group_wait_in_state(make_env, spark_session, tmp_path):
    fast = [[record("fast", 10 * batch + n, 1000 * (10 * batch + n)) for n in range(10)] for batch in range(4)]
    slow = [[record("slow", batch, 1000 * batch)] for batch in range(40)]
    strategy = bounded(0, on="ts").with_watermark_alignment("group", "5s")
    env, epochs = make_env("spark"), Epochs()
    env.add_listener(epochs)
    left, right = (
        env.from_dataframe(stream(spark_session, tmp_path / name, batches), strategy, order_by="at")
        for name, batches in (("fast", fast), ("slow", slow))
    )
    passed = left.union(right).key_by("split").map(lambda row: (row.split, row.ts)).uid("pass")
    found = passed.execute_and_collect(limit=80)
    for name, size in (("fast", 40), ("slow", 40)):
        assert [ts for split, ts in found if split == name] == [1000 * n for n in range(size)]
    waiting = 0
    for manifest in epochs.manifests:
        lanes = sorted((time.top, time.count) for time in manifest.lanes.values() if time.top >= 0)
        slow_count, read = lanes[0][1], sum(size for _, size in lanes)
        came = manifest.counters["pass"]["in"]
        # A record passes if the watermark before it is at most the drift ahead of that of the slow stream.
        assert came == min(read, slow_count + slow_count + 6)
        waiting = max(waiting, read - came)
    assert waiting > 20


@pytest.mark.row(97)
def test_an_endless_stream_ends_with_its_range_of_time(make_env, spark_session, tmp_path):
    batches = [[record("x", 3 * batch + n, 10 * (3 * batch + n)) for n in range(3)] for batch in range(6)]
    frame = stream(spark_session, tmp_path / "in", batches)
    env, sink = make_env("spark"), CollectSink()
    strategy = bounded(0, on="ts").between(20, 95)
    env.from_dataframe(frame, strategy, order_by="at").map(lambda row: row.ts).sink_to(sink)
    env.execute()
    assert sink.results == [20, 30, 40, 50, 60, 70, 80, 90]
