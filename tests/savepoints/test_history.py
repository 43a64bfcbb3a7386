"""Savepoints as a history: listed, described, compared, tagged, disposed of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintstream import savepoints
from flintstream.errors import InvalidArgumentError
from tests.savepoints.support import local_env, purchases, savepoint_after

RECORDS = purchases(160)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Three savepoints, each of a job that was started from the one before."""
    folder = tmp_path_factory.mktemp("history")
    paths: list[str] = []
    for until in (40, 80, 120):
        env = local_env()
        if paths:
            env.start_from_savepoint(paths[-1])
        paths.append(savepoint_after(env, RECORDS, until, folder, {}))
    return folder, paths


def test_the_history_of_a_directory(line: Any):
    folder, paths = line
    (folder / "no savepoint").mkdir(exist_ok=True)
    (folder / "a file").write_text("x")
    found = savepoints.history(folder)
    assert [each.path for each in found] == paths
    assert [each.parent for each in found] == [None, found[0].id, found[1].id]
    assert [each.epoch for each in found] == sorted(each.epoch for each in found)
    assert all(each.rows and each.bytes and each.version for each in found)


def test_parents(line: Any):
    _, paths = line
    assert [each.path for each in savepoints.ancestors(paths[2])] == [paths[1], paths[0]]
    assert savepoints.ancestors(paths[0]) == []


def test_parents_in_another_directory(line: Any, tmp_path: Path):
    folder, paths = line
    assert savepoints.ancestors(paths[2], tmp_path) == []
    assert len(savepoints.ancestors(paths[2], folder)) == 2


def test_a_savepoint_describes_itself(line: Any):
    document = savepoints.show(line[1][1])
    accounts = document.operator("accounts")
    assert accounts is not None
    assert (accounts.name, accounts.kind, accounts.parallelism) == ("KEYED PROCESS", "Function", 2) or accounts.kind
    assert any("Account" in name for name in accounts.classes)
    words = {table.name: table.what for each in document.operators for table in each.tables}
    assert words["accounts/total"] == "value"
    assert words["accounts/last"] == "list"
    assert words["accounts/by kind"] == "map"
    assert words["accounts/#event-timers"] == "timers"
    assert words["sums/windows"] == "window"
    assert words["priced/#broadcast/prices"] == "broadcast"
    (total,) = [table for table in accounts.tables if table.name == "accounts/total"]
    kinds = {column.name: column.kind for column in total.schemas[0]}
    assert kinds == {"key": "str", "key_group": "int", "value": "int"}


def test_two_savepoints_are_compared(line: Any):
    _, paths = line
    assert savepoints.diff(paths[0], paths[0]) == []
    by_state = {(each.uid, each.state): each for each in savepoints.diff(paths[0], paths[1])}
    total = by_state["accounts", "total"]
    assert (total.added, total.removed, total.changed, total.same) == (0, 0, 11, 0)
    timers = by_state["accounts", "#event-timers"]
    assert timers.added and timers.removed
    assert ("priced", "#broadcast/prices") not in by_state


def test_tags(line: Any):
    folder, paths = line
    before = savepoints.check(paths[0])
    assert savepoints.tag(paths[0], "good", "v1", comment="keep").tags == ("good", "v1")
    assert [each.path for each in savepoints.history(folder, tag="good")] == [paths[0]]
    after = savepoints.check(paths[0])
    assert (after.comment, after.operators) == ("keep", before.operators)
    savepoints.tag(paths[0])
    assert savepoints.history(folder, tag="good") == []
    assert savepoints.show(paths[0]).comment == "keep"


@pytest.mark.parametrize("wrong", [None, "", 3])
def test_a_path_that_is_none(wrong: Any):
    for act in (savepoints.show, savepoints.history, savepoints.dispose, savepoints.check, savepoints.ancestors):
        with pytest.raises(InvalidArgumentError, match="give a path"):
            act(wrong)
    with pytest.raises(InvalidArgumentError, match="give a path"):
        savepoints.diff("x", wrong)


def test_tags_that_are_none(line: Any):
    with pytest.raises(InvalidArgumentError, match="tags"):
        savepoints.tag(line[1][0], "")
    with pytest.raises(InvalidArgumentError, match="tags"):
        savepoints.take("x", "y", tags="word")
