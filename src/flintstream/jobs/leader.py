"""Which of several managers over one home leads: the others stand by, and one of them takes over when it dies.

The lease is that of `engine.lease`, in `<home>/leader`: on one machine a dead leader is seen at once, and one that does
not move, or is on another machine, after ten seconds. A leader that was asleep finds out by looking at the lease before
it acts, and if it falls asleep between that look and the act, the database's term keeps it from writing. Where the
leader is to be found is in a file named after its lease, so no other manager writes there, or removes it by mistake.

Flink: LeaderElection with its drivers for ZooKeeper and Kubernetes. Differs from Flink: it needs no service besides a
directory that all managers share.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from flintstream.engine.lease import Holder, Lease, acquire, holder
from flintstream.engine.restart import now_ms
from flintstream.errors import FlintstreamError, LeaseError, ManagerError
from flintstream.jobs.files import read_json, write_json
from flintstream.state.storage import LocalStorage

TIMEOUT_MS = 10_000
LOOK_SECONDS = 0.5
_LOG = logging.getLogger("flintstream")


@dataclass(frozen=True)
class Leader:
    """The manager that leads: where it is, and since when."""

    url: str | None
    pid: int
    host: str
    since_ms: int
    term: int


def leader_of(home: Path) -> Leader | None:
    """Return who leads over a home; None if nobody does, or whoever did is known to be gone."""
    folder = home / "leader"
    try:
        held = holder(LocalStorage(str(folder)))
        found = {} if held is None else read_json(_path(folder, held.id))
        return Leader(**found) if found else None
    except (TypeError, OSError, FlintstreamError):
        return None


def _path(folder: Path, lease: str) -> Path:
    return folder / f"leader-{lease}.json"


@dataclass
class _Lead:
    """The time from one lease to its loss; what is said of it late must not be taken for said of the next."""

    lease: Lease
    lost: threading.Event = field(default_factory=threading.Event)
    leader: Leader | None = None


class Election:
    """Takes part in the election for one manager, in a thread of its own.

    Args:
        home: The home of the managers.
        begin: Called when this manager leads from now on; returns its term.
        end: Called when it does not lead any more.
        timeout_ms: How long a leader must not move to count as dead.
    """

    def __init__(
        self, home: Path, begin: Callable[[], int], end: Callable[[], None], timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self._folder = home / "leader"
        self._begin = begin
        self._end = end
        self._timeout_ms = timeout_ms
        self._closed = threading.Event()
        self._now: _Lead | None = None
        self._lock = threading.Lock()
        self._url: str | None = None
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="flintstream-election", daemon=True)

    def start(self) -> None:
        """Take part from now on."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether this manager leads, as far as it knows; whoever asks `leader_of` then finds it."""
        now = self._now
        return now is not None and now.leader is not None and not now.lost.is_set()

    @property
    def problem(self) -> str | None:
        """Why this manager could not lead when it was its turn; None since it did."""
        return self._problem

    def leads_now(self) -> bool:
        """Look now whether this manager has the lease: it may have slept."""
        now = self._now
        if now is None or now.lost.is_set():
            return False
        try:
            is_held = now.lease.is_held()
        except OSError:
            return False
        if not is_held:
            now.lost.set()
        return is_held

    def announce(self, url: str | None) -> None:
        """Say where this manager is to be found."""
        with self._lock:
            self._url = url
            now = self._now
            if now is not None and now.leader is not None:
                self._write(now, replace(now.leader, url=url))

    def resign(self, term: int) -> None:
        """Give the lead of a term up, and stand for election again."""
        now = self._now
        if now is not None and now.leader is not None and now.leader.term == term:
            now.lost.set()

    def _write(self, now: _Lead, leader: Leader) -> None:
        write_json(_path(self._folder, now.lease.id), asdict(leader))
        now.leader = leader

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                lease = acquire(LocalStorage(str(self._folder)), "manager", str(self._folder), self._timeout_ms)
            except LeaseError:
                self._closed.wait(LOOK_SECONDS)
                continue
            except (OSError, FlintstreamError) as error:
                self._complain(f"cannot take part in the election of a manager: {error}")
                self._closed.wait(LOOK_SECONDS)
                continue
            self._lead(lease)

    def _complain(self, problem: str) -> None:
        # It is met again twice a second, and on a full disk nobody can spare the lines.
        if problem != self._problem:
            self._problem = problem
            _LOG.warning("%s", problem)

    def _lead(self, lease: Lease) -> None:
        now = self._now = _Lead(lease)
        lease.call_on_loss(now.lost.set)
        try:
            term = self._take_over(lease.taken_from)
            with self._lock:
                self._write(now, Leader(self._url, os.getpid(), socket.gethostname(), now_ms(), term))
            self._problem = None
            self._tidy()
            while not self._closed.is_set() and not now.lost.wait(0.1):
                continue
        except (OSError, FlintstreamError) as error:
            self._complain(f"cannot lead: {error}")
            self._closed.wait(LOOK_SECONDS)
        finally:
            with self._lock:
                self._now = None
            self._end()
            with suppress(OSError):
                _path(self._folder, lease.id).unlink(missing_ok=True)
            lease.release()

    def _tidy(self) -> None:
        """Remove what leaders that died have said of themselves."""
        with suppress(OSError):
            # In this order: a leader that comes later is not among those found, however long this thread sleeps.
            found = list(self._folder.glob("leader-*.json"))
            held = holder(LocalStorage(str(self._folder)))
            for path in found:
                if held is not None and path != _path(self._folder, held.id):
                    path.unlink(missing_ok=True)

    def _take_over(self, before: Holder | None) -> int:
        try:
            return self._begin()
        except ManagerError:
            # Who was stopped in the midst of a transaction keeps everyone out of the database. It has lost the lead,
            # its jobs have processes of their own, and nobody needs it any more.
            if before is None or before.is_gone or before.machine != Holder.this_process("").machine:
                raise
            _LOG.warning("process %d, which led before and does not move, keeps the database locked: ended", before.pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(before.pid, signal.SIGKILL)
            return self._begin()

    def close(self) -> None:
        """Give the lead up, and take no more part."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()


def describe_leader(leader: Leader | None) -> str:
    """Return who leads, in words.

    >>> describe_leader(None)
    'nobody leads at the moment'
    """
    if leader is None:
        return "nobody leads at the moment"
    return f"process {leader.pid} on host {leader.host} leads" + (f", at {leader.url}" if leader.url else "")
