"""Where jobs keep their state that name no checkpoint directory: each of a program has a place of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintstream import CollectSink, FileSink, StreamExecutionEnvironment
from flintstream.api.environment import SETTINGS_VARIABLE
from flintstream.engine.manifest import newest
from flintstream.state.storage import LocalStorage


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "root"
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps({"flintstream.checkpoint-root": str(folder)}))
    return folder


def places(root: Path) -> list[str]:
    return sorted((path.name for path in root.iterdir()), key=int) if root.exists() else []


def test_jobs_of_one_program_do_not_meet(root: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        env = environment()
        env.from_collection([name]).sink_to(FileSink.json(str(tmp_path / name)))
        assert env.guarantee().guarantee.value == "exactly-once"
        env.execute(name)
    first, second = places(root)
    assert int(second) == int(first) + 1
    manifests = [newest(LocalStorage(str(root / place))) for place in (first, second)]
    assert [manifest and manifest.job for manifest in manifests] == ["first", "second"]


def test_what_the_program_says_wins(root: Path, tmp_path: Path) -> None:
    env = environment().set_checkpoint_dir(str(tmp_path / "mine"))
    env.from_collection([1]).print()
    env.execute()
    assert places(root) == []
    assert newest(LocalStorage(str(tmp_path / "mine"))) is not None


def test_what_is_collected_is_collected_again(root: Path) -> None:
    assert list(environment().from_collection([1, 2]).execute_and_collect()) == [1, 2]
    env, sink = environment(), CollectSink()
    env.from_collection([1, 2]).sink_to(sink)
    env.execute()
    assert places(root) == []
