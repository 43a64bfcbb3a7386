"""Taking savepoints: while a job runs, when it stops, and of one that does not run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, JobStatus, RuntimeExecutionMode, savepoints
from flintstream.engine import savepoint_take
from flintstream.engine.savepoint_format import positions_of, savepoint_storage
from flintstream.engine.savepoint_take import Notes, published_manifest, write_savepoint
from flintstream.errors import InvalidArgumentError, SavepointError
from flintstream.state.storage import LocalStorage
from tests.capabilities.support import Lists, StopAfter, StoppedOnPurpose
from tests.savepoints.support import declare, finish, held_at, local_env, purchases, results, savepoint_after

RECORDS = purchases(200)


def undisturbed() -> dict[str, list[Any]]:
    sinks: dict[str, CollectSink] = {}
    finish(local_env(), RECORDS, sinks)
    return results(sinks)


def test_a_job_goes_on_while_its_savepoint_is_written(tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 100) as (client, gate):
        before = gate.epochs
        taken = client.trigger_savepoint(str(tmp_path / "savepoints"), tags=["nightly"], comment="before the upgrade")
        gate.go_on()
        path = taken.result(60)
    client.get_job_execution_result().result(60)
    document = savepoints.show(path)
    assert (document.kind, document.job, document.tags, document.comment) == (
        "savepoint",
        "job",
        ("nightly",),
        "before the upgrade",
    )
    assert document.epoch == before
    assert gate.epochs > before
    assert results(sinks) == undisturbed()


def test_what_a_savepoint_names_is_not_deleted_before_it_is_written(tmp_path: Path):
    """With one retained checkpoint everything older is garbage at once; the writer is held until the job has ended."""
    env = local_env(checkpoint_dir=tmp_path / "checkpoints", max_records=5)
    env.get_checkpoint_config()
    env._settings.retained = 1  # pyright: ignore[reportPrivateUsage]
    sinks: dict[str, CollectSink] = {}
    declare(env, Lists(RECORDS), sinks)
    moment = threading.Event()

    class Slow(LocalStorage):
        def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
            assert moment.wait(60)
            return super().read(path, offset, length)

    with held_at(env, "purchases", 50) as (client, gate):
        manifest = client.newest_manifest()  # type: ignore[attr-defined]
        taken = client.trigger_savepoint(str(tmp_path / "savepoints"))
        desk = client._desk  # type: ignore[attr-defined]
        desk._storage = Slow(str(tmp_path / "checkpoints"))
        gate.go_on()
        while client.newest_manifest().epoch < manifest.epoch + 5:  # type: ignore[attr-defined]
            moment.wait(0.01)
        moment.set()
        document = savepoints.check(taken.result(60))
    assert document.epoch == manifest.epoch
    client.get_job_execution_result().result(60)
    named = (
        {path.name for path in (tmp_path / "checkpoints" / "state").iterdir()}
        if (tmp_path / "checkpoints" / "state").exists()
        else set()
    )
    assert not {file.rpartition("/")[2] for file in manifest.files() if file.startswith("state/")} & named


def test_a_job_stops_with_a_savepoint_and_is_finished(tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 100) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(tmp_path / "savepoints"))
        gate.go_on()
        path = stopped.result(60)
    assert client.get_job_status().result() is JobStatus.FINISHED
    document = savepoints.show(path)
    assert document.kind == "stop"
    assert not document.finished
    assert positions_of(document, "purchases")[0] >= 100


def test_draining_fires_all_timers_and_windows(tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 100) as (client, gate):
        stopped = client.stop_with_savepoint(True, str(tmp_path / "savepoints"))
        gate.go_on()
        path = stopped.result(60)
    document = savepoints.show(path)
    first_half: dict[str, CollectSink] = {}
    finish(local_env(), RECORDS[: positions_of(document, "purchases")[0]], first_half)
    assert results(sinks) == results(first_half)
    assert (document.kind, document.finished) == ("drain", True)
    tables = {table.name for each in document.operators for table in each.tables}
    assert "accounts/total" in tables
    assert not any("timers" in name or "window" in name for name in tables)


def test_the_environment_names_the_directory(tmp_path: Path):
    env = local_env().set_default_savepoint_directory(str(tmp_path / "savepoints"))
    assert env.get_default_savepoint_directory() == str(tmp_path / "savepoints")
    declare(env, Lists(RECORDS), {})
    with held_at(env, "purchases", 100) as (client, gate):
        taken = client.trigger_savepoint()
        gate.go_on()
        assert Path(taken.result(60)).parent == tmp_path / "savepoints"


def test_without_a_directory_it_is_refused():
    env = local_env()
    declare(env, Lists(RECORDS), {})
    with held_at(env, "purchases", 100) as (client, _), pytest.raises(InvalidArgumentError, match="no directory"):
        client.trigger_savepoint()


def test_a_job_that_has_ended_takes_none(tmp_path: Path):
    env = local_env()
    declare(env, Lists(RECORDS), {})
    client = env.execute_async("job")
    client.get_job_execution_result().result(60)
    with pytest.raises(SavepointError, match="has ended"):
        client.trigger_savepoint(str(tmp_path)).result(60)
    with pytest.raises(SavepointError, match="has ended"):
        client.stop_with_savepoint(False, str(tmp_path)).result(60)


def test_a_savepoint_that_cannot_be_written_does_not_stop_the_job(tmp_path: Path):
    sinks: dict[str, CollectSink] = {}
    (tmp_path / "file").write_text("in the way")
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 100) as (client, gate):
        taken = client.trigger_savepoint(str(tmp_path / "file"))
        stopped = client.stop_with_savepoint(False, str(tmp_path / "file"))
        gate.go_on()
        with pytest.raises(SavepointError, match="could not be written"):
            taken.result(60)
        with pytest.raises(SavepointError, match="could not be written"):
            stopped.result(60)
    client.get_job_execution_result().result(60)
    assert results(sinks) == undisturbed()


def test_half_a_savepoint_is_removed(tmp_path: Path):
    savepoint_after(local_env(checkpoint_dir=tmp_path / "checkpoints"), RECORDS, 100, tmp_path / "first", {})
    target = tmp_path / "savepoint"

    class Full(LocalStorage):
        def write(self, path: str, data: bytes) -> None:
            if path.startswith("state/002"):
                raise OSError(28, "No space left on device")
            super().write(path, data)

    source = savepoint_storage(str(tmp_path / "checkpoints"))
    manifest = published_manifest(source)
    with pytest.raises(SavepointError, match="No space left"):
        write_savepoint(source, manifest, Full(str(target)), Notes())
    assert not target.exists()


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path):
    path = savepoint_after(local_env(checkpoint_dir=tmp_path / "checkpoints"), RECORDS, 100, tmp_path / "first", {})
    source = savepoint_storage(str(tmp_path / "checkpoints"))
    with pytest.raises(SavepointError, match="not empty"):
        write_savepoint(source, published_manifest(source), savepoint_storage(path), Notes())
    savepoints.check(path)


def test_a_job_that_does_not_run_is_taken_from_its_directory(tmp_path: Path):
    online = savepoint_after(
        local_env(checkpoint_dir=tmp_path / "checkpoints"), RECORDS, 100, tmp_path / "savepoints", {}
    )
    offline = savepoints.take(tmp_path / "checkpoints", tmp_path / "savepoints", tags=["offline"], comment="by hand")
    one, other = savepoints.show(online), savepoints.show(offline)
    assert (other.kind, other.tags, other.comment) == ("checkpoint", ("offline",), "by hand")
    assert one.operators == other.operators
    assert one.sources == other.sources
    assert one.lanes == other.lanes
    assert savepoints.diff(online, offline) == []


def test_output_that_may_not_be_published_is_not_forgotten(tmp_path: Path):
    """A job that died: whether the last epoch's output was published is not known, so there is no savepoint of it."""
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), {})
    env.add_listener(StopAfter(3))
    with pytest.raises(StoppedOnPurpose):
        env.execute("job")
    with pytest.raises(SavepointError, match="output of epoch 3"):
        savepoints.take(tmp_path / "checkpoints", tmp_path / "savepoints")
    assert not (tmp_path / "savepoints").exists()


def test_a_directory_without_checkpoints_is_refused(tmp_path: Path):
    with pytest.raises(SavepointError, match="no checkpoint"):
        savepoints.take(tmp_path, tmp_path / "savepoints")


def test_a_quiet_job_has_a_savepoint_too(tmp_path: Path):
    """Nothing was read, so there is no epoch yet; one without input is run."""
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    env.generate(generator=lambda i: i, rate=0.001, splits=1).uid("slow").key_by(lambda v: v).reduce(max).print()
    client = env.execute_async("quiet")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(60)
    assert savepoints.show(path).rows == 0


def test_of_a_job_that_runs_it_is_refused(tmp_path: Path):
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), {})
    with held_at(env, "purchases", 100), pytest.raises(SavepointError, match="the job runs"):
        savepoints.take(tmp_path / "checkpoints", tmp_path / "savepoints")


def test_a_batch_job_has_none(tmp_path: Path):
    """It keeps no state, so a savepoint of it would be empty without a word."""
    env = local_env(checkpoint_dir=tmp_path / "checkpoints").set_runtime_mode(RuntimeExecutionMode.BATCH)
    declare(env, Lists(RECORDS), {})
    with held_at(env, "purchases", 100) as (client, _), pytest.raises(SavepointError, match="BATCH"):
        client.trigger_savepoint(str(tmp_path))
    env = local_env().set_runtime_mode(RuntimeExecutionMode.BATCH).start_from_savepoint(str(tmp_path))
    declare(env, Lists(RECORDS), {})
    with pytest.raises(InvalidArgumentError, match="BATCH") as caught:
        env.execute("job")
    assert "test_take.py" in str(caught.value.location)


def test_a_savepoint_on_an_object_store(tmp_path: Path):
    """No rename, no folders: only whole files that are put."""
    pytest.importorskip("fsspec")
    store = f"memory://{tmp_path.name}"
    sinks: dict[str, CollectSink] = {}
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    declare(env, Lists(RECORDS), sinks)
    with held_at(env, "purchases", 100) as (client, gate):
        stopped = client.stop_with_savepoint(False, f"{store}/savepoints")
        gate.go_on()
        path = stopped.result(60)
    assert [each.path for each in savepoints.history(f"{store}/savepoints")] == [path]
    finish(local_env().start_from_savepoint(path), RECORDS, sinks)
    assert results(sinks) == undisturbed()
    savepoints.dispose(path)
    assert savepoints.history(f"{store}/savepoints") == []


def test_places_larger_than_memory_are_written_in_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = savepoint_after(local_env(3, tmp_path / "checkpoints"), RECORDS, 100, tmp_path / "savepoints", {})
    monkeypatch.setattr(savepoint_take, "ENTRIES_IN_MEMORY", 4)
    other = savepoints.take(tmp_path / "checkpoints", tmp_path / "savepoints")
    assert savepoints.diff(path, other) == []
    assert len(savepoints.check(other).files()) > len(savepoints.show(path).files())
    assert savepoints.show(other).rows == savepoints.show(path).rows
