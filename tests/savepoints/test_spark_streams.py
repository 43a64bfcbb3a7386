"""Savepoints of jobs that read streams of Spark's own: a new Spark checkpoint begins with the offsets in them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, JobClient, StreamExecutionEnvironment, savepoints
from tests.capabilities.test_rows_savepoints import Totals

pytestmark = pytest.mark.spark


def declare(env: StreamExecutionEnvironment, session: Any, folder: Path, sink: CollectSink, uid: str = "files") -> None:
    frame = session.readStream.schema("n long").json(str(folder))
    stream = env.from_dataframe(frame).uid(uid).map(lambda row: row.n)
    stream.key_by(lambda n: n % 4).process(Totals()).uid("totals").sink_to(sink)


def write(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f'{{"n": {n}}}\n' for n in numbers))


def run_until(env: StreamExecutionEnvironment, sink: CollectSink, number: int) -> JobClient:
    """Start a job and wait until so many results are there."""
    there = threading.Event()
    env.add_listener(lambda manifest, reports, seconds: there.set() if len(sink.results) >= number else None)
    client = env.execute_async("job")
    client.get_job_execution_result().add_done_callback(lambda _: there.set())
    assert there.wait(100)
    return client


def test_offsets_go_with_the_state(make_env: Any, spark_session: Any, tmp_path: Path):
    write(tmp_path / "in", "1.json", range(1, 21))
    first = CollectSink()
    env = make_env("spark", checkpoint_dir=tmp_path / "one")
    declare(env, spark_session, tmp_path / "in", first)
    client = run_until(env, first, 20)
    beside = client.trigger_savepoint(str(tmp_path / "savepoints")).result(100)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(100)
    assert savepoints.check(beside).operators == savepoints.check(path).operators
    assert savepoints.show(path).extra
    write(tmp_path / "in", "2.json", range(21, 41))
    second = CollectSink()
    env = make_env("spark", checkpoint_dir=tmp_path / "two").start_from_savepoint(path)
    declare(env, spark_session, tmp_path / "in", second)
    client = run_until(env, second, 20)
    drained = client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(100)
    assert savepoints.show(drained).finished
    assert len(second.results) == 20
    assert max(row for row in second.results if row[0] == 0) == (0, sum(range(4, 41, 4)), 10)


def test_another_stream_begins_anew(make_env: Any, spark_session: Any, tmp_path: Path):
    write(tmp_path / "in", "1.json", range(1, 9))
    first, second = CollectSink(), CollectSink()
    env = make_env("spark")
    declare(env, spark_session, tmp_path / "in", first)
    path = run_until(env, first, 8).stop_with_savepoint(False, str(tmp_path / "savepoints")).result(100)
    env = make_env("spark").start_from_savepoint(path)
    declare(env, spark_session, tmp_path / "in", second, "other files")
    client = run_until(env, second, 8)
    client.cancel().result(100)
    assert max(row for row in second.results if row[0] == 0) == (0, 2 * (4 + 8), 4)
