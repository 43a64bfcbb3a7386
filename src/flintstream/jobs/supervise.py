"""Runs a user's program under a supervisor: real processes, signals and the terminal around `engine.supervisor`.

The program is a process of its own, at the head of a group of its own, so that Ctrl-C reaches it once, by way of the
supervisor, and that what a killed driver leaves behind (its JVM) can be ended before the next one starts. A pipe that
nobody writes to ties it to the supervisor: when that dies, the pipe closes and the program stops.

Flink: `flink run`, and the JobManager that restarts what it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from flintstream.engine.restart import now_ms
from flintstream.engine.restart_log import VARIABLE, RestartLog
from flintstream.engine.supervisor import Supervisor, is_there
from flintstream.errors import InvalidArgumentError, describe
from flintstream.jobs.spec import check_restart
from flintstream.model.restart import strategy_of

LIFELINE = "FLINTSTREAM_LIFELINE"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_LEAVE = 10.0


class ProgramProcess:
    """A program that runs as a child process; `how` goes to `subprocess.Popen`: its directory, its output."""

    def __init__(
        self, command: Sequence[str], log: Path, lifeline: int, environment: Mapping[str, str], **how: Any
    ) -> None:
        variables = {**os.environ, **environment, VARIABLE: str(log), LIFELINE: str(lifeline)}
        self._process = subprocess.Popen(command, env=variables, pass_fds=[lifeline], start_new_session=True, **how)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> int:
        return self._process.wait()

    def poll(self) -> int | None:
        """Return its exit status, None if it has not ended."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def clear(self) -> None:
        """End what is left of the program's process group, politely first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + SECONDS_TO_LEAVE
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
                while is_there(self.pid) and time.monotonic() < until:
                    time.sleep(0.05)


def supervise(
    program: str,
    arguments: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    *,
    is_module: bool = False,
    entry: str | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> int:
    """Run a program and start it again when it dies; return its exit status.

    Args:
        program: The path of a script, or the name of a module.
        arguments: What the program finds in `sys.argv[1:]`.
        settings: Keys `restart-strategy.*`, which hold whatever the program says.
        is_module: Whether `program` is the name of a module.
        entry: The class, function or module of the program that runs, instead of its own lines.
        environment: Variables of the program's environment besides those of this process.
        stdout: The descriptor that the program's stdout goes to, if not that of this process.

    Raises:
        InvalidArgumentError: a setting is wrong, or there is no such script.
    """
    imposed = strategy_of(check_restart(settings or {}))
    check_script(program, is_module=is_module, entry=entry)
    command = child_command(program, arguments, is_module=is_module, entry=entry)
    near, far = os.pipe()
    with tempfile.TemporaryDirectory(prefix="flintstream-run-") as folder:
        log = Path(folder) / "restarts.jsonl"
        start = partial(ProgramProcess, command, log, near, environment or {}, stdout=stdout)
        supervisor = Supervisor(start, RestartLog(log), now_ms, _tell, imposed=imposed)
        before = {number: signal.signal(number, lambda got, frame: supervisor.stop(got)) for number in PASSED_ON}
        try:
            return supervisor.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(near)
            os.close(far)


def child_command(program: str, arguments: Sequence[str], *, is_module: bool, entry: str | None) -> list[str]:
    """Return the command that runs a program as a child."""
    chosen = [] if entry is None else ["--entry", entry]
    kind = "module" if is_module else "script"
    return [sys.executable, "-m", "flintstream.jobs.child", *chosen, kind, program, *arguments]


def check_script(program: str, *, is_module: bool, entry: str | None) -> None:
    """Refuse a script that is not there, before a process is started that finds out."""
    path = Path(program)
    if not is_module and not path.is_file() and not (entry is not None and path.is_dir()):
        raise no_program(program)


def no_program(program: str) -> InvalidArgumentError:
    """Return the error that says that a program is not there."""
    return InvalidArgumentError(describe(f"there is no program {program!r}", None, "give the path of a script"))


def _tell(text: str) -> None:
    sys.stderr.write(f"flintstream: {text}\n")
    sys.stderr.flush()
