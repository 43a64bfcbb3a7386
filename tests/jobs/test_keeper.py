"""What a keeper's word, a driver's report and the wishes of others make of a job's status; and who clears away what."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintstream.engine.lease import Holder, acquire, holder
from flintstream.jobs.files import append_line, read_json, read_lines, write_json
from flintstream.jobs.keeper_process import MOST_STILLBORN, SILENCE_SECONDS, Keepers, last_words
from flintstream.jobs.leftovers import clear_away, wait_for_lease
from flintstream.jobs.orders import SPEC, KeeperState, Orders
from flintstream.jobs.reports import JobFiles
from flintstream.jobs.seen import changes_of, status_of
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.store import Record
from flintstream.state.storage import LocalStorage, MemoryStorage
from tests.jobs.managed import until

RECORD = Record("a" * 32, "job", 1, 1, status="RUNNING", attempt=1)
HERE = vars(Holder.this_process("job"))
KEEPER = KeeperState(HERE, state="RUNNING", start=1, attempt=1, child_started_ms=100)
REPORT = {"status": "RUNNING", "attempt": 1, "updated_ms": 200}


@pytest.mark.parametrize(
    ("record", "keeper", "is_alive", "report", "status"),
    [
        ({"status": "CREATED"}, None, False, {}, "CREATED"),
        ({"status": "INITIALIZING", "attempt": 0}, None, False, {}, "INITIALIZING"),
        ({"status": "INITIALIZING", "attempt": 0}, None, True, {}, "INITIALIZING"),
        ({}, {}, True, {}, "INITIALIZING"),
        ({}, {}, True, {"status": "CREATED"}, "INITIALIZING"),
        ({}, {}, True, {"status": "RUNNING"}, "RUNNING"),
        ({}, {}, True, {"status": "RESTARTING"}, "RESTARTING"),
        ({}, {}, True, {"status": "FINISHED"}, "RUNNING"),
        ({}, {"attempt": 2}, True, {"status": "RUNNING"}, "RESTARTING"),
        ({}, {"state": "RESTARTING"}, True, {"status": "RUNNING"}, "RESTARTING"),
        ({}, {}, False, {"status": "RUNNING"}, "RECONCILING"),
        ({}, {"state": "LEFT"}, False, {"status": "RUNNING"}, "RECONCILING"),
        ({}, {"state": "FINISHED"}, False, {"status": "RUNNING"}, "FINISHED"),
        ({}, {"state": "FAILED"}, True, {"status": "RUNNING"}, "FAILED"),
        ({"start": 2}, {"state": "FINISHED"}, True, {}, "RESTARTING"),
        ({"start": 2, "status": "CREATED"}, {"state": "FINISHED"}, False, {}, "CREATED"),
        ({"wanted": "canceled"}, {}, True, {"status": "RUNNING"}, "CANCELLING"),
        ({"wanted": "canceled"}, {}, False, {"status": "RUNNING"}, "CANCELED"),
        ({"wanted": "canceled"}, {"state": "FINISHED"}, False, {}, "FINISHED"),
        ({"wanted": "stopped"}, {}, True, {"status": "RUNNING"}, "RUNNING"),
        ({"wanted": "stopped"}, {}, False, {"status": "RUNNING"}, "FINISHED"),
    ],
)
def test_a_status_is_what_all_of_them_say(record: Any, keeper: Any, is_alive: bool, report: Any, status: str) -> None:
    known = None if keeper is None else replace(KEEPER, **keeper)
    said = {**REPORT, **report} if report else {}
    plan = {"attempt": 1}
    assert status_of(replace(RECORD, **record), known, is_alive, said, plan) == status
    if status == "RUNNING" and record.get("wanted") != "stopped":
        # Not before it is known what runs.
        assert status_of(replace(RECORD, **record), known, is_alive, said, {"attempt": 0}) == "INITIALIZING"


def test_only_what_is_new_is_written_down() -> None:
    plan = {"attempt": 1, "checkpoint_dir": "state", "parallelism": 3, "guarantee": {"level": "at-least-once"}}
    found = changes_of(RECORD, KEEPER, True, REPORT, plan, Path("/there"))
    news = {
        "started_ms": 100,
        "seen_checkpoint_dir": "/there/state",
        "seen_parallelism": 3,
        "guarantee": "at-least-once",
    }
    assert found == news
    assert changes_of(replace(RECORD, **news), KEEPER, True, REPORT, plan, Path("/there")) == {}
    # The plan of a driver before this one says nothing.
    assert changes_of(replace(RECORD, started_ms=1), KEEPER, True, REPORT, {**plan, "attempt": 7}, Path("/there")) == {
        "status": "INITIALIZING"
    }
    ended = replace(KEEPER, state="FAILED", error="why", ended_ms=300)
    found = changes_of(replace(RECORD, **news), ended, False, REPORT, plan, Path("/there"))
    assert found == {"status": "FAILED", "ended_ms": 300, "error": "why"}


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_keeper_elsewhere_is_dead_when_it_does_not_move() -> None:
    clock = Clock()
    keepers = Keepers(clock)
    there = KeeperState({**HERE, "machine": "another", "host": "there"}, state="RUNNING")
    assert keepers.is_alive("a", there)
    clock.now += SILENCE_SECONDS - 1
    assert keepers.is_alive("a", there)
    clock.now += 2
    assert not keepers.is_alive("a", there)
    assert keepers.is_alive("a", replace(there, beats=1))
    assert not keepers.is_alive("a", replace(there, state="FINISHED", beats=2))
    assert not keepers.is_alive("a", None)


def test_a_keeper_here_that_is_gone_is_known_to_be_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    gone = KeeperState(vars(Holder.process(process.pid, "job")), state="RUNNING")
    process.wait()
    assert not Keepers().is_alive("a", gone)


def test_a_job_whose_keepers_cannot_begin_has_failed(tmp_path: Path) -> None:
    clock = Clock()
    keepers = Keepers(clock)
    for number in range(MOST_STILLBORN):
        assert not keepers.cannot_begin("a")
        assert keepers.start("a", tmp_path)
        until(lambda: not keepers.is_alive("a", None), "there is no job here")
        assert keepers.start("a", tmp_path) is False, number
        clock.now += 100
    assert keepers.cannot_begin("a")
    assert "job.json" in last_words(tmp_path)
    keepers.forget("a")
    assert not keepers.cannot_begin("a")


def test_what_a_dead_keeper_left_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    state = KeeperState(HERE, child=vars(Holder.process(process.pid, "job")))
    monkeypatch.setattr("flintstream.jobs.leftovers.SECONDS_TO_LEAVE", 0.2)
    clear_away(tmp_path, state, None)
    assert process.wait(10) == -signal.SIGKILL


def test_a_stranger_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    known = {**vars(Holder.process(stranger.pid, "job")), "started": "1"}
    clear_away(tmp_path, KeeperState(HERE, child=known), None)
    elsewhere = {**vars(Holder.process(stranger.pid, "job")), "machine": "another"}
    clear_away(tmp_path, KeeperState(HERE, child=elsewhere), None)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_driver_elsewhere_is_waited_for() -> None:
    storage, clock, waits = MemoryStorage(), Clock(), [0]
    there = replace(Holder.this_process("job"), machine="another")

    def wait(seconds: float) -> None:
        clock.now += seconds
        waits[0] += 1
        if waits[0] <= 20:
            storage.write("lease/000000000001.json", replace(there, beats=waits[0]).to_bytes())

    storage.write("lease/000000000001.json", there.to_bytes())
    wait_for_lease(storage, longest=60.0, still=10.0, clock=clock, wait=wait)
    # It moved for two seconds, and was still for ten.
    assert 11.0 < clock.now - Clock.now < 13.0
    assert holder(storage) is not None


def test_a_lease_tells_who_was_asleep() -> None:
    storage = MemoryStorage()
    mine = acquire(storage, "job", "here", timeout_ms=60_000)
    assert mine.is_held()
    storage.write("lease/000000000002.json", Holder.this_process("other").to_bytes())
    assert not mine.is_held()
    mine.release()


@pytest.mark.parametrize("is_put_right", [True, False])
def test_a_keeper_that_begins_waits_for_orders_that_count(tmp_path: Path, is_put_right: bool) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "app.py").write_text("print('here')")
    write_json(tmp_path / SPEC, JobSpec(program=str(tmp_path / "app.py")).to_json())
    before = KeeperState({**HERE, "started": "1"}, state="RUNNING", start=2, term=5)
    before.write(tmp_path)
    # A leader that slept has written them over those that the last keeper had obeyed.
    Orders(4, "canceled", 1).write(tmp_path)
    with subprocess.Popen([sys.executable, "-m", "flintstream.jobs.keeper", str(tmp_path)]) as keeper:
        try:
            until(lambda: holder(LocalStorage(str(tmp_path))), "it keeps the folder")
            until(lambda: _catches(keeper.pid, signal.SIGTERM), "it can be told to leave")
            assert KeeperState.read(tmp_path) == before
            if is_put_right:
                Orders(6, "running", 2).write(tmp_path)
                assert keeper.wait(60) == 0
            else:
                keeper.terminate()
                assert keeper.wait(60) == 128 + signal.SIGTERM
        finally:
            keeper.kill()
    after = KeeperState.read(tmp_path)
    assert after is not None
    if is_put_right:
        assert (after.state, after.start, after.term, after.attempt) == ("FINISHED", 2, 6, 1)
    else:
        assert after == before
    assert holder(LocalStorage(str(tmp_path))) is None


def _catches(pid: int, number: int) -> bool:
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_documents_are_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    assert read_json(path) == {}
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}
    path.write_text('{"a": ')
    assert read_json(path) == {}
    path.write_text("[1]")
    assert read_json(path) == {}
    assert [each.name for each in tmp_path.iterdir()] == ["document.json"]
    lines = tmp_path / "lines.jsonl"
    assert list(read_lines(lines)) == []
    append_line(lines, {"n": 1})
    with lines.open("a") as file:
        file.write('{"n": \n')
    append_line(lines, {"n": 2})
    assert list(read_lines(lines)) == [{"n": 1}, {"n": 2}]
    assert lines.stat().st_mode & 0o077 == 0


def test_failures_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    append_line(tmp_path / "report" / "exceptions.jsonl", {"at_ms": 50_000, "type": "ValueError", "message": "no"})
    append_line(tmp_path / "deaths.jsonl", {"at_ms": 50_400, "type": "ValueError", "message": "no"})
    append_line(tmp_path / "deaths.jsonl", {"at_ms": 90_000, "type": "ProcessDied", "message": "killed"})
    assert [each["type"] for each in JobFiles(tmp_path).exceptions()] == ["ProcessDied", "ValueError"]
