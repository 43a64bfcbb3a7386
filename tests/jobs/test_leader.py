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
from flintstream.jobs.leader import Election, Leader, leader_of
from flintstream.jobs.manager import Manager
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
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
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
    leader = leader_of(home)
    assert leader is not None
    assert (leader.url, leader.pid) == ("http://second", standby.process.pid)
    assert standby.ask("job", job)["status"] == "RUNNING"
    after = KeeperState.read(home / "jobs" / job)
    assert keeper is not None
    assert after is not None
    assert after.pid == keeper.pid
    if end == signal.SIGSTOP and first.process.poll() is None:
        # It has slept, and notices before it does anything. (Had it slept in a transaction, it would be gone.)
        first.signal(signal.SIGCONT)
        assert first.ask("cancel", job) == {"error": "NotLeaderError", "url": "http://second"}
        assert first.ask("is_leader") is False
        assert standby.ask("is_leader") is True
    # What a leader of an older term may still write, is not obeyed, and is put right.
    folder = home / "jobs" / job

    def is_told() -> Orders | None:
        orders, state = Orders.read(folder), KeeperState.read(folder)
        assert orders is not None and state is not None
        return orders if orders.term == state.term == leader.term else None

    orders = until(is_told, "the keeper obeys the new leader")
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


def test_who_asks_while_the_lead_begins_takes_nothing_away(tmp_path: Path) -> None:
    asked: list[bool] = []

    def begin() -> int:
        # The manager's own thread looks whether it leads as soon as there is a term.
        asked.append(election.leads_now())
        assert not election.leads
        return len(asked)

    election = Election(tmp_path, begin, lambda: None)
    election.start()
    until(lambda: election.leads, "it leads")
    leader = leader_of(tmp_path)
    assert leader is not None
    assert leader.term == 1
    assert asked == [True]
    # Who hears late of the end of a term that is over does not end the next one.
    election.resign(1)
    until(lambda: len(asked) == 2 and election.leads, "it stands for election again")
    election.resign(1)
    assert election.leads
    election.close()


def test_why_nobody_leads_is_said_once_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    problems = iter(["the disk is full"] * 3 + ["it is locked"])
    begun: list[int] = []

    def begin() -> int:
        begun.append(1)
        if (problem := next(problems, None)) is not None:
            raise ManagerError(problem)
        return 1

    election = Election(tmp_path, begin, lambda: None)
    election.start()
    until(lambda: len(begun) == 3, "it has tried again")
    assert election.problem == "cannot lead: the disk is full"
    until(lambda: election.leads, "it leads")
    assert election.problem is None
    election.close()
    assert [each.message for each in caplog.records] == ["cannot lead: the disk is full", "cannot lead: it is locked"]


def test_a_leader_without_the_newest_term_makes_room(home: Path) -> None:
    manager = Manager(home, url="http://here")
    manager.start()
    until(lambda: manager.is_leader, "it leads")
    other = Store(home / "manager.db")
    newest = other.lead()

    def leader_after() -> Leader | None:
        found = leader_of(home)
        return found if found is not None and found.term > newest else None

    assert until(leader_after, "it has stood for election again").url == "http://here"
    assert manager.submit(counting(home / "job")).status == "CREATED"
    manager.close(cancel=True)
    other.close()


def test_who_is_refused_by_the_database_is_told_whom_to_ask(tmp_path: Path) -> None:
    store = Store(tmp_path / "db", lambda: "http://there")
    term = store.lead()
    store.check(term)
    store.lead()
    for refused in (lambda: store.check(term), lambda: store.delete(term, "a")):
        with pytest.raises(NotLeaderError) as caught:
            refused()
        assert caught.value.url == "http://there"
    store.close()


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
    election = Election(tmp_path, lambda: 1, lambda: None)
    election.start()
    until(lambda: election.leads, "it leads")
    assert leader_of(tmp_path) is not None
    (said,) = (tmp_path / "leader").glob("leader-*.json")
    for text in ('{"url": 1', '{"something": "else"}'):
        said.write_text(text)
        assert leader_of(tmp_path) is None
    election.close()
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
