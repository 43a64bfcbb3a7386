"""Rows 1 to 4, 12 and 148: what a program is, and how it becomes tasks."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from flintstream import CollectSink, MapFunction, WindowFunction, monotonous, tumbling
from flintstream.errors import DanglingStreamError, DefinitionError
from tests.capabilities.support import Epochs, Lists, WithSubtask, collect

TWEETS = ["#spark is fast", "I like #flink and #spark", "no tag here", "#python"] * 5
RENDEZVOUS_SECONDS = 60


def hashtags(text: str) -> list[str]:
    return [word for word in text.split() if word.startswith("#")]


@pytest.mark.row(1)
def test_a_stream_that_ends_nowhere_is_named_with_its_line(env):
    started = Epochs()
    env.add_listener(started)
    env.from_collection([1, 2]).map(str).name("Words")
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(DanglingStreamError, match=rf"no sink: 'Words' \(test_rows_program\.py:{line}\).*print\(\)"):
        env.execute()
    assert len(started) == 0


@pytest.mark.row(1)
def test_a_job_without_a_source_is_refused(env):
    with pytest.raises(DefinitionError, match="no source"):
        env.execute()


@pytest.mark.row(2)
def test_explain_shows_the_hashtag_count_as_operators_and_as_tasks(env, runtime, capsys):
    tweets = env.from_collection(TWEETS)
    tweets.flat_map(hashtags).name("Hashtags").key_by(lambda tag: tag).map(lambda tag: (tag, 1)).name("Count").print()
    text = env.explain()
    assert capsys.readouterr().out == f"{text}\n"
    head, _, rest = text.partition("Logical graph\n")
    logical, _, physical = rest.partition("Levels\n")
    assert runtime in head
    rows = logical.splitlines()
    assert [name for name in ("Collection Source", "Hashtags", "Count", "Print") if name in logical] == [
        "Collection Source",
        "Hashtags",
        "Count",
        "Print",
    ]
    assert len(rows) == 4
    assert "FORWARD" in rows[1]
    assert "HASH" in rows[2]
    assert "FORWARD" in rows[3]
    assert "Count[0], Count[1]" in physical
    assert "Hashtags[0]" in physical
    assert "Hashtags[1]" not in physical
    assert "Hashtags -> Count at level 1, HASH" in physical


@pytest.mark.row(3)
def test_parallelism_does_not_change_results(new_env):
    results = {}
    for parallelism in (1, 4):
        stream = new_env(parallelism).from_collection(TWEETS).flat_map(hashtags).map(lambda tag: (tag, 1))
        results[parallelism] = collect(stream.key_by(0).sum(1))
    assert results[1] == results[4]
    assert max(results[4]) == ("#spark", 10)


@pytest.mark.row(3)
def test_both_of_two_tasks_have_a_share_of_the_work(env):
    epochs = Epochs()
    env.add_listener(epochs)
    numbers = env.from_collection(range(200)).key_by(lambda n: n % 20).map(WithSubtask()).name("Count")
    sink = CollectSink()
    numbers.sink_to(sink)
    node = next(op.id for op in env.compile().operators if op.node.name == "Count")
    env.execute()
    shares = epochs.records_in(node)
    assert set(shares) == {0, 1}
    assert all(share > 0 for share in shares.values())
    assert sum(shares.values()) == 200
    assert {task for _, task in sink.results} == {0, 1}


class Slow(MapFunction):
    def map(self, value: int) -> int:
        time.sleep(0.01)
        return value


@pytest.mark.row(4)
def test_a_branch_progresses_while_another_sleeps(new_env):
    """After each epoch both branches have come further, and neither has waited for the other's end."""
    env = new_env(max_records=4)
    slow, quick, progress = CollectSink(), CollectSink(), []
    env.from_source(Lists(range(6))).map(Slow()).sink_to(slow)
    env.from_source(Lists(range(100, 106))).map(lambda n: n).sink_to(quick)
    env.add_listener(lambda manifest, reports, seconds: progress.append((len(slow.results), len(quick.results))))
    env.execute()
    assert progress == [(2, 2), (4, 4), (6, 6)]


class MeetOther(MapFunction):
    """Says that it is here, and goes on only when the other branch is, too."""

    def __init__(self, folder: Path, me: str, other: str) -> None:
        self._me, self._other = folder / me, folder / other

    def map(self, value: int) -> int:
        self._me.touch()
        deadline = time.monotonic() + RENDEZVOUS_SECONDS
        while not self._other.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._other.name} was not running beside {self._me.name}")
            time.sleep(0.01)
        return value


@pytest.mark.row(4)
@pytest.mark.spark
def test_two_branches_work_at_the_same_moment(make_env, tmp_path):
    env = make_env("spark")
    left = env.from_source(Lists([1])).map(MeetOther(tmp_path, "left", "right"))
    right = env.from_source(Lists([2])).map(MeetOther(tmp_path, "right", "left"))
    assert sorted(collect(left.union(right))) == [1, 2]


class CountVisits(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.start, len(list(inputs))


@pytest.mark.row(12)
def test_a_window_by_country_is_one_chain_of_calls(env):
    minute = 60_000
    visits = [("DE", 0), ("FR", 5 * minute), ("DE", 59 * minute), ("DE", 61 * minute)]
    stream = env.from_collection([{"country": c, "ts": t} for c, t in visits]).assign_timestamps_and_watermarks(
        monotonous(on="ts")
    )
    result = stream.key_by("country").window(tumbling("60 minutes")).apply(CountVisits())
    assert sorted(collect(result)) == [("DE", 0, 2), ("DE", 60 * minute, 1), ("FR", 0, 1)]


@pytest.mark.row(12)
def test_the_stream_may_have_no_end(new_env):
    squares = new_env(max_records=50).generate(generator=lambda i: i, splits=1).map(lambda i: i * i)
    assert squares.filter(lambda n: n % 2 == 0).execute_and_collect(limit=60) == [(2 * i) ** 2 for i in range(60)]


@pytest.mark.row(148)
def test_a_breakpoint_stops_in_the_thread_that_called_execute(make_env, monkeypatch):
    stops = []

    def hook() -> None:
        frame = inspect.currentframe().f_back
        stops.append((os.getpid(), threading.get_ident(), frame.f_locals["value"]))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    class Stops(MapFunction):
        def map(self, value):
            breakpoint()
            return value

    before = psutil.Process().children(recursive=True)
    env = make_env("local")
    env.from_collection([1, 2]).map(Stops()).key_by(lambda n: n).map(Stops()).print()
    env.execute()
    here = (os.getpid(), threading.get_ident())
    assert sorted(stops) == [(*here, 1), (*here, 1), (*here, 2), (*here, 2)]
    assert psutil.Process().children(recursive=True) == before


@pytest.mark.row(148)
def test_pdb_sees_the_variables_of_a_users_function(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            from flintstream import StreamExecutionEnvironment

            def double(value):
                breakpoint()
                return value * 2

            env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
            env.from_collection([21]).map(double).print("result")
            env.execute()
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(program)], input="p ('seen', value)\nc\n", capture_output=True, text=True, check=True
    )
    assert "('seen', 21)" in done.stdout
    assert "result> 42" in done.stdout
