"""Where a run can die: every step of a port or of a user's function has a name; a fault is one of them, the nth time.

What a fault does depends on what it crashes. `task`: the step raises. `worker`: the process that runs tasks is gone,
with all it held. `driver`: the process that commits is gone. On Spark, and in a process of its own, both are SIGKILLs.
Inside the test's own process they are exceptions that nobody handles, after which no port works any more, so that no
`finally` and no `abort` reaches the outside: a death without a corpse.

A fault is hit once in the life of a job, in whatever process it is. Files remember that, so that a test can insist on
it: a fault that was never hit proves nothing.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from flintstream.engine.task import close_kept
from tests.crash.ports import Crash

PHASES: dict[str, tuple[str, ...]] = {
    "source read": ("read", "read done"),
    "operator": ("function", "result"),
    "state write": ("update",),
    "changelog write": ("write state", "write state done", "write epochs", "write epochs done"),
    "manifest write": ("create manifests", "create manifests done"),
    "sink prepare": ("stage", "put", "prepare", "prepare done"),
    "sink commit": ("show", "show done", "commit", "commit half", "commit done"),
    "after commit": ("delete manifests", "delete epochs", "delete state", "told", "create settled"),
}
PHASE_OF = {step: phase for phase, steps in PHASES.items() for step in steps}
IN_TASKS = {
    *PHASES["source read"],
    *PHASES["operator"],
    *PHASES["state write"],
    *PHASES["sink prepare"],
    "write state",
    "write state done",
}
"""The steps of tasks; all others are the driver's."""
PER_RECORD = {"function", "result", "update"}
CRASHES = ("task", "worker", "driver")


class OnPurposeError(OSError):
    """What a step raises when its task crashes: an error that is nobody's fault."""

    def __init__(self, step: str = "") -> None:
        super().__init__(f"crashed on purpose at {step!r}")


class WorkerLost(BaseException):
    """The end of the process that runs tasks, in the test's own process."""


@dataclass(frozen=True)
class Fault:
    """What crashes, at which step, the how manyth time that it is reached."""

    crash: str
    step: str
    nth: int = 1

    @property
    def phase(self) -> str:
        return PHASE_OF[self.step]


@dataclass(frozen=True)
class Hit:
    """A fault that has happened."""

    crash: str
    step: str
    nth: int
    process: str

    def __str__(self) -> str:
        return f"{self.crash} at {PHASE_OF[self.step]} ({self.step!r}, time {self.nth}, in the {self.process})"


@dataclass
class _Here:
    """What the test's own process knows of a run that goes on in it."""

    seen: Counter[str]
    watchers: list[Callable[[str], None]]
    dead: type[BaseException] | None = None
    incarnation: str = ""


_HERE: dict[str, _Here] = {}


@dataclass(frozen=True)
class Points:
    """The faults of one job, by a folder that remembers which have been hit. It travels to workers with its ports.

    `driver` is the process id of a driver whose death is real; without one everything is in the test's own process.
    """

    folder: str
    faults: Sequence[Fault] = ()
    driver: int = 0

    def reach(self, step: str) -> None:
        """Called by a port at a step."""
        if not self.driver:
            here = self.here()
            if here.dead is not None:
                raise here.dead
            here.seen[step] += 1
            if step not in PER_RECORD:
                for watch in here.watchers:
                    watch(step)
        waiting = {n: f for n, f in enumerate(self.faults) if f.step == step and not self._mark(n).exists()}
        count = self._count(step) if waiting else 0
        for number, fault in waiting.items():
            if fault.nth == count:
                self._hit(number, fault)

    def here(self) -> _Here:
        """Return what this process knows of the run."""
        return _HERE.setdefault(self.folder, _Here(Counter(), []))

    @property
    def is_dead(self) -> bool:
        """Whether the process of this run is over, and its last words must not be heard."""
        return not self.driver and self.here().dead is not None

    def revive(self) -> None:
        """Let ports work again: another process takes over."""
        self.here().dead = None

    def hits(self) -> list[Hit]:
        """Return the faults that have happened, in the order in which they were asked for."""
        marks = map(self._mark, range(len(self.faults)))
        return [Hit(**json.loads(mark.read_text())) for mark in marks if mark.exists()]

    def _mark(self, number: int) -> Path:
        return Path(self.folder, f"hit-{number}.json")

    def _count(self, step: str) -> int:
        """Count one more time that a step was reached, in any process."""
        file = os.open(Path(self.folder, f"reached {step}"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, b".")
            return os.lseek(file, 0, os.SEEK_CUR)
        finally:
            os.close(file)

    def _hit(self, number: int, fault: Fault) -> None:
        in_driver = not self.driver or os.getpid() == self.driver
        process = "driver" if fault.step not in IN_TASKS else "worker"
        mark = self._mark(number)
        staged = mark.with_name(f".{mark.name}.{os.getpid()}")
        staged.write_text(json.dumps(asdict(Hit(fault.crash, fault.step, fault.nth, process))))
        staged.rename(mark)
        if fault.crash == "task":
            raise OnPurposeError(fault.step)
        if not self.driver:
            self._die_here(fault)
        elif fault.crash == "driver":
            # A worker that does this lives on for a while, as the zombie that it would be.
            os.killpg(os.getpgid(self.driver), signal.SIGKILL)
        elif in_driver:
            assert kill_workers(), "there was no worker to kill"
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def _die_here(self, fault: Fault) -> None:
        here = self.here()
        if fault.crash == "driver":
            here.dead = Crash
        elif fault.step in IN_TASKS:
            here.dead = WorkerLost
        else:
            close_kept(here.incarnation)  # the workers are gone while the driver is busy
            return
        raise here.dead


def kill_workers() -> int:
    """Kill all Python workers of this driver, whose daemon forks new ones; return how many there were."""
    killed = 0
    family = psutil.Process().children(recursive=True)
    daemons = {each.pid for each in family if "pyspark.daemon" in " ".join(_command(each))}
    for each in family:
        with suppress(psutil.Error):
            if each.pid in daemons and each.ppid() in daemons:
                each.kill()
                killed += 1
    return killed


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
