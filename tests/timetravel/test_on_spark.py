"""What only Spark reads: streams of its own that are caught up with, files chosen by their age."""

from __future__ import annotations

import os
from typing import Any

import pytest

from flintstream import CollectSink, FileSource, bounded, count, tumbling
from tests.capabilities.test_frames import record, stream_of, write_batches
from tests.timetravel.programs import WAIT

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("idleness", [None, "1h"], ids=["without ticks", "with ticks"])
def test_a_stream_that_spark_reads_is_caught_up_with(
    make_env: Any, spark_session: Any, tmp_path: Any, idleness: Any
) -> None:
    """With idleness epochs run on ticks of the clock, which are no input to catch up with."""
    frame = stream_of(spark_session, write_batches(tmp_path / "in", [[record("x", n, 10 * n)] for n in range(3)]))
    env, sink = make_env("spark"), CollectSink()
    strategy = bounded(0, on="ts") if idleness is None else bounded(0, on="ts").with_idleness(idleness)
    rows = env.from_dataframe(frame, strategy, order_by="at")
    rows.key_by("key").window(tumbling("10ms")).agg(n=count()).sink_to(sink)
    client = env.execute_async()
    client.caught_up().result(WAIT)
    assert [row.window_start for row in sink.results] == [0, 10]
    client.cancel().result(WAIT)


def test_files_are_chosen_by_the_time_of_their_last_change(make_env: Any, tmp_path: Any) -> None:
    for age, name in enumerate("abc"):
        (tmp_path / name).write_text(f"{name}\n")
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    once = make_env("spark").from_source(FileSource.text(tmp_path), start_from=1_001_000, until=1_002_000)
    assert list(once.execute_and_collect()) == ["b"]
    watched = make_env("spark").from_source(FileSource.text(tmp_path, monitor="1s"), start_from=1_001_000)
    assert sorted(watched.execute_and_collect(limit=2)) == ["b", "c"]
