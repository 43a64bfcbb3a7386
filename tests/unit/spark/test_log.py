"""Spark's log of offsets: how it is written, what names a batch, and that it is on the disk before a manifest is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import CommitError, CorruptStateError
from flintstream.spark.log import RENAMED, UNCHECKED, SparkLog
from flintstream.state.storage import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    found = LocalStorage(str(tmp_path))
    found.write("spark/metadata", b'{"id": "q"}')
    found.write("spark/offsets/3", b"v1 3")
    found.write("spark/offsets/4", b"v1 4")
    return found


@pytest.fixture
def log(storage: LocalStorage) -> SparkLog:
    return SparkLog(storage, storage.root)


@pytest.mark.parametrize(
    ("folder", "is_local"), [("/data/job", True), ("file:///data/job", True), ("s3://bucket/job", False)]
)
def test_cheaper_writing_is_for_local_disks_and_not_for_what_is_read(
    storage: LocalStorage, folder: str, is_local: bool
) -> None:
    log = SparkLog(storage, folder)
    assert log.settings(reads_files=False) == ({**RENAMED, **UNCHECKED} if is_local else {})
    assert log.settings(reads_files=True) == (RENAMED if is_local else {})


@pytest.mark.parametrize(
    ("folder", "address"),
    [("/d", "/d/spark"), ("s3://bucket/job", "s3a://bucket/job/spark"), ("hdfs://n/job", "hdfs://n/job/spark")],
)
def test_the_log_has_the_name_that_hadoop_gives_its_place(storage: LocalStorage, folder: str, address: str) -> None:
    assert SparkLog(storage, folder).address == address


def test_a_batch_is_named_by_what_the_log_says_of_it(log: SparkLog, storage: LocalStorage) -> None:
    before = log.identify(3)
    assert before["query"] == "q"
    assert before["batch"] == 3
    assert log.identify(3) == before
    log.check(before)
    log.check({"static_read": True})
    storage.write("spark/offsets/3", b"v1 9")
    assert log.identify(3) != before
    with pytest.raises(CorruptStateError, match=r"other offsets for batch 3.*\(batch 3\) contradict.*one copy"):
        log.check(before)


def test_offsets_that_are_gone_are_missed_before_the_stream_starts(log: SparkLog, storage: LocalStorage) -> None:
    known = log.identify(3)
    storage.delete("spark/offsets/3")
    with pytest.raises(CorruptStateError, match=r"offsets/3. is missing"):
        log.check(known)


def test_the_log_is_on_the_disk_when_the_work_beside_it_is_done(
    log: SparkLog, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0/0", "0/9.compact", "0/10", "0/.10.tmp", "1/0"):
        storage.write(f"spark/sources/{name}", b"files")
    sources = ["spark/sources/0/9.compact", "spark/sources/0/10", "spark/sources/1/0"]
    secured: list[str] = []
    began, working = threading.Event(), threading.Event()

    def secure(paths: Any) -> None:
        began.set()
        assert working.wait(30), "beside the work, not before it"
        secured.extend(paths)

    monkeypatch.setattr(storage, "secure", secure)
    with log.secured(4):
        assert began.wait(30)
        assert not secured
        working.set()
    assert secured == ["spark/metadata", "spark/offsets/4", *sources], "what a dead driver may have left, too"
    secured.clear()
    storage.write("spark/sources/0/11", b"files")
    with log.secured(4):
        pass
    assert secured == ["spark/metadata", "spark/offsets/4", "spark/sources/0/11"]


def test_a_log_that_does_not_reach_the_disk_stops_the_commit(
    log: SparkLog, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def secure(paths: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(storage, "secure", secure)
    with pytest.raises(CommitError, match=r"did not reach the disk \(no space left.*nothing is lost"), log.secured(4):
        pass


def test_a_failure_of_the_work_is_the_one_that_is_told(log: SparkLog) -> None:
    with pytest.raises(ZeroDivisionError), log.secured(4):
        raise ZeroDivisionError


def test_where_files_need_no_securing_none_is_looked_at(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "list", None)
    monkeypatch.setattr(storage, "secure", None)
    with SparkLog(storage, "s3://bucket/job").secured(4):
        pass
