"""Rows 96, 100 and 153: input that ends, as a stream and as a batch, and the quick start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flintstream import (
    CollectSink,
    FileSource,
    JobStatus,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    avg,
    bounded,
    count,
    demo,
    sum_of,
    tumbling,
)
from flintstream.model.time import MAX_TIMESTAMP
from tests.capabilities.support import Epochs, Lists

RESULT_LINE = re.compile(r"^sensor_\d+ +2026-01-01 00:\d\d:\d[05]  -?\d+\.\d$", re.MULTILINE)


class Total(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(element.n for element in elements), context.current_watermark()


class AtTheEnd(KeyedProcessFunction):
    """Sets an alarm for the end of time."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


@pytest.mark.row(96)
def test_a_job_on_files_ends_by_itself_with_all_windows_fired(env, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [{"id": "ab"[n % 2], "ts": n * 4, "n": n} for n in range(10)]
    for number, part in enumerate((rows[:6], rows[6:])):
        (folder / f"part-{number}.json").write_text("".join(f"{json.dumps(row)}\n" for row in part))
    epochs, windows, ends = Epochs(), CollectSink(), CollectSink()
    env.add_listener(epochs)
    stream = env.from_source(
        FileSource.json(folder, "id STRING, ts BIGINT, n BIGINT"), watermark=bounded("50ms", on="ts")
    )
    stream.key_by("id").window(tumbling("20ms")).process(Total()).sink_to(windows)
    stream.key_by("id").process(AtTheEnd()).sink_to(ends)
    client = env.execute_async()
    client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert sorted(windows.results) == [
        ("a", 0, 0 + 2 + 4, MAX_TIMESTAMP),
        ("a", 20, 6 + 8, MAX_TIMESTAMP),
        ("b", 0, 1 + 3, MAX_TIMESTAMP),
        ("b", 20, 5 + 7 + 9, MAX_TIMESTAMP),
    ]
    assert sorted(ends.results) == [(key, MAX_TIMESTAMP, MAX_TIMESTAMP) for key in "ab"]
    assert epochs.manifests[-1].finished
    assert set(epochs.manifests[-1].watermarks.values()) == {MAX_TIMESTAMP}


def results_in(new_env, mode: RuntimeExecutionMode) -> tuple[list, list, int]:
    env, windows, totals, epochs = new_env(max_records=200), CollectSink(), CollectSink(), Epochs()
    env.set_runtime_mode(mode).add_listener(epochs)
    rows = [{"id": f"s{n % 3}", "ts": n * 7 % 1000, "n": n} for n in range(500)]
    stream = env.from_source(Lists(rows[:250], rows[250:]), watermark=bounded("1s", on="ts"))
    stream.key_by("id").window(tumbling("100ms")).agg(n=count(), total=sum_of("n"), mean=avg("n")).sink_to(windows)
    stream.key_by("id").map_with_state(lambda row, seen: ((row["id"], (seen or 0) + 1), (seen or 0) + 1)).sink_to(
        totals
    )
    env.execute()
    return sorted(map(tuple, windows.results)), sorted(totals.results), len(epochs)


@pytest.mark.row(100)
def test_batch_mode_gives_what_streaming_gives(new_env):
    streaming = results_in(new_env, RuntimeExecutionMode.STREAMING)
    batch = results_in(new_env, RuntimeExecutionMode.BATCH)
    automatic = results_in(new_env, RuntimeExecutionMode.AUTOMATIC)
    assert streaming[:2] == batch[:2] == automatic[:2]
    assert len(streaming[0]) == 30
    assert (streaming[2], batch[2], automatic[2]) == (3, 1, 1)


@pytest.mark.row(100)
def test_batch_mode_keeps_no_state(new_env, tmp_path):
    env, epochs = new_env(checkpoint_dir=tmp_path), Epochs()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).add_listener(epochs)
    env.from_collection([("a", 1), ("a", 2)]).key_by(0).sum(1).print()
    env.execute()
    assert not any(handle.files for handle in epochs.manifests[-1].state.values())


@pytest.mark.row(153)
def test_the_demo_prints_averages_and_ends(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo", "--runtime", "local", "--readings", "30000"])
    demo.main()
    check_demo(*capsys.readouterr(), "30,000")


@pytest.mark.row(153)
@pytest.mark.spark
def test_the_demo_runs_on_spark_as_users_start_it(tmp_path):
    command = [sys.executable, "-m", "flintstream.demo", "--readings", "30000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    check_demo(done.stdout, done.stderr, "30,000")
    assert list(Path(tmp_path).iterdir()) == []


def check_demo(out: str, err: str, readings: str) -> None:
    lines = RESULT_LINE.findall(out)
    assert len(lines) == 12, out
    assert all(10 < float(line.split()[-1]) < 35 for line in lines)
    assert f"averages of {readings} readings" in out
    assert "Try next" in out
    assert re.search(r"epoch \d+ .*30,000 in .*watermark end of input", err)
