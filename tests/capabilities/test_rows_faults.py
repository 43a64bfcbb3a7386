"""Rows 63 and 68 to 76: what a failure in any step does to state and output, by how output is delivered."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, FileSink, StreamExecutionEnvironment, bounded, sum_of, tumbling
from flintstream.engine import manifest as manifests
from flintstream.engine.options import JobOptions
from flintstream.engine.statefiles import read_file
from flintstream.state.storage import LocalStorage
from tests.capabilities.support import Lists
from tests.crash.ports import local
from tests.faults.delivering import WAYS, Delivered, DictSink, LogSink, deliver, places_of, true_counts
from tests.faults.lives import InProcess, World, live
from tests.faults.matrix import MAX_RECORDS, files_in
from tests.faults.on_spark import OnSpark
from tests.faults.points import Fault, Points
from tests.faults.ports import FaultySource

SIX = [("b", 2), ("b", 3), ("c", 1), ("a", 2), ("a", 2), ("c", 2)]


@pytest.fixture
def world(runtime: str, request: pytest.FixtureRequest) -> World:
    return InProcess() if runtime == "local" else OnSpark(request.getfixturevalue("spark_session"))


def points_in(folder: Path, *faults: Fault) -> Points:
    points = Points(str(folder / "points"), faults)
    Path(points.folder).mkdir()
    return points


def state_of(checkpoints: Path, uid: str) -> dict[str, int]:
    """Return an operator's state in the newest checkpoint: a pair for each key."""
    storage = LocalStorage(str(checkpoints))
    newest = manifests.newest(storage)
    assert newest is not None
    state: dict[str, int] = {}
    for file in (file for handle in newest.state.values() for file in handle.files):
        for name, batch in read_file(storage, file).items():
            if name.startswith(f"{uid}/"):
                columns = batch.to_pydict()
                state |= {key: value["f1"] for key, value in zip(columns["key"], columns["value"], strict=True)}
    return state


@pytest.mark.row(63)
def test_six_records_three_keys_one_failure(world: World, tmp_path: Path) -> None:
    """Two checkpoints of three records; the failure comes when all six are processed, before the second one."""
    points = points_in(tmp_path, Fault("driver", "create manifests", 2))
    plain, transactional = LogSink(str(tmp_path / "plain.txt")), FileSink.json(tmp_path / "files")
    early = CollectSink()

    def declare(env: StreamExecutionEnvironment) -> None:
        sums = env.set_parallelism(2).from_source(Lists(SIX)).uid("six").key_by(0).sum(1).uid("sums")
        sums.sink_to(plain).uid("plain")
        sums.sink_to(early, guarantee="at-least-once", isolation="read_uncommitted").uid("early")
        sums.sink_to(transactional).uid("files")

    assert live(world, declare, points, local(tmp_path / "checkpoints"), JobOptions(max_records=3)) == 2
    assert [hit.step for hit in points.hits()] == ["create manifests"]
    assert state_of(tmp_path / "checkpoints", "sums") == {"a": 4, "b": 5, "c": 3}
    once, twice = [("b", 2), ("b", 5), ("c", 1)], [("a", 2), ("a", 4), ("c", 3)]
    assert Counter(early.results) == Counter(once + twice + twice)
    assert Counter(plain.lines()) == Counter(map(str, once + twice + twice))
    rows = [line for data in files_in(tmp_path / "files").values() for line in data.decode().splitlines()]
    assert sorted(rows) == sorted(f'{{"f0":"{key}","f1":{total}}}' for key, total in once + twice)


def failures(world: World, folder: Path, name: str) -> dict[str, Delivered]:
    """Run the job once for each place, with a failure there; tell what each has cost.

    On Spark, where runs are dear, all of them happen in one run, which is called "all".
    """
    way = WAYS[name]
    places = list(places_of(way, world))
    runs = [(f"{step} at {fault.step!r}", fault.step, [fault]) for step, fault in places]
    if world.name == "spark":
        runs = [("do anything", "all", [fault for _, fault in places])]
    told: dict[str, Delivered] = {}
    for what, run, faults in runs:
        (folder / run).mkdir()
        told[run] = each = deliver(world, folder / run, faults, way)
        print(f"{name}, failure to {what}: lost {each.lost}, duplicated {each.duplicated}, dirty {each.taken_back}")
        assert way.keeps(each)
    return told


def costs(told: dict[str, Delivered], field: str) -> set[str]:
    """Return the places where a failure has cost something."""
    return {place for place, each in told.items() if getattr(each, field)}


@pytest.mark.row(68, 71, 72)
def test_exactly_once_loses_nothing_and_doubles_nothing(world: World, tmp_path: Path) -> None:
    told = failures(world, tmp_path, "exactly-once")
    assert costs(told, "lost") == costs(told, "duplicated") == costs(told, "taken_back") == set()
    assert all(each.counts == true_counts() for each in told.values())


@pytest.mark.row(68, 69, 72)
def test_at_most_once_may_lose_and_never_doubles(world: World, tmp_path: Path) -> None:
    told = failures(world, tmp_path, "at-most-once")
    assert costs(told, "duplicated") == set()
    assert costs(told, "lost") == ({"create manifests done", "commit"} if world.name == "local" else {"all"})


@pytest.mark.row(68, 70, 72)
def test_at_least_once_may_double_and_never_loses(world: World, tmp_path: Path) -> None:
    told = failures(world, tmp_path, "at-least-once")
    assert costs(told, "lost") == set()
    shown = {"put", "prepare done", "show done", "create manifests"}
    assert costs(told, "duplicated") == (shown if world.name == "local" else {"all"})
    true = true_counts()
    assert all(each.counts[key] >= true[key] for each in told.values() for key in true)


@pytest.mark.row(74)
def test_read_uncommitted_shows_rows_early_and_takes_dirty_ones_back(world: World, tmp_path: Path) -> None:
    told = failures(world, tmp_path, "read uncommitted")
    assert costs(told, "lost") == costs(told, "duplicated") == set()
    shown = {"put", "prepare done", "show done", "create manifests"}
    assert costs(told, "taken_back") == (shown if world.name == "local" else {"all"})
    assert all(each.counts == true_counts() for each in told.values())


@pytest.mark.row(76)
def test_upserts_come_right_where_appended_rows_are_doubled(world: World, tmp_path: Path) -> None:
    step = "create manifests"
    points = points_in(tmp_path, *(Fault("driver", step, nth) for nth in (2, 4, 7)))
    sinks: dict[str, Any] = {"dict": DictSink(str(tmp_path / "dict")), "log": LogSink(str(tmp_path / "log.txt"))}

    def declare(env: StreamExecutionEnvironment) -> None:
        source = FaultySource(points, "numbers")
        timed = env.set_parallelism(2).from_source(source, bounded("300ms", on="ts")).uid("numbers")
        sums = timed.key_by("key").window(tumbling("1s")).agg(total=sum_of("n"), n=sum_of("key")).uid("sums")
        pairs = sums.map(lambda row: ((row["key"], row["window_start"]), row["total"])).uid("pairs")
        for name, sink in sinks.items():
            pairs.sink_to(sink).uid(name)

    live(world, declare, points, local(tmp_path / "checkpoints"), JobOptions(max_records=MAX_RECORDS // 2))
    assert len(points.hits()) == 3
    expected: Counter[str] = Counter()
    source = FaultySource(points, "numbers")
    for record in (source.record(split, n) for split in range(2) for n in range(source.count)):
        expected[f"{record['key']}-{record['ts'] // 1000 * 1000}"] += record["n"]
    assert sinks["dict"].entries() == {key: str(total) for key, total in expected.items()}
    assert len(sinks["log"].lines()) > len(expected) == len(set(sinks["log"].lines()))
