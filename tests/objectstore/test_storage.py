"""The storage port on a real object store: no rename, no folders, and a fence by conditional put."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flintstream.errors import CorruptStateError, EnvironmentSetupError
from flintstream.state.storage import LocalStorage
from flintstream.state.storage_remote import RemoteStorage, storage_at
from tools.servers import ObjectStore


@pytest.fixture
def storage(store: ObjectStore, place: str) -> RemoteStorage:
    return RemoteStorage(place, store.options)


def test_what_is_written_is_read_listed_and_deleted(storage: RemoteStorage) -> None:
    storage.write("state/a", b"0123456789")
    storage.write("state/b", b"")
    assert storage.read("state/a") == b"0123456789"
    assert storage.read("state/a", 3, 4) == b"3456"
    assert storage.read("state/a", 3, 0) == b""
    assert storage.read("state/b") == b""
    assert storage.list("state") == ["a", "b"]
    assert storage.list("") == ["state"]
    storage.delete("state/a")
    storage.delete("state/a")
    assert storage.list("state") == ["b"]
    assert storage.list("nowhere") == []


def test_a_missing_file_is_named(storage: RemoteStorage) -> None:
    with pytest.raises(CorruptStateError, match=r"'state/gone' is missing"):
        storage.read("state/gone")


def test_of_many_that_create_a_file_one_wins(storage: RemoteStorage) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: storage.create("manifests/1", b"%d" % number), range(8)))
    assert sum(won) == 1
    assert storage.read("manifests/1") == b"%d" % won.index(True)


def test_a_create_whose_answer_was_lost_is_ours_when_it_is_repeated(storage: RemoteStorage) -> None:
    assert storage.create("manifests/1", b"mine")
    assert storage.create("manifests/1", b"mine")
    assert not storage.create("manifests/1", b"theirs")


def test_paths_do_not_leave_their_place(storage: RemoteStorage) -> None:
    with pytest.raises(CorruptStateError, match="leaves its directory"):
        storage.read("../other/secret")


def test_it_travels_without_its_connection_and_shows_no_secret(storage: RemoteStorage) -> None:
    storage.write("a", b"1")
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"1"
    assert "s3cret" not in repr(storage)


def test_a_store_that_overwrites_is_refused() -> None:
    class Careless(MemoryFileSystem):
        protocol = "careless"
        cachable = False

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
            super().pipe_file(path, value, **kwargs)

    fsspec.register_implementation("careless", Careless, clobber=True)
    with pytest.raises(EnvironmentSetupError, match="cannot create a file only if it is absent"):
        RemoteStorage("careless://job").check()


def test_a_store_that_does_not_is_fine(storage: RemoteStorage) -> None:
    storage.check()
    assert storage.list("") == []


def test_an_unknown_scheme_says_so() -> None:
    with pytest.raises(EnvironmentSetupError, match="gopher"):
        RemoteStorage("gopher://hole").check()


@pytest.mark.parametrize("address", ["/data/job", "file:///data/job"])
def test_paths_of_this_machine_are_local(address: str) -> None:
    storage = storage_at(address)
    assert isinstance(storage, LocalStorage)
    assert storage.root == "/data/job"
