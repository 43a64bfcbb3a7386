"""Keepers as a manager sees them: starts them, and finds out which of them live, whoever started them.

A keeper belongs to no manager: it has a session of its own, and outlives whoever started it. That one of this machine
is dead is seen at once; of any other only that it does not move any more.

Flink: the Dispatcher's JobManagerRunners, and the heartbeats between JobManager and ResourceManager.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from flintstream.jobs.orders import KeeperState

SILENCE_SECONDS = 15.0
"""A keeper that has not moved for so long is dead."""
LONGEST_PAUSE = 30.0
MOST_STILLBORN = 3
"""So many keepers of a job that end before they begin, and the job has failed."""


class Keepers:
    """The keepers of the jobs of one home."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._moved: dict[str, tuple[int, float]] = {}
        self._starts: dict[str, list[float]] = {}
        self._stillborn: dict[str, int] = {}

    def start(self, job: str, folder: Path) -> bool:
        """Start a keeper, unless the last one was started a moment ago; return whether it was."""
        now = self._clock()
        recent = [moment for moment in self._starts.get(job, []) if now - moment < 60.0]
        if recent and now - recent[-1] < min(LONGEST_PAUSE, 0.25 * 2 ** len(recent)):
            return False
        self._starts[job] = [*recent, now]
        (folder / "log").mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", "flintstream.jobs.keeper", str(folder)]
        with (folder / "log" / "keeper.err").open("ab") as output:
            self._children[job] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=folder
            )
        return True

    def reap(self) -> None:
        """Let the system forget keepers that have ended, those of jobs that nobody looks at any more included."""
        for child in self._children.values():
            child.poll()

    def is_alive(self, job: str, state: KeeperState | None) -> bool:
        """Whether a job has a keeper that lives, or is about to."""
        child = self._children.get(job)
        if child is not None:
            if child.poll() is None:
                return True
            self._buried(job, child, state)
        if state is None or state.has_ended or state.is_gone():
            return False
        beats, moved = self._moved.get(job, (-1, 0.0))
        if beats != state.beats:
            self._moved[job] = state.beats, self._clock()
            return True
        return self._clock() - moved < SILENCE_SECONDS

    def _buried(self, job: str, child: subprocess.Popen[bytes], state: KeeperState | None) -> None:
        del self._children[job]
        began = state is not None and state.pid == child.pid
        self._stillborn[job] = 0 if began or child.returncode == 0 else self._stillborn.get(job, 0) + 1

    def cannot_begin(self, job: str) -> bool:
        """Whether keepers of a job have ended again and again before they began."""
        return self._stillborn.get(job, 0) >= MOST_STILLBORN

    def forget(self, job: str) -> None:
        """Forget what is known of a job's keepers, such as how often they died."""
        for known in (self._moved, self._starts, self._stillborn):
            known.pop(job, None)


def last_words(folder: Path) -> str:
    """Return the last line that a keeper which could not begin has left."""
    try:
        lines = (folder / "log" / "keeper.err").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:2_000] if lines else "its keeper could not be started"
