"""The job of a chaos run as processes: kept running, watched, and killed in part or whole.

Driver, JVM and workers are found by what they are, below whatever keeps the job running.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.conftest import ROOT

PROGRAM = Path(__file__).with_name("job.py")
LONGEST_PAUSE = 10.0


class Lives:
    """The job, started again whenever it has ended: by Flintstream's own supervisor, or by `tend`."""

    def __init__(self, folder: Path, arguments: Sequence[str], *, supervised: bool) -> None:
        self._folder = folder
        self._supervised = supervised
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._first = time.time()
        self._next_start = 0.0
        self._quick_ends = 0

    @property
    def started_at(self) -> float:
        """When the job was first started, in seconds since the Unix epoch."""
        return self._first

    @property
    def log(self) -> Path:
        """Where the job's words go."""
        return self._folder / "job.log"

    def tend(self) -> None:
        """Start the job if it does not run; one that ends at once is given time, as any supervisor would."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            self._quick_ends = self._quick_ends + 1 if now - self._started < LONGEST_PAUSE else 0
            self._next_start = now + min(LONGEST_PAUSE, self._quick_ends)
        if self._process is None and now >= self._next_start:
            self._start()
            self._started = now

    def _start(self) -> None:
        runner = ["-m", "flintstream", "run", str(PROGRAM), "--"] if self._supervised else [str(PROGRAM)]
        scratch = self._folder / "scratch"
        scratch.mkdir(exist_ok=True)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        own = {"TMPDIR": str(scratch), "FLINTSTREAM_LOCAL_DIR": str(scratch), "PYTHONPATH": path}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *runner, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=scratch,
                env={**os.environ, **own},
                start_new_session=True,
            )

    def family(self) -> list[psutil.Process]:
        """All living processes of the job."""
        if self._process is None:
            return []
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def drivers(self) -> list[psutil.Process]:
        """The Python process that runs the program, if it is there; never what keeps it running."""
        found = [p for p in self.family() if str(PROGRAM) in command_of(p) and not is_java(p)]
        return found[1:] if self._supervised else found

    def machines(self) -> list[psutil.Process]:
        """The JVM of Spark."""
        return [p for p in self.family() if is_java(p)]

    def workers(self) -> list[psutil.Process]:
        """The processes that run tasks: children of Spark's Python daemon."""
        daemons = {p.pid: p for p in self.family() if "pyspark.daemon" in command_of(p)}
        return [p for p in daemons.values() if parent_of(p) in daemons]

    def strike(self, kind: str, rng: random.Random) -> bool:
        """Kill -9 what is meant; return whether there was anything to kill."""
        victims = {"driver": [*self.drivers(), *self.machines()], "jvm": self.machines()}.get(kind)
        if victims is None:
            workers = self.workers()
            victims = [rng.choice(workers)] if workers else []
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        return bool(victims)

    def stop(self, patience: float) -> None:
        """End the job as Ctrl-C does."""
        if self._process is None:
            return
        family = self.family()
        os.killpg(self._process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self.destroy(family)

    def destroy(self, family: list[psutil.Process] | None = None) -> None:
        """Leave nothing running."""
        for process in family or self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process is not None:
            self._process.wait()
            self._process = None

    def memory(self) -> dict[str, int]:
        """Return MB resident: driver, JVM, and all workers together."""
        parts = {"driver": self.drivers(), "jvm": self.machines(), "workers": self.workers()}
        return {name: sum(map(_resident, processes)) >> 20 for name, processes in parts.items()}


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return process.memory_info().rss
    return 0


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process, nothing if it is gone."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def is_java(process: psutil.Process) -> bool:
    """Whether a process is a JVM."""
    with suppress(psutil.Error):
        return "java" in process.name()
    return False


def parent_of(process: psutil.Process) -> int:
    """Return the process that started another, 0 if that is gone."""
    with suppress(psutil.Error):
        return process.ppid()
    return 0
