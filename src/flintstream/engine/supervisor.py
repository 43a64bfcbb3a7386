"""Runs a program as a child process and starts it again when it dies: recovery from what no process survives.

Inside its process a job restarts itself. Against `kill -9`, a lack of memory or a JVM that is gone only someone outside
helps, and that someone must be small: it reads no state and knows no job, only how its child ended and the lines of the
restart log. Children, the clock and waiting are handed in, so that every decision can be tested without a process.

Flink: the JobManager, as far as it restarts jobs, and the process supervisor that deployments of Flink bring for it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Protocol

from flintstream.engine.restart_log import RestartLog
from flintstream.model.restart import ExponentialDelayRestart, RestartStrategyConfiguration, resumed
from flintstream.model.time import format_millis

LONGEST_SLEEP_MS = 100
"""After so long a wait at most, a signal that came in the meantime is looked at."""


class Child(Protocol):
    """A running program."""

    @property
    def pid(self) -> int:
        """The number of its process."""
        ...

    def wait(self) -> int:
        """Wait for its end; return its exit status, negative if a signal killed it."""
        ...

    def signal(self, number: int) -> None:
        """Pass a signal on."""
        ...

    def clear(self) -> None:
        """End whatever it left behind."""
        ...


class Supervisor:
    """Starts a program until it ends well, someone stops it, or the strategy gives up.

    Args:
        start: Starts the program.
        log: What the program and this supervisor tell each other.
        clock: The time of day in ms.
        tell: Takes a line for the user.
        sleep: Waits for so many seconds.
        imposed: The strategy that holds whatever the program says.
    """

    def __init__(
        self,
        start: Callable[[], Child],
        log: RestartLog,
        clock: Callable[[], int],
        tell: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        imposed: RestartStrategyConfiguration | None = None,
    ) -> None:
        self._start = start
        self._log = log
        self._clock = clock
        self._tell = tell
        self._sleep = sleep
        self._stopped_by: int | None = None
        self._child: Child | None = None
        self._log.impose(imposed or ExponentialDelayRestart(), is_default=imposed is None)

    def stop(self, number: int) -> None:
        """Pass a signal on to the program; however it ends then, it is not started again."""
        # Runs inside a signal's handler, where nothing may be waited for.
        self._stopped_by = number
        if self._child is not None:
            self._child.signal(number)

    def run(self) -> int:
        """Run the program to its end; return the exit status, as shells have it."""
        while True:
            child = self._child = self._start()
            if self._stopped_by is not None:
                child.signal(self._stopped_by)  # it came while there was no child yet
            status = child.wait()
            child.clear()
            if status == 0 or self._stopped_by is not None:
                return exit_status(status)
            wait_ms = self._decide(child, status)
            if wait_ms is None:
                return exit_status(status)
            restart_at = self._clock() + wait_ms
            while (left := restart_at - self._clock()) > 0 and self._stopped_by is None:
                self._sleep(min(left, LONGEST_SLEEP_MS) / 1000)
            if self._stopped_by is not None:
                return 128 + self._stopped_by

    def _decide(self, child: Child, status: int) -> int | None:
        """Return how long to wait before the next start, None if there is none; tell the user either."""
        ending = self._log.ending(child.pid)
        how = f"process {child.pid} {how_it_ended(status)}"
        if ending is not None and not ending.may_restart:
            self._tell(f"{how} and is not started again: {ending.line}")
            return None
        before = self._log.failures()
        moment = self._clock()
        self._log.failed(moment)
        strategy = self._log.strategy() or ExponentialDelayRestart()
        wait_ms = resumed(strategy, before).failed(moment)
        if wait_ms is not None:
            self._tell(f"{how}; restart {len(before) + 1} in {format_millis(wait_ms)}")
            return wait_ms
        why = f": {ending.line}" if ending is not None else ""
        self._tell(f"{how}; given up after {len(before) + 1} failures, by {strategy.get_description()}{why}")
        return None


def exit_status(status: int) -> int:
    """Return a status as shells have it: 128 and the number of the signal that killed a process."""
    return 128 - status if status < 0 else status


def how_it_ended(status: int) -> str:
    """Return in words how a process ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = ", perhaps for a lack of memory" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def is_there(group: int) -> bool:
    """Whether a process group has any member left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
