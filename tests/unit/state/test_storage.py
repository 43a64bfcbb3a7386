"""The storage port: one contract, kept by every form of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import CorruptStateError
from flintstream.state.storage import LocalStorage, MemoryStorage, Storage


@pytest.fixture(params=["local", "not durable", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "memory":
        return MemoryStorage()
    return LocalStorage(str(tmp_path / "root"), durable=request.param == "local")


def test_what_was_written_is_read_in_whole_or_in_part(storage: Storage) -> None:
    storage.write("state/a.bin", b"0123456789")
    assert storage.read("state/a.bin") == b"0123456789"
    assert storage.read("state/a.bin", 4) == b"456789"
    assert storage.read("state/a.bin", 4, 3) == b"456"
    assert storage.read("state/a.bin", 8, 5) == b"89"


def test_writing_again_replaces(storage: Storage) -> None:
    storage.write("a", b"first and longer")
    storage.write("a", b"second")
    assert storage.read("a") == b"second"


def test_only_the_first_creation_counts(storage: Storage) -> None:
    assert storage.create("manifests/1", b"mine")
    assert not storage.create("manifests/1", b"theirs")
    assert storage.read("manifests/1") == b"mine"
    assert storage.list("manifests") == ["1"]


def test_what_was_written_cannot_be_created(storage: Storage) -> None:
    storage.write("a", b"there")
    assert not storage.create("a", b"late")


def test_a_deleted_file_can_be_created_again(storage: Storage) -> None:
    assert storage.create("a", b"1")
    storage.delete("a")
    storage.delete("a")
    storage.delete("never/there")
    assert storage.create("a", b"2")


def test_folders_list_their_names_in_order_and_nothing_else(storage: Storage) -> None:
    for name in ("state/b", "state/a", "state/deep/c", "other/d", "top"):
        storage.write(name, b"")
    assert storage.list("state") == ["a", "b", "deep"]
    assert storage.list("state/deep") == ["c"]
    assert storage.list("absent") == []
    assert storage.list("") == ["other", "state", "top"]


def test_a_missing_file_is_named(storage: Storage) -> None:
    with pytest.raises(CorruptStateError, match=r"'state/gone\.bin' is missing"):
        storage.read("state/gone.bin")


OUTSIDE = ["../a", "state/../../a", "/etc/hostname", ".."]


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_cannot_leave_the_root(storage: Storage, path: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: storage.read(path),
        lambda: storage.write(path, b"x"),
        lambda: storage.create(path, b"x"),
        lambda: storage.list(path),
        lambda: storage.delete(path),
    ]
    for use in uses:
        with pytest.raises(CorruptStateError, match="leaves its directory"):
            use()


def test_of_many_threads_one_creates(storage: Storage) -> None:
    barrier = threading.Barrier(8)
    won: list[bool] = []

    def race() -> None:
        for number in range(20):
            barrier.wait()
            won.append(storage.create(f"manifests/{number}", b"same bytes"))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won.count(True) == 20


def test_of_two_processes_one_creates(tmp_path: Path) -> None:
    program = """
import sys
from flintstream.state.storage import LocalStorage
storage = LocalStorage(sys.argv[1], durable=False)
print("ready", flush=True)
sys.stdin.readline()
print(sum(storage.create(f"manifests/{number}", sys.argv[2].encode()) for number in range(200)))
"""
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), "theirs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    other.stdin.write("go\n")
    other.stdin.flush()
    storage = LocalStorage(str(tmp_path), durable=False)
    mine = sum(storage.create(f"manifests/{number}", b"mine") for number in range(200))
    theirs = int(other.communicate()[0])
    assert mine + theirs == 200
    held = [storage.read(f"manifests/{name}") for name in storage.list("manifests")]
    assert (held.count(b"mine"), held.count(b"theirs")) == (mine, theirs)


def test_a_failed_creation_leaves_nothing_behind(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create("a/b", b"1")
    storage.create("a/b", b"2")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_half_written_files_are_not_listed(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write("a/b", b"1")
    (tmp_path / "a" / ".c.0123").write_bytes(b"half")
    assert storage.list("a") == ["b"]


def test_the_names_of_an_epochs_files_are_durable_before_its_manifest(
    make_env: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    sync, create = LocalStorage.sync, LocalStorage.create

    def noted_sync(self: LocalStorage, folders: Any) -> None:
        names = list(folders)
        events.extend(("sync", name) for name in names)
        sync(self, names)

    def noted_create(self: LocalStorage, path: str, data: bytes) -> bool:
        events.append(("create", path.partition("/")[0]))
        return create(self, path, data)

    monkeypatch.setattr(LocalStorage, "sync", noted_sync)
    monkeypatch.setattr(LocalStorage, "create", noted_create)
    env = make_env("local", 1, max_records=2, checkpoint_dir=tmp_path)
    list(env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda x, y: x + y).execute_and_collect())
    epoch = [("sync", "epochs"), ("create", "manifests")]
    assert events == [("create", "lease"), *epoch, *epoch, ("create", "settled")]


def test_a_synced_folder_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(LocalStorage, "_sync_folder", lambda self, folder: synced.append(folder))
    storage = LocalStorage(str(tmp_path))
    storage.write("a/b", b"1")
    storage.sync(["a"])
    storage.sync(["a"])
    # The folder's own name is made once.
    assert synced == [tmp_path / "a", tmp_path, tmp_path / "a"]
