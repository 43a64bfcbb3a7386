"""The storage port: one contract, kept by every form of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import CorruptStateError
from flintstream.state import storage as storage_module
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


def test_a_file_is_published_with_those_that_it_names_or_not_at_all(storage: Storage) -> None:
    assert storage.publish("manifests/1", b"names it", {"epochs/1-a": b"small"}, ["epochs"])
    assert storage.read("manifests/1") == b"names it"
    assert storage.read("epochs/1-a") == b"small"
    assert not storage.publish("manifests/1", b"theirs", {"epochs/1-b": b"other"}, ["epochs"])
    assert storage.read("manifests/1") == b"names it"
    assert storage.list("manifests") == ["1"]
    assert storage.publish("manifests/2", b"names nothing new", {}, [])
    assert storage.abandoned("manifests") == []


class Disk:
    """Notes in which order things reach the disk, and which of them fail to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root, self.events, self.broken = root, list[tuple[str, str]](), ""
        self._sync, self._link = storage_module._sync, os.link
        monkeypatch.setattr(storage_module, "_sync", self.sync)
        monkeypatch.setattr(os, "link", self.link)

    def sync(self, path: Path) -> None:
        name = re.sub(r"-?[0-9a-f]{8,}", "", str(path.relative_to(self.root)))
        if self.broken and self.broken in name:
            raise OSError("no space left on device")
        self.events.append(("sync", name))
        self._sync(path)

    def link(self, staged: Path, target: Path) -> None:
        self.events.append(("link", str(target.relative_to(self.root))))
        self._link(staged, target)


def test_all_that_is_named_is_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, tmp_path)
    storage = LocalStorage(str(tmp_path))
    storage.write("state/s", b"by a task")
    assert storage.publish("manifests/m", b"names both", {"epochs/e": b"small"}, ["epochs", "state"])
    linked = disk.events.index(("link", "manifests/m"))
    before = disk.events[:linked]
    assert set(before[:2]) == {("sync", "epochs/e"), ("sync", "manifests/.m.")}
    # A folder comes behind its files, and once the root behind each folder that is new.
    assert before[2:] == [("sync", "epochs"), ("sync", "."), ("sync", "state"), ("sync", ".")]
    assert disk.events[linked + 1 :] == [("sync", "manifests")]


@pytest.mark.parametrize("broken", ["epochs/e", "manifests/.m", "state"])
def test_what_cannot_be_made_safe_is_not_named(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write("state/s", b"by a task")
    disk = Disk(monkeypatch, tmp_path)
    disk.broken = broken
    with pytest.raises(OSError, match="no space left"):
        storage.publish("manifests/m", b"names both", {"epochs/e": b"small"}, ["epochs", "state"])
    assert storage.list("manifests") == storage.list("epochs") == storage.abandoned("manifests") == []
    disk.broken = ""
    assert storage.publish("manifests/m", b"names both", {"epochs/e": b"small"}, ["epochs", "state"])


def test_the_files_of_an_epoch_are_on_the_disk_before_its_manifest(
    make_env: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    env = make_env("local", 1, max_records=2, checkpoint_dir=tmp_path)
    list(env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda x, y: x + y).execute_and_collect())
    links = [at for at, (what, path) in enumerate(disk.events) if what == "link" and path.startswith("manifests")]
    assert len(links) == 2
    for start, stop in zip([0, links[0] + 1], links, strict=True):
        synced = [path for what, path in disk.events[start:stop] if what == "sync"]
        inline, staged = synced.index("epochs/.bin"), next(p for p in synced if p.startswith("manifests/."))
        assert synced.index("epochs") > inline
        assert staged
        assert disk.events[stop + 1] == ("sync", "manifests")


def test_a_synced_folder_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(LocalStorage, "_sync_folder", lambda self, folder: synced.append(folder))
    storage = LocalStorage(str(tmp_path))
    storage.write("a/b", b"1")
    storage.sync(["a"])
    storage.sync(["a"])
    # The folder's own name is made once.
    assert synced == [tmp_path / "a", tmp_path, tmp_path / "a"]


def test_files_of_others_reach_the_disk_with_all_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tmp_path))
    for name in ("log/offsets/1", "log/offsets/2", "log/metadata"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"by Spark")
    disk = Disk(monkeypatch, tmp_path)
    storage.secure(["log/metadata", "log/offsets/1"])
    files, folders = disk.events[:2], disk.events[2:]
    assert set(files) == {("sync", "log/metadata"), ("sync", "log/offsets/1")}
    assert folders == [("sync", "log/offsets"), ("sync", "."), ("sync", "log"), ("sync", ".")]
    disk.events.clear()
    storage.secure(["log/offsets/2"])
    assert disk.events == [("sync", "log/offsets/2"), ("sync", "log/offsets")]
    storage.secure([])


def test_a_storage_that_need_not_last_secures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, tmp_path)
    storage = LocalStorage(str(tmp_path), durable=False)
    storage.write("log/1", b"1")
    storage.secure(["log/1"])
    assert disk.events == []
