"""Of several managers over one home one leads: another takes over when it dies, and it finds out when it was asleep."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintstream.errors import EnvironmentSetupError, ManagerError, NotLeaderError
from flintstream.jobs.leader import Election, leader_of
from flintstream.jobs.orders import KeeperState, Orders
from flintstream.jobs.store import Record, Store
from tests.jobs.managed import ServedManager, assert_unbroken, clear, counting, until

MOST_SECONDS = 30.0
"""What the issue allows for a takeover."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    clear(home)


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[[str], ServedManager]]:
    made: list[ServedManager] = []

    def start(name: str) -> ServedManager:
        made.append(ServedManager(home, name))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.mark.row(78)
@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_standby_takes_over(
    serve: Callable[[str], ServedManager], home: Path, tmp_path: Path, end: signal.Signals
) -> None:
    first = serve("first")
    until(lambda: first.ask("is_leader"), "the first leads")
    standby = serve("second")
    job = first.ask("submit", counting(tmp_path / "job").to_json())["id"]
    until(lambda: first.ask("job", job)["status"] == "RUNNING", "it runs")
    # A standby knows everything, and changes nothing.
    assert standby.ask("job", job)["id"] == job
    assert standby.ask("is_leader") is False
    assert standby.ask("cancel", job) == {"error": "NotLeaderError", "url": "http://first"}
    keeper = KeeperState.read(home / "jobs" / job)

    began = time.monotonic()
    first.signal(end)
    until(lambda: standby.ask("is_leader"), "the standby leads")
    assert time.monotonic() - began < MOST_SECONDS
    leader = until(lambda: leader_of(home), "it is known who leads")
    assert (leader.url, leader.pid) == ("http://second", standby.process.pid)
    assert standby.ask("job", job)["status"] == "RUNNING"
    after = KeeperState.read(home / "jobs" / job)
    assert keeper is not None
    assert after is not None
    assert after.pid == keeper.pid
    if end == signal.SIGSTOP and first.process.poll() is None:
        # It has slept, and notices before it does anything. (Had it slept in a transaction, it would be gone.)
        first.signal(signal.SIGCONT)
        assert first.ask("cancel", job)["error"] == "NotLeaderError"
        assert first.ask("is_leader") is False
        assert standby.ask("is_leader") is True
    # What a leader of an older term may still write, is not obeyed, and is put right.
    folder = home / "jobs" / job
    orders = Orders.read(folder)
    assert orders is not None
    epoch = standby.ask("status", job)["epoch"]
    replace(orders, term=orders.term - 1, wanted="canceled").write(folder)
    until(lambda: Orders.read(folder) == orders, "the orders are those of the new leader again")
    until(lambda: standby.ask("status", job)["epoch"] > epoch + 5, "the job goes on")
    assert standby.ask("job", job)["attempt"] == 1
    assert standby.ask("cancel", job)["status"] == "CANCELED"
    assert_unbroken(tmp_path / "job")


def test_a_leader_that_leaves_makes_room_at_once(tmp_path: Path) -> None:
    terms: list[str] = []

    def election(name: str) -> Election:
        made = Election(tmp_path, lambda: terms.append(name) or len(terms), lambda: None)
        made.announce(f"http://{name}")
        made.start()
        return made

    first = election("first")
    until(lambda: first.leads, "the first leads")
    second = election("second")
    assert not second.leads
    found = leader_of(tmp_path)
    assert found is not None
    assert (found.url, found.term) == ("http://first", 1)
    first.announce("http://moved")
    moved = leader_of(tmp_path)
    assert moved is not None
    assert moved.url == "http://moved"
    first.close()
    until(lambda: second.leads, "the second leads")
    assert terms == ["first", "second"]
    second.close()
    assert leader_of(tmp_path) is None


LOCKING = """
    import sys, time
    from pathlib import Path
    from flintstream.jobs.leader import Election
    from flintstream.jobs.store import Store

    store = Store(Path(sys.argv[1]) / "db")
    election = Election(Path(sys.argv[1]), store.lead, lambda: None, timeout_ms=500)
    election.start()
    while not election.leads:
        time.sleep(0.01)
    store._db.execute("BEGIN EXCLUSIVE")
    print("locked", flush=True)
    time.sleep(600)
"""


def test_who_sleeps_in_the_midst_of_a_transaction_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LOCKING), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "locked\n"
        monkeypatch.setattr("flintstream.jobs.store.WAIT_SECONDS", 0.1)
        sleeper.send_signal(signal.SIGSTOP)
        stores: list[Store] = []

        def begin() -> int:
            stores.append(Store(tmp_path / "db"))
            return stores[-1].lead()

        election = Election(tmp_path, begin, lambda: None, timeout_ms=500)
        election.start()
        until(lambda: election.leads, "the standby leads")
        assert sleeper.wait(30) == -signal.SIGKILL
        election.close()
        stores[-1].close()


def test_nobody_leads_over_a_home_that_is_none(tmp_path: Path) -> None:
    assert leader_of(tmp_path / "nowhere") is None
    (tmp_path / "leader").mkdir()
    (tmp_path / "leader" / "leader.json").write_text('{"url": 1')
    assert leader_of(tmp_path) is None
    (tmp_path / "leader" / "leader.json").write_text('{"something": "else"}')
    assert leader_of(tmp_path) is None


def test_who_has_an_old_term_writes_nothing(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "db"), Store(tmp_path / "db")
    old = first.lead()
    first.insert(old, Record("a", "job", 1, 1))
    new = second.lead()
    assert new == old + 1
    for write in (
        lambda: first.insert(old, Record("b", "job", 1, 1)),
        lambda: first.update(old, "a", status="FAILED"),
        lambda: first.add_savepoint(old, "a", "path", 1),
        lambda: first.delete(old, "a"),
    ):
        with pytest.raises(NotLeaderError):
            write()
    assert [(each.id, each.status) for each in first.all()] == [("a", "CREATED")]
    assert second.update(new, "a", (5, "seen"), status="RUNNING").status == "RUNNING"
    assert first.notes("a")[-1] == {"at_ms": 5, "status": "RUNNING", "note": "seen"}
    first.close()
    second.close()


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    term = store.lead()
    store.insert(term, Record("a", "job", 1, 1))
    with pytest.raises(ManagerError, match="UNIQUE"):
        store.insert(term, Record("a", "again", 2, 2))
    assert [each.name for each in store.all()] == ["job"]
    assert len(store.notes("a")) == 1
    store.insert(term, Record("b", "other", 3, 3))
    store.close()
    again = Store(tmp_path / "db")
    assert [each.id for each in again.all()] == ["b", "a"]
    again.close()


def test_a_database_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    store._db.execute("PRAGMA user_version = 99")  # pyright: ignore[reportPrivateUsage]
    store.close()
    with pytest.raises(EnvironmentSetupError, match="version 99"):
        Store(tmp_path / "db")
    (tmp_path / "torn").write_bytes(b"this is no database at all, though it is long enough to be one" * 20)
    with pytest.raises(ManagerError, match="cannot be used"):
        Store(tmp_path / "torn")


def test_orders_travel_as_they_are(tmp_path: Path) -> None:
    assert Orders.read(tmp_path) is None
    orders = Orders(3, "running", 2, {"a": "1"}, {"parallelism.default": "4"})
    orders.write(tmp_path)
    assert Orders.read(tmp_path) == orders
    (tmp_path / "orders.json").write_text('{"term": 1}')
    assert Orders.read(tmp_path) is None
