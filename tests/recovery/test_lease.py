"""One driver at a time on a checkpoint directory: refusal, take-over, and those who were taken for dead."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, JobStatus
from flintstream.engine import lease as leases
from flintstream.engine.lease import FOLDER, Holder, Lease, acquire, holder
from flintstream.errors import CommitError, FencedError, LeaseError
from flintstream.state.storage import LocalStorage, MemoryStorage, Storage
from flintstream.state.storage_remote import storage_at
from tests.crash.harness import Folders, JobProcess, check_output

WAIT_SECONDS = 60
ELSEWHERE = Holder("other", "counts", "far-away", "another boot", 7, "1", "2026-01-02 03:04:05 UTC")


class Clock:
    """Time that moves only by waiting; `meanwhile` happens at each wait."""

    def __init__(self, meanwhile: Callable[[int], None] = lambda number: None) -> None:
        self.now = 0.0
        self._meanwhile = meanwhile
        self._numbers = itertools.count(1)

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self._meanwhile(next(self._numbers))
        self.now += seconds


def take(storage: Storage, clock: Clock | None = None, **options: Any) -> Lease:
    clock = clock or Clock()
    return acquire(storage, "mine", "the directory", 10_000, clock=clock, wait=clock.wait, **options)


def put(storage: Storage, known: Holder, number: int = 3) -> None:
    storage.write(leases.path_of(number), known.to_bytes())


def names(storage: Storage) -> list[str]:
    return storage.list(FOLDER)


def on_an_object_store() -> Storage:
    pytest.importorskip("fsspec")
    return storage_at(f"memory://lease-{uuid.uuid4().hex}")


@pytest.mark.parametrize("make", [MemoryStorage, on_an_object_store], ids=["a dict", "an object store"])
def test_a_lease_says_who_holds_it_and_is_gone_when_released(make: Callable[[], Storage]):
    storage = make()
    assert holder(storage) is None
    lease = take(storage)
    known = holder(storage)
    assert known is not None and (known.job, known.pid) == ("mine", os.getpid())
    with pytest.raises(LeaseError):
        take(storage)
    lease.release()
    assert names(storage) == [] and holder(storage) is None
    put(storage, ELSEWHERE)
    take(storage).release()


def test_a_second_driver_in_the_same_process_is_refused_at_once():
    storage, clock = MemoryStorage(), Clock()
    lease = take(storage)
    with pytest.raises(
        LeaseError, match=rf"job 'mine' on host \S+, process {os.getpid()}, since .*; the directory; stop"
    ):
        take(storage, clock)
    assert clock.now == 0.0
    lease.release()
    take(storage).release()


def test_a_holder_elsewhere_whose_counter_moves_is_alive():
    storage = MemoryStorage()
    put(storage, ELSEWHERE)

    def beat(number: int) -> None:
        if number == 4:
            put(storage, Holder(**{**json.loads(ELSEWHERE.to_bytes()), "beats": 1}))

    clock = Clock(beat)
    with pytest.raises(LeaseError, match="job 'counts' on host far-away, process 7, since 2026-01-02 03:04:05 UTC"):
        take(storage, clock)
    assert 0 < clock.now < 10


def test_a_holder_elsewhere_whose_counter_stands_still_is_dead():
    storage, clock = MemoryStorage(), Clock()
    put(storage, ELSEWHERE)
    lease = take(storage, clock)
    assert clock.now == pytest.approx(10, abs=0.3)
    assert names(storage) == ["000000000004.json"]
    lease.release()


def test_a_lease_that_is_released_while_it_is_watched_is_taken_without_waiting_for_the_rest():
    storage = MemoryStorage()
    put(storage, ELSEWHERE)
    clock = Clock(lambda number: storage.delete(leases.path_of(3)))
    take(storage, clock).release()
    assert clock.now < 1


def test_of_two_who_take_over_one_wins():
    storage = MemoryStorage()
    put(storage, ELSEWHERE)
    other = Holder(**{**json.loads(ELSEWHERE.to_bytes()), "id": "winner", "job": "winner"})
    create = storage.create

    def slower(path: str, data: bytes) -> bool:
        storage.create = create  # type: ignore[method-assign]
        put(storage, other, 4)
        return create(path, data)

    storage.create = slower  # type: ignore[method-assign]

    def beat(number: int) -> None:
        if "000000000004.json" in names(storage):
            put(storage, Holder(**{**json.loads(other.to_bytes()), "beats": number}), 4)

    with pytest.raises(LeaseError, match="job 'winner'"):
        take(storage, Clock(beat))


def test_a_process_of_this_machine_that_is_gone_needs_no_waiting():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mine = Holder.this_process("mine")
    known = Holder(**{**json.loads(mine.to_bytes()), "pid": child.pid, "started": leases._started(child.pid)})
    assert not known.is_gone
    child.kill()
    # Dead, though nobody has asked for its status yet.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert known.is_gone
    child.communicate()
    assert known.is_gone
    storage, clock = MemoryStorage(), Clock()
    put(storage, known)
    take(storage, clock).release()
    assert clock.now == 0.0


def test_a_process_that_dies_while_it_is_watched_is_not_waited_for():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    storage = MemoryStorage()
    put(storage, Holder.process(child.pid, "mine"))

    def die(number: int) -> None:
        if number == 2:
            child.kill()
            child.wait()

    clock = Clock(die)
    take(storage, clock).release()
    child.communicate()
    assert 0 < clock.now < 1


def test_another_process_under_the_same_number_is_not_the_holder():
    mine = Holder.this_process("mine")
    reused = Holder(**{**json.loads(mine.to_bytes()), "pid": os.getppid(), "started": "1"})
    assert reused.is_gone


def test_a_lease_that_this_process_left_behind_is_free():
    storage, clock = MemoryStorage(), Clock()
    put(storage, Holder.this_process("abandoned"))
    take(storage, clock).release()
    assert clock.now == 0.0


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"id": 3}'])
def test_a_file_that_is_no_lease_expires_like_one(data: bytes):
    storage, clock = MemoryStorage(), Clock()
    storage.write(leases.path_of(1), data)
    take(storage, clock).release()
    assert clock.now == pytest.approx(10, abs=0.3)


class Unwritable(MemoryStorage):
    def __init__(self, failures: int) -> None:
        super().__init__()
        self._failures = failures

    def create(self, path: str, data: bytes) -> bool:
        if self._failures:
            self._failures -= 1
            raise OSError(30, "Read-only file system")
        return super().create(path, data)


def test_a_directory_that_cannot_be_written_is_tried_as_often_as_a_checkpoint():
    take(Unwritable(2), tolerable_failures=2).release()
    with pytest.raises(CommitError, match=r"Read-only file system.*the directory"):
        take(Unwritable(3), tolerable_failures=2)


def test_a_holder_that_finds_another_one_has_lost(tmp_path: Path):
    for taken_over in (True, False):
        storage, lost = LocalStorage(str(tmp_path / str(taken_over)), durable=False), threading.Event()
        lease = acquire(storage, "mine", "here", 100)
        lease.call_on_loss(lost.set)
        if taken_over:
            put(storage, ELSEWHERE, 2)
        else:
            storage.delete(leases.path_of(1))  # taken over by someone who has ended since
        assert lost.wait(WAIT_SECONDS) and lease.is_lost
        lease.release()
        # The other one's is not touched.
        assert names(storage) == (["000000000002.json"] if taken_over else [])


def test_a_lease_of_the_same_number_is_not_taken_for_ones_own(tmp_path: Path):
    storage, lost = LocalStorage(str(tmp_path), durable=False), threading.Event()
    lease = acquire(storage, "mine", "here", 60_000)
    # While it slept another one took over and left again, and a third one began to count anew.
    put(storage, ELSEWHERE, 1)
    assert not lease.is_held()
    lease.release()
    found = holder(storage)
    assert found is not None and found.id == ELSEWHERE.id
    storage.delete(leases.path_of(1))
    lease = acquire(storage, "mine", "here", 100)
    deadline = time.monotonic() + WAIT_SECONDS
    while not lease.is_lost and time.monotonic() < deadline:
        # Again and again, since a beat under way may put its own back.
        put(storage, ELSEWHERE, 1)
    assert lease.is_lost
    # Whoever asks only now to be told learns it too.
    lease.call_on_loss(lost.set)
    assert lost.is_set()
    lease.release()


def test_a_number_that_others_have_left_behind_is_given_back():
    storage = MemoryStorage()
    create = storage.create

    def late(path: str, data: bytes) -> bool:
        storage.create = create  # type: ignore[method-assign]
        put(storage, ELSEWHERE, 2)
        return create(path, data)

    storage.create = late  # type: ignore[method-assign]
    clock = Clock()
    lease = take(storage, clock)
    # It has watched the other one, and knows whose lease it took.
    assert clock.now == pytest.approx(10, abs=0.3)
    assert names(storage) == ["000000000003.json"]
    assert lease.taken_from == ELSEWHERE
    lease.release()
    lease = take(storage)
    assert lease.taken_from is None
    lease.release()


def test_the_counter_moves_even_after_the_directory_was_gone_for_a_while(tmp_path: Path):
    storage = LocalStorage(str(tmp_path / "checkpoints"), durable=False)
    lease = acquire(storage, "mine", "here", 100)
    beats: set[int] = set()
    gone = 0
    list_ = storage.list

    def failing(folder: str) -> list[str]:
        nonlocal gone
        gone += 1
        if gone in (2, 3):
            raise OSError("stale file handle")
        return list_(folder)

    storage.list = failing  # type: ignore[method-assign]
    while len(beats) < 3 or gone < 4:
        known = Holder.from_bytes(storage.read(leases.path_of(1)))
        assert known is not None
        beats.add(known.beats)
    assert not lease.is_lost
    lease.release()


def endless(env: Any, sink: CollectSink) -> Any:
    env.generate(generator=lambda i: i, rate=1000, splits=1).sink_to(sink)
    return env.execute_async("endless")


def test_a_second_job_on_the_same_directory_is_refused_until_the_first_has_ended(new_env, tmp_path):
    first = endless(new_env(checkpoint_dir=tmp_path), CollectSink())
    with pytest.raises(LeaseError, match=rf"another driver uses this checkpoint directory: job 'endless'.*{tmp_path}"):
        endless(new_env(checkpoint_dir=tmp_path), CollectSink())
    first.cancel().result(WAIT_SECONDS)
    assert names(LocalStorage(str(tmp_path))) == []
    second = endless(new_env(checkpoint_dir=tmp_path), CollectSink())
    second.cancel().result(WAIT_SECONDS)
    assert second.get_job_status().result() is JobStatus.CANCELED


def test_a_job_that_fails_gives_its_lease_back(make_env, tmp_path):
    env = make_env("local", checkpoint_dir=tmp_path)
    env.from_collection([1]).map(lambda n: n / 0).print()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        env.execute()
    assert names(LocalStorage(str(tmp_path))) == []


def test_a_job_that_waits_for_input_learns_that_it_was_taken_over(make_env, tmp_path):
    """It commits nothing, so it never meets the fence; the lease tells it."""
    env = make_env("local", checkpoint_dir=tmp_path, settings={"flintstream.lease.timeout": "200 ms"})
    env.generate(generator=lambda i: i, rate=0.0001, splits=1).print()
    client = env.execute_async("idle")
    put(LocalStorage(str(tmp_path)), ELSEWHERE)
    with pytest.raises(FencedError, match="another driver has taken over job 'idle'"):
        client.get_job_execution_result().result(WAIT_SECONDS)


def test_a_driver_that_was_asleep_is_fenced_and_the_output_is_exact(tmp_path: Path):
    events = 20_000
    folders = Folders(tmp_path)
    options = {"runtime": "local", "flintstream.epoch.max-records": 500, "flintstream.lease.timeout": "1 s"}
    asleep = JobProcess(folders, events, **options)
    second: JobProcess | None = None
    try:
        assert asleep.wait_for_epochs(3)
        os.kill(asleep.process.pid, signal.SIGSTOP)
        before = folders.epoch()
        second = JobProcess(folders, events, **options)
        assert second.wait_for_epochs(3), second.said()
        assert folders.epoch() > before
        os.kill(asleep.process.pid, signal.SIGCONT)
        assert asleep.process.wait(WAIT_SECONDS) == 1
        assert "FencedError" in asleep.said()
        assert second.finish() == 0, second.said()
    finally:
        for process in filter(None, (asleep, second)):
            os.killpg(process.process.pid, signal.SIGKILL) if process.is_running else None
            process.close()
    check_output(folders, events)
