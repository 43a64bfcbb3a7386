"""Starting from savepoints: other code, another parallelism, another place, and what is refused."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, LogPart, LogSource, StreamExecutionEnvironment, savepoints
from flintstream.engine.savepoint_format import positions_of, read_document, savepoint_storage, to_bytes
from flintstream.errors import (
    CorruptStateError,
    IncompatibleStateError,
    InvalidArgumentError,
    SavepointError,
    UnknownUidError,
)
from tests.capabilities.support import Lists, StopAfter, StoppedOnPurpose
from tests.savepoints.support import (
    Account,
    declare,
    finish,
    held_at,
    local_env,
    purchases,
    results,
    savepoint_after,
)

RECORDS = purchases(240)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, list[Any]]:
    sinks: dict[str, CollectSink] = {}
    finish(local_env(), RECORDS, sinks)
    return results(sinks)


@pytest.fixture(scope="module")
def first_half(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, list[Any]]]:
    """A savepoint in the midst of the input, and what had come out until then."""
    folder = tmp_path_factory.mktemp("first")
    sinks: dict[str, CollectSink] = {}
    path = savepoint_after(local_env(checkpoint_dir=folder / "checkpoints"), RECORDS, 120, folder / "savepoints", sinks)
    return path, {name: sink.results for name, sink in sinks.items()}


def both(before: dict[str, list[Any]], sinks: dict[str, CollectSink]) -> dict[str, list[Any]]:
    return {name: sorted([*before[name], *sink.results], key=repr) for name, sink in sinks.items()}


@pytest.mark.parametrize("parallelism", [2, 4, 1, 3])
@pytest.mark.parametrize("kept", [True, False])
def test_results_are_those_of_one_run(first_half: Any, undisturbed: Any, tmp_path: Path, parallelism: int, kept: bool):
    path, before = first_half
    env = local_env(parallelism, tmp_path / "checkpoints" if kept else None).start_from_savepoint(path)
    sinks: dict[str, CollectSink] = {}
    finish(env, RECORDS, sinks)
    assert both(before, sinks) == undisturbed


def test_rescaled_from_2_to_4_to_1(undisturbed: Any, tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    first = savepoint_after(local_env(2), RECORDS, 80, tmp_path, sinks)
    second = savepoint_after(local_env(4).start_from_savepoint(first), RECORDS, 160, tmp_path, sinks)
    finish(local_env(1).start_from_savepoint(second), RECORDS, sinks)
    assert results(sinks) == undisturbed
    assert savepoints.show(second).parent == savepoints.show(first).id
    assert [each.path for each in savepoints.ancestors(second)] == [first]


def test_spilling_state_is_restored(first_half: Any, undisturbed: Any, tmp_path: Path):
    path, before = first_half
    env = local_env(2, tmp_path, settings={"flintstream.state.entries-in-memory": "5"}).start_from_savepoint(path)
    sinks: dict[str, CollectSink] = {}
    finish(env, RECORDS, sinks)
    assert both(before, sinks) == undisturbed


def test_a_savepoint_of_spilling_state(undisturbed: Any, tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    env = local_env(2, tmp_path / "checkpoints", settings={"flintstream.state.entries-in-memory": "5"})
    path = savepoint_after(env, RECORDS, 120, tmp_path / "savepoints", sinks)
    finish(local_env(3).start_from_savepoint(path), RECORDS, sinks)
    assert results(sinks) == undisturbed


def test_any_savepoint_not_only_the_latest(undisturbed: Any, tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 60) as (client, gate):
        taken = client.trigger_savepoint(str(tmp_path / "savepoints"))
        before = {name: list(sink.results) for name, sink in sinks.items()}
        gate.go_on()
        first = taken.result(60)
    client.get_job_execution_result().result(60)
    again: dict[str, CollectSink] = {}
    finish(local_env().start_from_savepoint(first), RECORDS, again)
    assert both(before, again) == undisturbed


def test_a_copy_elsewhere_is_as_good(first_half: Any, undisturbed: Any, tmp_path: Path):
    path, before = first_half
    shutil.copytree(path, tmp_path / "on another machine")
    sinks: dict[str, CollectSink] = {}
    finish(local_env().start_from_savepoint(str(tmp_path / "on another machine")), RECORDS, sinks)
    assert both(before, sinks) == undisturbed
    assert str(Path(path).parent) not in (Path(path) / "savepoint.json").read_text()


@pytest.mark.parametrize("form", ["directory", "manifest"])
def test_a_checkpoint_of_another_job_does_as_well(undisturbed: Any, tmp_path: Path, form: str):
    sinks: dict[str, CollectSink] = {}
    savepoint_after(local_env(checkpoint_dir=tmp_path / "first"), RECORDS, 120, tmp_path / "savepoints", sinks)
    path = tmp_path / "first"
    if form == "manifest":
        path = sorted((path / "manifests").iterdir())[-1]
    finish(local_env(3, tmp_path / "second").start_from_savepoint(str(path)), RECORDS, sinks)
    assert results(sinks) == undisturbed


def test_by_configuration(first_half: Any, undisturbed: Any):
    path, before = first_half
    settings = {"execution.state-recovery.path": path, "execution.state-recovery.claim-mode": "NO_CLAIM"}
    sinks: dict[str, CollectSink] = {}
    finish(local_env(settings=settings), RECORDS, sinks)
    assert both(before, sinks) == undisturbed


def test_a_savepoint_is_never_claimed():
    with pytest.raises(InvalidArgumentError, match="NO_CLAIM"):
        local_env(settings={"execution.state-recovery.claim-mode": "CLAIM"})


def test_after_a_crash_the_job_goes_on_from_its_own_checkpoint(first_half: Any, undisturbed: Any, tmp_path: Path):
    path, before = first_half
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path).start_from_savepoint(path)
    declare(env, Lists(RECORDS), sinks)
    env.add_listener(StopAfter(2))
    with pytest.raises(StoppedOnPurpose):
        env.execute("job")
    finish(local_env(checkpoint_dir=tmp_path).start_from_savepoint(path), RECORDS, sinks)
    assert both(before, sinks) == undisturbed


def test_a_crash_before_the_first_epoch_begins_again(first_half: Any, undisturbed: Any, tmp_path: Path):
    path, before = first_half
    (tmp_path / "manifests").write_text("in the way")
    env = local_env(checkpoint_dir=tmp_path).start_from_savepoint(path)
    with pytest.raises(Exception, match="epoch"):
        finish(env, RECORDS, {})
    (tmp_path / "manifests").unlink()
    sinks: dict[str, CollectSink] = {}
    finish(local_env(checkpoint_dir=tmp_path).start_from_savepoint(path), RECORDS, sinks)
    assert both(before, sinks) == undisturbed


def test_the_savepoint_is_not_needed_after_the_first_epoch(first_half: Any, undisturbed: Any, tmp_path: Path):
    path, before = first_half
    copy = tmp_path / "savepoint"
    shutil.copytree(path, copy)
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path / "checkpoints").start_from_savepoint(str(copy))
    declare(env, Lists(RECORDS), sinks)
    env.add_listener(StopAfter(1))
    with pytest.raises(StoppedOnPurpose):
        env.execute("job")
    savepoints.dispose(copy)
    assert not copy.exists()
    finish(local_env(checkpoint_dir=tmp_path / "checkpoints").start_from_savepoint(str(copy)), RECORDS, sinks)
    assert both(before, sinks) == undisturbed


def test_a_directory_of_another_descent_is_refused(first_half: Any, tmp_path: Path):
    finish(local_env(checkpoint_dir=tmp_path), RECORDS, {})
    env = local_env(checkpoint_dir=tmp_path).start_from_savepoint(first_half[0])
    with pytest.raises(SavepointError, match="do not descend from") as caught:
        finish(env, RECORDS, {})
    assert "test_restore.py" in str(caught.value.location)


def counting(env: StreamExecutionEnvironment, sink: CollectSink, uid: str = "accounts") -> None:
    stream = env.from_source(Lists(RECORDS)).uid("purchases")
    stream.key_by(lambda value: value[0]).process(Account()).uid(uid).sink_to(sink)


def test_orphaned_state_is_refused_by_name(first_half: Any):
    env = local_env().start_from_savepoint(first_half[0])
    counting(env, CollectSink())
    with pytest.raises(UnknownUidError, match=r"'priced' \(2 entries\)") as caught:
        env.execute("job")
    assert "allow_non_restored_state" in str(caught.value)
    assert "'sums'" in str(caught.value)


@pytest.mark.parametrize("by_setting", [True, False])
def test_orphaned_state_is_left_behind_if_that_is_wanted(first_half: Any, by_setting: bool, caplog: Any):
    settings = {"execution.state-recovery.ignore-unclaimed-state": "true"} if by_setting else {}
    env = local_env(settings=settings).start_from_savepoint(first_half[0], allow_non_restored_state=not by_setting)
    sink = CollectSink()
    counting(env, sink)
    with caplog.at_level(logging.WARNING, "flintstream"):
        env.execute("job")
    assert "left behind: 'sums'" in caplog.text
    totals = {row[0]: row[1] for row in sink.results if row[1] != "at"}
    assert totals["k0"] == sum(record[2] for record in RECORDS if record[0] == "k0")


def test_an_operator_is_renamed(first_half: Any):
    env = local_env().start_from_savepoint(first_half[0], True, {"accounts": "ledgers"})
    sink = CollectSink()
    counting(env, sink, "ledgers")
    env.execute("job")
    totals = {row[0]: row[1] for row in sink.results if row[1] != "at"}
    assert totals["k0"] == sum(record[2] for record in RECORDS if record[0] == "k0")


def test_one_operator_becomes_two(first_half: Any):
    env = local_env().start_from_savepoint(first_half[0], True, {"accounts": ["left", "right"]})
    sinks = {name: CollectSink() for name in ("left", "right")}
    stream = env.from_source(Lists(RECORDS)).uid("purchases")
    for name, sink in sinks.items():
        stream.key_by(lambda value: value[0]).process(Account()).uid(name).sink_to(sink)
    env.execute("job")
    left, right = (sorted(sink.results, key=repr) for sink in sinks.values())
    assert left == right
    totals = [row[1] for row in left if row[0] == "k0" and row[1] != "at"]
    assert max(totals) == sum(record[2] for record in RECORDS if record[0] == "k0")


@pytest.mark.parametrize(
    ("rename", "word"),
    [
        ({"nobody": "accounts"}, "no operator 'nobody'"),
        ({"accounts": "nobody"}, "no operator 'nobody'"),
        ({"reduced": "accounts"}, "two operators"),
    ],
)
def test_a_wrong_rename_is_refused_with_the_users_line(first_half: Any, rename: dict[str, str], word: str):
    env = local_env().start_from_savepoint(first_half[0], True, rename)
    counting(env, CollectSink())
    with pytest.raises(UnknownUidError, match=word) as caught:
        env.execute("job")
    assert "test_restore.py" in str(caught.value.location)


@pytest.mark.parametrize("rename", [{"accounts": ""}, {"accounts": [1]}, {3: "accounts"}])
def test_a_rename_that_is_none_is_refused_at_once(rename: Any):
    with pytest.raises(InvalidArgumentError, match="rename"):
        local_env().start_from_savepoint("somewhere", rename=rename)


def test_another_source_begins_anew(first_half: Any, caplog: Any):
    env = local_env().start_from_savepoint(first_half[0], allow_non_restored_state=True)
    sink = CollectSink()
    stream = env.from_collection([("k0", "tea", 1000, 1)]).uid("purchases")
    stream.key_by(lambda value: value[0]).process(Account()).uid("accounts").sink_to(sink)
    with caplog.at_level(logging.WARNING, "flintstream"):
        env.execute("job")
    assert "source 'purchases' (CollectionSource) is not in the savepoint and begins anew" in caplog.text
    (row,) = [row for row in sink.results if row[1] != "at"]
    read = RECORDS[: positions_of(savepoints.show(first_half[0]), "purchases")[0]]
    assert row[1] == 1000 + sum(record[2] for record in read if record[0] == "k0")


def test_another_max_parallelism_is_refused(first_half: Any):
    env = local_env().set_max_parallelism(64).start_from_savepoint(first_half[0])
    with pytest.raises(IncompatibleStateError, match=r"set_max_parallelism\(128\)"):
        finish(env, RECORDS, {})


def test_where_nothing_is(tmp_path: Path):
    with pytest.raises(SavepointError, match="neither a savepoint nor a checkpoint"):
        finish(local_env().start_from_savepoint(str(tmp_path)), RECORDS, {})


def test_a_savepoint_of_a_later_release_is_refused(first_half: Any, tmp_path: Path):
    copy = tmp_path / "savepoint"
    shutil.copytree(first_half[0], copy)
    document = json.loads((copy / "savepoint.json").read_text())
    (copy / "savepoint.json").write_text(json.dumps({**document, "format": 2, "version": "7.0"}))
    with pytest.raises(SavepointError, match=r"format 2.*7\.0"):
        finish(local_env().start_from_savepoint(str(copy)), RECORDS, {})


def test_a_drained_savepoint_begins_time_anew(tmp_path: Path):
    env = local_env()
    declare(env, Lists(RECORDS), {})
    with held_at(env, "purchases", 120) as (client, gate):
        stopped = client.stop_with_savepoint(True, str(tmp_path))
        gate.go_on()
        path = stopped.result(60)
    sinks: dict[str, CollectSink] = {}
    finish(local_env().start_from_savepoint(path), RECORDS, sinks)
    fired = {row[0] for row in sinks["sums"].results}
    assert fired == {f"k{number}" for number in range(11)}


@pytest.mark.parametrize("harm", ["cut", "flip", "gone"])
def test_a_damaged_part_is_named(first_half: Any, tmp_path: Path, harm: str):
    copy = tmp_path / "savepoint"
    shutil.copytree(first_half[0], copy)
    document = read_document(savepoint_storage(str(copy)))
    accounts = document.operator("accounts")
    assert accounts is not None
    part = accounts.tables[0].parts[0].file
    data = (copy / part).read_bytes()
    if harm == "gone":
        (copy / part).unlink()
    else:
        (copy / part).write_bytes(data[:-9] if harm == "cut" else data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(CorruptStateError, match="part-"):
        finish(local_env().start_from_savepoint(str(copy)), RECORDS, {})
    with pytest.raises(CorruptStateError, match="part-"):
        savepoints.check(copy)


def test_the_document_is_what_was_written(first_half: Any, tmp_path: Path):
    copy = tmp_path / "savepoint"
    shutil.copytree(first_half[0], copy)
    storage = savepoint_storage(str(copy))
    assert to_bytes(read_document(storage)) == (copy / "savepoint.json").read_bytes()
    text = (copy / "savepoint.json").read_text()
    (copy / "savepoint.json").write_text(text.replace('"epoch": ', '"epoch": 1'))
    with pytest.raises(SavepointError, match="not what was written"):
        read_document(storage)


def test_a_sink_that_knows_the_epochs_of_the_first_run_takes_those_of_the_second(tmp_path: Path, undisturbed: Any):
    """Sinks skip epochs that they have seen of a job; those after an older savepoint have numbers they have seen."""
    sinks: dict[str, CollectSink] = {}
    env = local_env()
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 60) as (client, gate):
        taken = client.trigger_savepoint(str(tmp_path))
        before = {name: list(sink.results) for name, sink in sinks.items()}
        gate.go_on()
        path = taken.result(60)
    client.get_job_execution_result().result(60)
    finish(local_env().start_from_savepoint(path), RECORDS, sinks)
    for name, sink in sinks.items():
        again = list(undisturbed[name])
        for row in before[name]:
            again.remove(row)
        assert sorted(sink.results, key=repr) == sorted([*undisturbed[name], *again], key=repr)


def test_a_life_that_has_to_begin_again_keeps_its_name(first_half: Any, tmp_path: Path):
    (tmp_path / "manifests").write_text("in the way")
    for _ in range(2):
        with pytest.raises(Exception, match="epoch"):
            finish(local_env(checkpoint_dir=tmp_path).start_from_savepoint(first_half[0]), RECORDS, {})
    (begun,) = (tmp_path / "begun").iterdir()
    (tmp_path / "manifests").unlink()
    finish(local_env(checkpoint_dir=tmp_path).start_from_savepoint(first_half[0]), RECORDS, {})
    manifest = json.loads(sorted((tmp_path / "manifests").iterdir())[-1].read_text())
    assert manifest["incarnation"] == begun.read_text()


class Parts(LogSource):
    """A log of named parts, which all end."""

    def __init__(self, **parts: list[Any]) -> None:
        self._parts = parts

    @property
    def is_bounded(self) -> bool:
        return True

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        return [LogPart(name, 0, len(rows)) for name, rows in self._parts.items() if name not in known]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return {name: len(self._parts[name]) for name in names}

    def read_part(self, name: str, start: int, end: int) -> list[Any]:
        return self._parts[name][start:end]


def test_the_parts_of_a_log_go_on_by_name(tmp_path: Path):
    def program(env: StreamExecutionEnvironment, sink: CollectSink) -> None:
        stream = env.from_source(Parts(a=RECORDS[:100], b=RECORDS[100:])).uid("purchases")
        stream.key_by(lambda value: value[0]).process(Account()).uid("accounts").sink_to(sink)

    sink = CollectSink()
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    program(env, sink)
    with held_at(env, "purchases", 120) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(tmp_path / "savepoints"))
        gate.go_on()
        path = stopped.result(60)
    read = positions_of(savepoints.show(path), "purchases")
    assert set(read) == {"a", "b"}
    assert 120 <= sum(read.values()) < len(RECORDS)
    env = local_env(3).start_from_savepoint(path)
    program(env, sink)
    env.execute("job")
    rows = [row for row in sink.results if row[1] != "at"]
    assert len(rows) == len(RECORDS)
    assert max(row[1] for row in rows if row[0] == "k0") == sum(record[2] for record in RECORDS if record[0] == "k0")
