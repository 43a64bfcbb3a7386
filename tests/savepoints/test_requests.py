"""Requests of other processes, as files in the checkpoint directory of a running job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from flintstream import CollectSink, JobClient, JobStatus, savepoints
from flintstream.engine import requests
from flintstream.engine.lease import acquire
from flintstream.engine.requests import ask, pending
from flintstream.errors import SavepointError
from flintstream.state.storage import LocalStorage, MemoryStorage
from tests.savepoints.support import local_env

NAME = "0" * 32


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[JobClient, LocalStorage]]:
    """A job that never ends by itself, and its checkpoint directory as another process sees it."""
    env = local_env(checkpoint_dir=tmp_path / "checkpoints").set_default_savepoint_directory(
        str(tmp_path / "savepoints")
    )
    env.generate(generator=lambda i: i, rate=200, splits=1).uid("numbers").key_by(lambda v: v % 5).reduce(max).uid(
        "greatest"
    ).sink_to(CollectSink())
    client = env.execute_async("job")
    yield client, LocalStorage(str(tmp_path / "checkpoints"))
    client.cancel().result(60)


def test_a_savepoint(running: tuple[JobClient, LocalStorage], tmp_path: Path):
    client, storage = running
    path = ask(storage, "savepoint", tags=["asked"], comment="by file")
    assert path is not None
    document = savepoints.show(path)
    assert Path(path).parent == tmp_path / "savepoints"
    assert (document.tags, document.comment, document.kind) == (("asked",), "by file", "savepoint")
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert storage.list("requests") == []
    assert storage.list("answers") == []


def test_the_same_by_path(running: tuple[JobClient, LocalStorage], tmp_path: Path):
    client, storage = running
    path = savepoints.trigger(storage.root, tags=["asked"], comment="by path")
    assert (savepoints.show(path).tags, savepoints.show(path).comment) == (("asked",), "by path")
    path = savepoints.stop(storage.root, tmp_path / "elsewhere", drain=True, tags=["last"], comment="for good")
    document = savepoints.show(path)
    assert (document.kind, document.tags, document.comment) == ("drain", ("last",), "for good")
    client.get_job_execution_result().result(60)
    with pytest.raises(SavepointError, match="no job runs"):
        savepoints.trigger(storage.root)


@pytest.mark.parametrize("drain", [True, False])
def test_a_stop(running: tuple[JobClient, LocalStorage], tmp_path: Path, drain: bool):
    client, storage = running
    path = ask(storage, "stop", savepoint_directory=str(tmp_path / "elsewhere"), drain=drain)
    assert path is not None
    client.get_job_execution_result().result(60)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert Path(path).parent == tmp_path / "elsewhere"
    assert savepoints.show(path).finished is drain


def test_a_cancellation(running: tuple[JobClient, LocalStorage]):
    client, storage = running
    assert ask(storage, "cancel") is None
    client.get_job_execution_result().result(60)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_a_failure_is_told(running: tuple[JobClient, LocalStorage], tmp_path: Path):
    client, storage = running
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SavepointError, match="could not be written"):
        ask(storage, "savepoint", savepoint_directory=str(tmp_path / "file"))
    assert client.get_job_status().result() is JobStatus.RUNNING


def test_nobody_answers():
    storage = MemoryStorage()
    with pytest.raises(SavepointError, match="no job runs"):
        ask(storage, "savepoint", timeout=0.1)
    assert storage.files == {}
    lease = acquire(storage, "job", "memory")
    try:
        with pytest.raises(SavepointError, match=r"within 0\.1 s"):
            ask(storage, "savepoint", timeout=0.1)
        assert storage.list("requests") == []
    finally:
        lease.release()


def test_what_was_asked_before_a_job_started_does_not_stop_it(tmp_path: Path):
    storage = LocalStorage(str(tmp_path))
    asked = requests.Request(NAME, "stop")
    storage.write(f"requests/{NAME}.json", json.dumps(asdict(asked)).encode())
    env = local_env(checkpoint_dir=tmp_path).set_default_savepoint_directory(str(tmp_path / "savepoints"))
    env.from_collection(list(range(50))).key_by(lambda v: v % 5).reduce(max).print()
    env.execute("job")
    assert "started after" in json.loads(storage.read(f"answers/{NAME}.json"))["error"]
    assert not (tmp_path / "savepoints").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"x" * 100_000,
        json.dumps({"id": NAME, "kind": "format the disk"}).encode(),
        json.dumps({"id": "1" * 32, "kind": "stop"}).encode(),
        json.dumps({"id": NAME, "kind": "stop", "run": "rm"}).encode(),
        json.dumps({"id": NAME, "kind": "stop", "drain": "yes"}).encode(),
        json.dumps({"id": NAME, "kind": "stop", "savepoint_directory": 5}).encode(),
        json.dumps({"id": NAME, "kind": "stop", "tags": [1]}).encode(),
        b"[" * 50_000,
    ],
)
def test_what_is_no_request_is_answered_so(data: bytes):
    storage = MemoryStorage()
    storage.write(f"requests/{NAME}.json", data)
    storage.write("requests/..%2fx", b"{}")
    assert pending(storage) == []
    assert "cannot be read" in json.loads(storage.read(f"answers/{NAME}.json"))["error"]
    assert f"requests/{NAME}.json" not in storage.files


def test_a_request_is_read_as_it_was_written():
    given = requests.Request(NAME, "stop", "somewhere", True, ("a", "b"), "why")
    assert requests.Request.from_bytes(f"{NAME}.json", json.dumps(asdict(given)).encode()) == given
