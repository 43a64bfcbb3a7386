"""A lease on a checkpoint directory: who runs the job there, so that a second driver is told so before it begins.

The manifest is the fence that keeps results right whoever runs; a lease only saves the work and the surprise. So it may
be simple: a numbered file that its holder rewrites again and again with a counter. Clocks of different machines are
never compared: who wants the lease watches whether the counter moves, by a clock of its own. Only where a file says
that its holder was a process of this machine, and that process is gone, there is nothing to wait for. The file is made
by `create`, under the next number, so of several who take over one wins. A number may come again once everything was
released, so what tells a lease is the id in its file: whoever slept must not take another's for its own.

Flink: the leader election of high availability (LeaderElectionService), with the lease of its Kubernetes driver.
Differs from Flink: there is no standby; who does not get the lease ends.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from flintstream.errors import CommitError, CorruptStateError, LeaseError, describe
from flintstream.state.local_folder import boot_id
from flintstream.state.storage import Storage

FOLDER = "lease"
TIMEOUT_MS = 10_000
BEATS_PER_TIMEOUT = 5
LOOKS_PER_TIMEOUT = 50
_HELD: set[str] = set()
"""The leases that are held in this process."""
_LOG = logging.getLogger("flintstream")


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, as its file says. `machine` and `started` tell processes apart that have the same number."""

    id: str
    job: str
    host: str
    machine: str
    pid: int
    started: str
    since: str
    beats: int = 0

    @staticmethod
    def this_process(job: str) -> Holder:
        """Return a new holder in this process."""
        return Holder.process(os.getpid(), job)

    @staticmethod
    def process(pid: int, job: str) -> Holder:
        """Return a new holder in a process of this machine."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return Holder(uuid.uuid4().hex, job, socket.gethostname(), _this_machine(), pid, _started(pid), now)

    def to_bytes(self) -> bytes:
        """Return the content of a lease's file."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Holder | None:
        """Read a lease's file; None if it is not one."""
        try:
            return Holder(**json.loads(data))
        except (ValueError, TypeError):
            return None

    @property
    def is_gone(self) -> bool:
        """Whether it was a process of this machine that is no more, or gave the lease up without a word."""
        if not self.machine or self.machine != _this_machine():
            return False
        if self.pid == os.getpid():
            return self.id not in _HELD
        return os.name == "posix" and self.started != _started(self.pid)

    def __str__(self) -> str:
        return f"job {self.job!r} on host {self.host}, process {self.pid}, since {self.since}"


class Lease:
    """A lease that this process holds until it is released, or lost to someone who took it for dead.

    Attributes:
        taken_from: Whose lease it was before, if that one had not been released.
        is_lost: Whether it is known to be lost.
    """

    def __init__(
        self, storage: Storage, number: int, holder: Holder, timeout_ms: int, taken_from: Holder | None = None
    ) -> None:
        self.taken_from = taken_from
        self._storage = storage
        self._number = number
        self._holder = holder
        self._pause = timeout_ms / 1000 / BEATS_PER_TIMEOUT
        self._over = threading.Event()
        self._on_loss: Callable[[], None] = _nothing
        self.is_lost = False
        _HELD.add(holder.id)
        self._thread = threading.Thread(target=self._beat, name="flintstream-lease", daemon=True)
        self._thread.start()

    @property
    def id(self) -> str:
        """What no other lease is called."""
        return self._holder.id

    def is_held(self) -> bool:
        """Look now whether it is still held: whoever was asleep does not know what has happened since."""
        names = self._storage.list(FOLDER)
        return not self.is_lost and bool(names) and _number(names[-1]) == self._number and self._is_mine()

    def _is_mine(self) -> bool:
        """Whether the file of this number is that of this lease."""
        try:
            known = Holder.from_bytes(self._storage.read(path_of(self._number)))
        except CorruptStateError:
            return False
        # One that cannot be read is on its way, or damaged; the next beat puts it right.
        return known is None or known.id == self.id

    def call_on_loss(self, action: Callable[[], None]) -> None:
        """Call `action`, in another thread, when the lease turns out to be lost; at once if it already has."""
        self._on_loss = action
        if self.is_lost:
            action()

    def _beat(self) -> None:
        while not self._over.wait(self._pause):
            # A directory that cannot be read or written now may be there again next time.
            with suppress(OSError):
                if not self.is_held():
                    self.is_lost = True
                    self._on_loss()
                    return
                self._holder = replace(self._holder, beats=self._holder.beats + 1)
                self._storage.write(path_of(self._number), self._holder.to_bytes())

    def release(self) -> None:
        """Let others in at once."""
        self._over.set()
        # A beat that is under way would put the file back.
        self._thread.join()
        try:
            # One that is lost may have been put back too, by a beat that was asleep in the midst of it.
            with suppress(OSError):
                if self._is_mine():
                    self._storage.delete(path_of(self._number))
        finally:
            _HELD.discard(self._holder.id)


def _nothing() -> None:
    """Nobody asked to be told."""


def path_of(number: int) -> str:
    """Return where a lease's file is."""
    return f"{FOLDER}/{number:012d}.json"


def holder(storage: Storage) -> Holder | None:
    """Return who seems to run a job in a checkpoint directory: None if nobody does, or whoever did is known to be gone.

    A holder on another machine may be dead all the same; only waiting tells.
    """
    found = _newest(storage)
    if found is None:
        return None
    known = Holder.from_bytes(found[1])
    return None if known is None or known.is_gone else known


def acquire(
    storage: Storage,
    job: str,
    where: str,
    timeout_ms: int = TIMEOUT_MS,
    tolerable_failures: int = 0,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> Lease:
    """Take the lease of a checkpoint directory, if need be after watching that its holder is dead.

    Raises:
        LeaseError: another driver holds it, and lives.
        CommitError: the directory cannot be written.
    """
    failures = 0
    while True:
        try:
            return _acquire(storage, job, where, timeout_ms, clock, wait)
        except OSError as error:
            failures += 1
            if failures > tolerable_failures:
                what = f"the checkpoint directory cannot be written ({error})"
                raise CommitError(describe(what, where, "free space, mend it, or give another one")) from error
            _LOG.warning("the lease of %s could not be written (%s); trying again", where, error)
            wait(0.2 * failures)


def _acquire(
    storage: Storage,
    job: str,
    where: str,
    timeout_ms: int,
    clock: Callable[[], float],
    wait: Callable[[float], None],
) -> Lease:
    mine = Holder.this_process(job)
    while True:
        found = _newest(storage)
        if found is not None and not _is_free(storage, found, where, timeout_ms / 1000, clock, wait):
            continue
        number = 1 if found is None else found[0] + 1
        if storage.create(path_of(number), mine.to_bytes()):
            names = storage.list(FOLDER)
            if any(_number(name) > number for name in names):
                # Whoever looked long ago has a number that others have left behind.
                storage.delete(path_of(number))
                continue
            for name in names:
                if _number(name) < number:
                    storage.delete(f"{FOLDER}/{name}")
            return Lease(storage, number, mine, timeout_ms, None if found is None else Holder.from_bytes(found[1]))


def _is_free(
    storage: Storage,
    found: tuple[int, bytes],
    where: str,
    timeout: float,
    clock: Callable[[], float],
    wait: Callable[[float], None],
) -> bool:
    """Return whether a lease may be taken over; False if things have changed, so that one must look again."""
    number, before = found
    known = Holder.from_bytes(before)
    if known is not None and known.is_gone:
        return True
    if known is not None and known.id in _HELD:
        raise _held(known, where)
    _LOG.info("checkpoint directory %s has a lease (%s); watching whether it is alive", where, known)
    began = clock()
    while clock() - began < timeout:
        wait(timeout / LOOKS_PER_TIMEOUT)
        now = _newest(storage)
        if now is None or now[0] != number:
            return False
        if now[1] != before:
            raise _held(Holder.from_bytes(now[1]), where)
        if known is not None and known.is_gone:
            return True
    _LOG.warning("the lease of %s (%s) was not renewed for %.1f s: taking it over", where, known, timeout)
    return True


def _held(known: Holder | None, where: str) -> LeaseError:
    what = f"another driver uses this checkpoint directory: {known or 'an unknown one'}"
    return LeaseError(describe(what, where, "stop that one first, or give this job a directory of its own"))


def _newest(storage: Storage) -> tuple[int, bytes] | None:
    """Return the number and the content of the lease that counts."""
    for name in reversed(storage.list(FOLDER)):
        with suppress(CorruptStateError):  # released in the meantime
            return _number(name), storage.read(f"{FOLDER}/{name}")
    return None


def _number(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


@cache
def _this_machine() -> str:
    """Return a name for the process numbers of this machine since it was started; empty if there is no safe one."""
    boot = boot_id()
    try:
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}" if boot else ""
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a living process was started, in the kernel's own count; empty if there is none."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else rest[18]
