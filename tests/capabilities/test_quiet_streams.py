"""Streams of Spark's that bring nothing: event time and the clock go on without them, or wait, as the program says."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    ProcessWindowFunction,
    Time,
    TumblingProcessingTimeWindows,
    bounded,
    count,
    tumbling,
)
from flintstream.model.time import MIN_TIMESTAMP
from tests.capabilities.test_frames import SCHEMA, record, stream_of, write_batches

pytestmark = pytest.mark.spark
TIMES = [1, 2, 11, 12, 21]


def two_streams(env: Any, session: Any, folder: Any, strategy: Any) -> Any:
    """Return the union of a stream that is read to its end at once, and of one that never brings anything."""
    (folder / "silent").mkdir()
    active = write_batches(folder / "active", [[record(0, at, ts)] for at, ts in enumerate(TIMES)])
    streams = [stream_of(session, str(path)) for path in (active, folder / "silent")]
    first, second = (env.from_dataframe(stream, strategy, order_by="at") for stream in streams)
    return first.union(second).key_by("key").window(tumbling("10ms")).agg(n=count()).name("windows")


def test_a_silent_stream_beside_an_active_one_is_left_out_once_it_is_idle(make_env, spark_session, tmp_path):
    strategy = bounded(0, on="ts").with_idleness("300ms")
    windows = two_streams(make_env("spark"), spark_session, tmp_path, strategy)
    # With both idle, event time stands where the active one has brought it: the last window is still open.
    assert [(row.window_start, row.n) for row in windows.execute_and_collect(limit=2)] == [(0, 2), (10, 2)]


def test_without_idleness_event_time_waits_for_the_silent_stream(make_env, spark_session, tmp_path):
    env, kept, all_read = make_env("spark"), CollectSink(), threading.Event()
    manifests: list[Any] = []

    def listen(manifest: Any, *_: Any) -> None:
        manifests.append(manifest)
        if manifest.counters.get("windows-1", {}).get("in", 0) == len(TIMES):
            all_read.set()

    two_streams(env.add_listener(listen), spark_session, tmp_path, bounded(0, on="ts")).sink_to(kept)
    client = env.execute_async()
    assert all_read.wait(60)
    client.cancel().result()
    assert {manifest.watermarks["windows-1"] for manifest in manifests} == {MIN_TIMESTAMP}
    assert kept.results == []


class Sizes(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield len(list(elements))


def test_a_window_by_the_clock_fires_after_its_stream_has_gone_quiet(make_env, spark_session, tmp_path):
    env = make_env("spark")
    folder = write_batches(tmp_path / "in", [[record(0, at, ts)] for at, ts in enumerate(TIMES)])
    stream = env.from_dataframe(stream_of(spark_session, folder, SCHEMA))
    windows = stream.key_by("key").window(TumblingProcessingTimeWindows.of(Time.milliseconds(200))).process(Sizes())
    counted = 0
    with windows.execute_and_collect() as sizes:
        while counted < len(TIMES):
            counted += next(sizes)
    assert counted == len(TIMES)
