"""Which of several managers over one home leads: the others stand by, and one of them takes over when it dies.

The lease is that of `engine.lease`, in `<home>/leader`: on one machine a dead leader is seen at once, and one that does
not move, or is on another machine, after ten seconds. A leader that was asleep finds out by looking at the lease before
it acts, and if it falls asleep between that look and the act, the database's term keeps it from writing.

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
from dataclasses import asdict, dataclass
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
    found = read_json(folder / "leader.json")
    try:
        leader = Leader(**found) if found else None
        held = holder(LocalStorage(str(folder))) if leader is not None else None
    except (TypeError, OSError, FlintstreamError):
        return None
    return leader if held is not None and leader is not None and held.pid == leader.pid else None


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
        self._lost = threading.Event()
        self._lease: Lease | None = None
        self._lock = threading.Lock()
        self._url: str | None = None
        self._leader: Leader | None = None
        self._thread = threading.Thread(target=self._run, name="flintstream-election", daemon=True)

    def start(self) -> None:
        """Take part from now on."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether this manager leads, as far as it knows."""
        return self._leader is not None and not self._lost.is_set()

    def leads_now(self) -> bool:
        """Look now whether this manager leads: it may have slept."""
        lease = self._lease
        try:
            leads = self.leads and lease is not None and lease.is_held()
        except OSError:
            return False
        if not leads:
            self._lost.set()
        return leads

    def announce(self, url: str | None) -> None:
        """Say where this manager is to be found."""
        with self._lock:
            self._url = url
            self._write()

    def _write(self) -> None:
        leader = self._leader
        if leader is not None and self.leads_now():
            self._leader = Leader(self._url, leader.pid, leader.host, leader.since_ms, leader.term)
            write_json(self._folder / "leader.json", asdict(self._leader))

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                before = holder(LocalStorage(str(self._folder)))
                lease = acquire(LocalStorage(str(self._folder)), "manager", str(self._folder), self._timeout_ms)
            except LeaseError:
                self._closed.wait(LOOK_SECONDS)
                continue
            except (OSError, FlintstreamError) as error:
                _LOG.warning("cannot take part in the election of a manager: %s", error)
                self._closed.wait(LOOK_SECONDS)
                continue
            self._lead(lease, before)

    def _lead(self, lease: Lease, before: Holder | None) -> None:
        self._lost.clear()
        lease.call_on_loss(self._lost.set)
        try:
            self._lease = lease
            term = self._take_over(before)
            with self._lock:
                self._leader = Leader(self._url, os.getpid(), socket.gethostname(), now_ms(), term)
                self._write()
            while not self._closed.is_set() and not self._lost.wait(0.1):
                continue
        except FlintstreamError as error:
            _LOG.warning("cannot lead: %s", error)
            self._closed.wait(LOOK_SECONDS)
        finally:
            with self._lock:
                leads = self.leads
                self._leader = None
            self._end()
            if leads:
                with suppress(OSError):
                    (self._folder / "leader.json").unlink(missing_ok=True)
            lease.release()
            self._lease = None

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
