import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import EnvironmentSetupError, StateError
from flintstream.state import disk, local_folder
from flintstream.state.disk import Changes, Mark, Records, WorkingStore, remove_store, store_folder
from flintstream.state.local_folder import FOLDER_VARIABLE, job_folder, local_root, remove_leftovers
from flintstream.state.table import GONE


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    folder = tmp_path / "records"
    folder.mkdir()
    records = Records(folder, shared=True)
    yield records
    records.close()


def rows(records: Records, name: str, start: bytes = b"") -> list[tuple[Any, Any]]:
    view = records.view()
    try:
        return list(view.read(name, start))
    finally:
        view.close()


def counts(records: Records) -> dict[str, int]:
    view = records.view()
    view.close()
    return {name: info.rows for name, info in view.tables.items()}


def test_rows_come_back_type_for_type(records: Records) -> None:
    written = [(1, 1.0), ("a", (1, "x")), (None, [b"x", None]), ((1, 2), {"a": 1})]
    records.write("t", 1, written, keep_gone=False)
    found = rows(records, "t")
    assert sorted(map(repr, found)) == sorted(map(repr, written))


def test_an_equal_key_is_the_same_entry(records: Records) -> None:
    records.write("t", 1, [(1, "int"), (1.0, "float")], keep_gone=False)
    records.write("t", 1, [(True, "bool")], keep_gone=False)
    assert [value for _, value in rows(records, "t")] == ["bool"]


def test_tables_are_kept_apart_and_counted(records: Records) -> None:
    records.write("one", 1, [(key, key) for key in range(300)], keep_gone=False)
    records.write("two", 1, [(key, -key) for key in range(5)], keep_gone=False)
    records.write("one", 1, [(0, GONE), (1, "again"), (999, GONE)], keep_gone=False)
    assert counts(records) == {"one": 299, "two": 5}
    assert rows(records, "two") == [(key, -key) for key in range(5)]
    assert rows(records, "three") == []


def test_removals_are_rows_where_they_are_kept(records: Records) -> None:
    records.write("t", 1, [(1, "x"), (2, "y")], keep_gone=True)
    records.write("t", 1, [(1, GONE)], keep_gone=True)
    assert rows(records, "t") == [(1, GONE), (2, "y")]


def test_a_map_is_scanned_by_its_key(records: Records) -> None:
    written = [((key, inner), f"{key}{inner}") for key in ("a", "ab", "b") for inner in range(3)]
    records.write("t", 2, written, keep_gone=False)
    assert rows(records, "t", disk.entry_bytes("a", 1)) == [(("a", inner), f"a{inner}") for inner in range(3)]


def test_the_map_grows_with_its_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "FIRST_MAP_BYTES", 1 << 16)
    (tmp_path / "small").mkdir()
    records = Records(tmp_path / "small", shared=False)
    records.write("t", 1, [(key, "x" * 1000) for key in range(2000)], keep_gone=False)
    assert counts(records) == {"t": 2000}
    assert len(rows(records, "t")) == 2000
    records.close()


def test_classes_of_the_script_travel_by_value(tmp_path: Path) -> None:
    program = """
from flintstream.state.disk import dump
class Mine:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x
import sys
sys.stdout.buffer.write(dump((1, Mine(5))))
"""
    record = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert pickle.loads(record)[1].x == 5


MARK = (3, "a")


def everything(rows: list[tuple[Any, Any]], asked: list[Mark | None] | None = None) -> Any:
    """Changes that load `rows` from nothing, whatever there was."""

    def changes(mark: Mark | None) -> Changes:
        if asked is not None:
            asked.append(mark)
        return True, [("t", 1, rows)]

    return changes


def contents(store: WorkingStore) -> dict[Any, Any]:
    assert store.view is not None
    return dict(store.view.read("t"))


def load(target: Mark, rows: list[tuple[Any, Any]], wipe: bool = True) -> tuple[dict[Any, Any], list[Mark | None]]:
    """Bring the store of one partition to `target`; return what it then holds and the mark it had."""
    asked: list[Mark | None] = []

    def changes(mark: Mark | None) -> Changes:
        asked.append(mark)
        return wipe, [("t", 1, rows)]

    store = WorkingStore("job", 1, 0)
    try:
        store.bring_forward(target, changes)
        return contents(store), asked
    finally:
        store.close()


def test_a_store_is_brought_forward_once() -> None:
    assert load(MARK, [(1, "x")]) == ({1: "x"}, [None])
    assert load(MARK, [(2, "never asked")]) == ({1: "x"}, [])
    assert load((4, "b"), [(1, GONE), (2, "y")], wipe=False) == ({2: "y"}, [MARK])
    assert load((4, "other branch"), [(9, "z")]) == ({9: "z"}, [(4, "b")])


def test_a_store_that_was_left_half_way_is_loaded_anew() -> None:
    load(MARK, [(1, "x")])

    def broken() -> Iterator[tuple[str, int, list[tuple[Any, Any]]]]:
        yield "t", 1, [(1, "half")]
        raise KeyboardInterrupt

    store = WorkingStore("job", 1, 0)
    with pytest.raises(KeyboardInterrupt):
        store.bring_forward((4, "b"), lambda mark: (False, broken()))
    store.close()
    assert load((4, "b"), [(1, "whole")]) == ({1: "whole"}, [None])


def test_a_reader_sees_its_own_moment() -> None:
    store = WorkingStore("job", 1, 0)
    store.bring_forward(MARK, everything([(1, "x")]))
    program = """
from flintstream.state.disk import WorkingStore
store = WorkingStore("job", 1, 0)
rows = [(1, "newer"), *((key, "x" * 500) for key in range(2, 5000))]
store.bring_forward((4, "b"), lambda mark: (True, [("t", 1, rows)]))
store.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert contents(store) == {1: "x"}
    store.close()
    assert load((4, "b"), [])[0][1] == "newer"


def test_a_map_grown_by_another_process_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "FIRST_MAP_BYTES", 1 << 16)
    store = WorkingStore("job", 1, 0)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_grow, args=(os.environ[FOLDER_VARIABLE],))
    process.start()
    process.join()
    assert process.exitcode == 0
    view = store.bring_forward((9, "z"), lambda mark: (True, []))
    assert view.rows == 5000
    store.close()


def _grow(folder: str) -> None:
    os.environ[FOLDER_VARIABLE] = folder
    load((9, "z"), [(key, "x" * 500) for key in range(5000)])


def test_one_process_opens_no_store_twice() -> None:
    first, second = WorkingStore("job", 1, 0), WorkingStore("job", 1, 0)
    first.bring_forward(MARK, everything([(1, "x")]))
    second.bring_forward(MARK, everything([(1, "private")]))
    assert (contents(first), contents(second)) == ({1: "x"}, {1: "private"})
    second.close()
    first.close()
    assert not second.folder.exists()
    assert load(MARK, [])[0] == {1: "x"}


def test_who_comes_second_waits_until_the_first_is_through() -> None:
    started = threading.Event()

    def slowly(mark: Mark | None) -> Changes:
        started.set()
        time.sleep(0.3)
        return True, [("t", 1, [(1, "x")])]

    # Another thread stands for another process: file locks are per open file.
    def first() -> None:
        store = WorkingStore("job", 1, 0)
        store.bring_forward(MARK, slowly)
        store.close()

    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    with (store_folder("job", 1, 0) / "forward.lock").open("w") as file, pytest.raises(BlockingIOError):
        disk.fcntl.flock(file, disk.fcntl.LOCK_EX | disk.fcntl.LOCK_NB)
    thread.join()
    assert load(MARK, [(9, "never asked")]) == ({1: "x"}, [])


def test_a_store_that_others_keep_taking_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Records, "set_mark", lambda self, mark: None)
    store = WorkingStore("job", 1, 0)
    with pytest.raises(StateError, match="could not be brought to epoch 3"):
        store.bring_forward(MARK, everything([]))
    store.close()


def test_damaged_files_are_thrown_away() -> None:
    load(MARK, [(1, "x")])
    (store_folder("job", 1, 0) / "data.mdb").write_bytes(b"nonsense" * 4096)
    assert load(MARK, [(2, "y")]) == ({2: "y"}, [None])


def test_a_full_disk_is_one_clear_error(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise disk.lmdb.DiskError("mdb_txn_commit: No space left on device")

    monkeypatch.setattr(records, "_write", full)
    with pytest.raises(StateError, match=f"No space left.*{FOLDER_VARIABLE}"):
        records.write("t", 1, [(1, 1)], keep_gone=False)


def test_removing_the_last_store_removes_the_jobs_directory() -> None:
    for partition in (0, 1):
        WorkingStore("job", 1, partition).close()
    remove_store("job", 1, 0)
    assert [folder.name for folder in job_folder("job").iterdir()] == ["1-1"]
    remove_store("job", 1, 1)
    assert not job_folder("job").exists()


def test_a_new_store_removes_what_dead_jobs_left() -> None:
    WorkingStore("dead", 1, 0).close()
    WorkingStore("alive", 1, 0).close()
    old = time.time() - local_folder.STALE_SECONDS - 10
    os.utime(job_folder("dead"), (old, old))
    WorkingStore("alive", 1, 0).close()
    assert job_folder("dead").exists()
    WorkingStore("new", 1, 0).close()
    assert not job_folder("dead").exists()
    assert job_folder("alive").exists()


def test_using_a_store_shows_that_its_job_lives() -> None:
    WorkingStore("job", 1, 0).close()
    old = time.time() - local_folder.STALE_SECONDS - 10
    os.utime(job_folder("job"), (old, old))
    WorkingStore("job", 1, 0).close()
    remove_leftovers()
    assert job_folder("job").exists()


def test_a_root_that_others_can_write_to_is_refused() -> None:
    local_root().chmod(0o777)
    with pytest.raises(EnvironmentSetupError, match=f"not this user's alone.*{FOLDER_VARIABLE}"):
        WorkingStore("job", 1, 0)


def test_after_a_reboot_a_store_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load(MARK, [(1, "x")])
    monkeypatch.setattr(local_folder, "boot_id", lambda: "another boot")
    assert load(MARK, [(2, "y")]) == ({2: "y"}, [None])
