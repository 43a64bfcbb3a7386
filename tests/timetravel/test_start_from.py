"""Where reading begins and ends: by a log's own time, by positions, by the age of files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectionSource,
    CollectSink,
    DataGeneratorSource,
    FileSource,
    NumberSequenceSource,
    Source,
    bounded,
    count,
    tumbling,
)
from flintstream.errors import FlintstreamError, InvalidArgumentError, SourceError, TypeMismatchError, UnsupportedError
from tests.capabilities.support import StopAfter, StoppedOnPurpose
from tests.timetravel.log import FileLog, append, filled
from tests.timetravel.programs import produced

TEN = [(1000 * n, n) for n in range(10)]


@pytest.fixture
def local(make_env: Any) -> Any:
    return lambda **settings: make_env("local", **settings)


def read(env: Any, source: Source, **places: Any) -> list[Any]:
    return sorted(env.from_source(source, **places).execute_and_collect())


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"until": "now"}, range(10)),
        ({"start_from": 7000, "until": "now"}, [7, 8, 9]),
        ({"start_from": "1970-01-01T00:00:06.500", "until": 8000}, [7]),
        ({"start_from": {"a": 8}, "until": "now"}, [8, 9]),
        ({"start_from": {"a": 2}, "until": {"a": 4}}, [2, 3]),
        ({"start_from": 2000, "until": {"a": 4}}, [2, 3]),
        ({"until": 3000}, [0, 1, 2]),
        ({"start_from": 99_000, "until": "now"}, []),
        ({"start_from": "now", "until": "now"}, []),
        ({"start_from": {"a": 4}, "until": 2000}, []),
    ],
)
def test_a_log_is_read_from_where_to_where_it_is_said(local, tmp_path, places, expected):
    log = FileLog(filled(tmp_path / "log", a=TEN))
    assert read(local(max_records=3), log, **places) == list(expected)


def test_every_part_is_looked_up_for_itself(local, tmp_path):
    log = FileLog(filled(tmp_path / "log", a=TEN, b=[(1000 * n, 10 + n) for n in range(0, 10, 3)]))
    assert read(local(), log, start_from=4000, until=9000) == [4, 5, 6, 7, 8, 16]
    assert read(local(), log, start_from={"b": 3}, until={"a": 2, "b": 4}) == [0, 1, 19]


@pytest.mark.parametrize(
    ("source", "places", "expected"),
    [
        (NumberSequenceSource(1, 10), {"start_from": {0: 3, 1: 7}, "until": {0: 4, 1: 99}}, [4, 8, 9, 10]),
        (CollectionSource("abcd"), {"start_from": {0: 2}}, ["c", "d"]),
        (DataGeneratorSource(generator=lambda n: n, splits=2), {"until": {0: 2, 1: 1}}, [0, 1, 2]),
    ],
)
def test_sources_with_positions_are_read_by_them(local, source, places, expected):
    assert read(local(), source, **places) == expected


def test_files_are_chosen_by_the_time_of_their_last_change(local, tmp_path):
    for age, name in enumerate("abc"):
        (tmp_path / name).write_text(f"{name}\n")
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    files = FileSource.text(tmp_path)
    assert read(local(), files, start_from=1_001_000) == ["b", "c"]
    assert read(local(), files, start_from=1_001_000, until="1970-01-01T00:16:42") == ["b"]
    assert read(local(), files, until="now") == ["a", "b", "c"]


def counted(env: Any, log: FileLog, sink: CollectSink, **places: Any) -> Any:
    windows = env.from_source(log, watermark=bounded(0), **places).uid("log").key_by(lambda n: 0)
    windows.window(tumbling("4s")).agg(n=count()).map(lambda row: (row.window_start, row.n)).sink_to(sink).uid("out")
    return env


def test_a_job_that_is_started_again_neither_rewinds_nor_moves_its_end(local, tmp_path):
    folder, sink = filled(tmp_path / "log", a=TEN), CollectSink()
    places = {"start_from": 2000, "until": "now"}
    env = counted(local(max_records=3, checkpoint_dir=tmp_path / "state"), FileLog(folder), sink, **places)
    with pytest.raises(StoppedOnPurpose):
        env.add_listener(StopAfter(1)).execute()
    append(folder, "a", [(10_000, 10), (11_000, 11)])
    append(folder, "b", [(10_000, 10)])
    counted(local(max_records=3, checkpoint_dir=tmp_path / "state"), FileLog(folder, 1), sink, **places).execute()
    assert sink.results == [(0, 2), (4000, 4), (8000, 2)]


def test_with_a_savepoint_its_positions_count_and_that_is_said(local, tmp_path, caplog):
    folder = filled(tmp_path / "log", a=TEN[:6])

    def program(env: Any, **places: Any) -> CollectSink:
        env.from_source(FileLog(folder), **places).uid("log").sink_to(sink := CollectSink()).uid("out")
        return sink

    savepoint = produced(local(), program, tmp_path / "savepoints")
    append(folder, "a", TEN[6:])
    env = local()
    sink = program(env, start_from={"a": 1}, until={"a": 9})
    env.start_from_savepoint(savepoint).execute()
    assert sink.results == [6, 7, 8]
    assert "source 'log' begins where the savepoint says, and not at its start_from" in caplog.text


@pytest.mark.parametrize(
    ("until", "rest"),
    [("now", {4000: 7, 8000: 2}), ({"a": 6, "b": 3}, {4000: 5}), ({"a": 1, "b": 0}, {4000: 1})],
    ids=["now", "later", "before what was read"],
)
def test_a_job_that_went_on_can_be_told_to_end(local, tmp_path, until, rest):
    """Its checkpoint has no ends; those of parts it has read beyond are over, those that came up since are read."""
    folder, sink = filled(tmp_path / "log", a=TEN), CollectSink()
    env = counted(local(max_records=5, checkpoint_dir=tmp_path / "state"), FileLog(folder), sink)
    with pytest.raises(StoppedOnPurpose):
        env.add_listener(StopAfter(1)).execute()
    append(folder, "b", [(4000 + 1000 * n, n) for n in range(3)])
    counted(local(checkpoint_dir=tmp_path / "state"), FileLog(folder), sink, until=until).execute()
    assert dict(sink.results) == {0: 4, **rest}


@pytest.mark.parametrize(
    ("source", "places", "error", "message"),
    [
        (
            "log",
            {"start_from": {"z": 1}, "until": "now"},
            SourceError,
            "there is no split 'z'.*there are: 'a'",
        ),
        ("log", {"until": {"z": 1}}, SourceError, "there is no split 'z'"),
        ("log", {"start_from": 1.5}, TypeMismatchError, r'start_from is 1.5; .*"now"'),
        ("log", {"start_from": "yesterday"}, TypeMismatchError, "start_from is 'yesterday'"),
        ("log", {"start_from": {}}, InvalidArgumentError, "start_from names no split"),
        ("log", {"until": {"a": -1}}, InvalidArgumentError, "until has the position -1"),
        ("log", {"until": {"a": True}}, InvalidArgumentError, "until has the position True"),
        ("log", {"start_from": 2000, "until": 2000}, InvalidArgumentError, "nothing from time 2000 to time 2000"),
        ("log", {"start_from": {"a": 3}, "until": {"a": 2}}, InvalidArgumentError, "nothing from a: 3 to a: 2"),
        ("log", {"until": int(time.time() * 1000) + 10 * 86_400_000}, InvalidArgumentError, "in the future"),
        ("numbers", {"start_from": 1000}, UnsupportedError, "NumberSequenceSource keeps none with its records"),
        ("numbers", {"start_from": "now"}, UnsupportedError, "does not grow"),
        ("generator", {"until": {0: 5}}, SourceError, "until says nothing of split 1"),
        ("files", {"start_from": {"a": 1}}, UnsupportedError, "files have none"),
        ("watched", {"until": 1000}, InvalidArgumentError, "watched for new files"),
        ("own", {"start_from": 1000}, UnsupportedError, "Own has no positions"),
    ],
)
def test_what_cannot_be_is_refused_with_the_users_line(local, tmp_path, source, places, error, message):
    with pytest.raises(FlintstreamError, match=rf"(?s){message}") as caught:
        read(local(), source_called(source, tmp_path), **places)
    assert type(caught.value) is error
    assert "test_start_from.py:" in str(caught.value)


class Own(Source):
    is_bounded = True


def source_called(name: str, folder: Path) -> Source:
    return {
        "log": lambda: FileLog(filled(folder / "log", a=TEN)),
        "numbers": lambda: NumberSequenceSource(1, 10),
        "generator": lambda: DataGeneratorSource(generator=int, splits=2),
        "files": lambda: FileSource.text(folder),
        "watched": lambda: FileSource.text(folder, monitor="1s"),
        "own": Own,
    }[name]()
