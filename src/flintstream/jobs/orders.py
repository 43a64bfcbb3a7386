"""What a manager and the keepers of its jobs tell each other, as two documents in the job's folder.

The manager writes `orders.json`: what is wanted of the job, and how it is to be started. The keeper writes
`keeper.json`: who it is, how often it started the driver, and how far that got. Files and no socket, because either
may be killed, started again, or be on another machine, and what was said must still be there.

Flink: the JobManager's JobMasterGateway, as far as it starts, cancels and rescales a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from flintstream.engine.lease import Holder
from flintstream.jobs.files import read_json, write_json

ORDERS, KEEPER, SPEC, REPORT = "orders.json", "keeper.json", "job.json", "report"
OUT, ERR = "log/driver.out", "log/driver.err"


@dataclass(frozen=True)
class Orders:
    """What is wanted of a job.

    Attributes:
        term: Which leader says so; what an older one says does not count any more.
        wanted: "running", "canceled" or "stopped".
        start: A higher number than before asks for another start of the program.
        settings: Given to the program, which may set something else.
        imposed: Given to the program, whatever it sets itself.
    """

    term: int
    wanted: str
    start: int
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    imposed: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @staticmethod
    def read(folder: Path) -> Orders | None:
        """Return the orders in a job's folder, None if there are none."""
        found = read_json(folder / ORDERS)
        try:
            return Orders(**found) if found else None
        except TypeError:
            return None

    def write(self, folder: Path) -> None:
        """Put the orders into a job's folder."""
        write_json(folder / ORDERS, asdict(self), durable=True)


@dataclass(frozen=True)
class KeeperState:
    """How far a keeper is.

    Attributes:
        keeper: The keeper's process.
        child: The driver's process, None if there is none at the moment.
        pid: The number of the keeper's process.
        host: Its machine.
        child_pid: The number of the driver's process.
        beat_ms: When this was written, by the keeper's clock.
        beats: How often this was written.
        state: INITIALIZING, RUNNING, FAILING, RESTARTING or CANCELLING; in the end FINISHED, FAILED, CANCELED or LEFT.
        start: The orders' number that the keeper acts on.
        term: The leader whose orders the keeper has last obeyed; those of older ones do not count for the next keeper
            either.
        attempt: How often the driver was started.
        restarts: How many of its failures were followed by a restart, of the driver or inside it; without those inside
            the driver that runs.
        child_started_ms: When the driver was last started.
        ended_ms: When the job ended.
        status: The exit status in the end.
        error: Why the job failed.
    """

    keeper: Mapping[str, Any]
    child: Mapping[str, Any] | None = None
    pid: int = 0
    host: str = ""
    child_pid: int | None = None
    beat_ms: int = 0
    beats: int = 0
    state: str = "INITIALIZING"
    start: int = 0
    term: int = 0
    attempt: int = 0
    restarts: int = 0
    child_started_ms: int | None = None
    ended_ms: int | None = None
    status: int | None = None
    error: str | None = None

    @staticmethod
    def read(folder: Path) -> KeeperState | None:
        """Return what the keeper of a job's folder has written last, None if there never was one."""
        found = read_json(folder / KEEPER)
        known = {each.name for each in fields(KeeperState)}
        if not isinstance(found.get("keeper"), dict):
            return None
        return KeeperState(**{name: value for name, value in found.items() if name in known})

    def write(self, folder: Path) -> None:
        """Put it into a job's folder."""
        write_json(folder / KEEPER, asdict(self), durable=self.has_ended)

    def with_child(self, child: Holder | None) -> KeeperState:
        """Return the same with another driver."""
        return replace(
            self, child=None if child is None else asdict(child), child_pid=None if child is None else child.pid
        )

    @property
    def has_ended(self) -> bool:
        """Whether the keeper has nothing more to do for the job."""
        return self.state in ("FINISHED", "FAILED", "CANCELED", "LEFT")

    def is_gone(self) -> bool:
        """Whether the keeper was a process of this machine that is no more."""
        return _holder(self.keeper).is_gone

    def is_here(self) -> bool:
        """Whether the keeper is a process of this machine that lives."""
        known = _holder(self.keeper)
        return known.machine == Holder.this_process(known.job).machine and not known.is_gone

    def old_child(self) -> Holder | None:
        """Return the driver that was started last, if it may still be there."""
        return None if self.child is None else _holder(self.child)


def _holder(document: Mapping[str, Any]) -> Holder:
    return Holder(**cast("dict[str, Any]", document))
