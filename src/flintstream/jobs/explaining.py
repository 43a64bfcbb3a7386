"""A submitted program that is not run but explained: up to its first `execute()`, in a process of its own.

It is the program as its job would run it, with the same settings and the same modules to import, so that the plan is
that of the job. Apart from the manager, of which nothing is needed for it but a directory.

Flink: `POST /jars/:id/plan`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from flintstream.api.explain_only import VARIABLE
from flintstream.errors import JobError, describe
from flintstream.jobs.keeper import program_environment, program_path, working_directory
from flintstream.jobs.manager_loop import orders_of
from flintstream.jobs.spec import JobSpec, check_program
from flintstream.jobs.store import Record
from flintstream.jobs.supervise import child_command

SECONDS = 60.0
"""How long a program may take to come to its first `execute()`."""
_LAST_WORDS = 2_000


def explained(spec: JobSpec, folder: Path, timeout: float = SECONDS) -> dict[str, Any]:
    """Return the name of the job, its plan in words and as a document; an upload is in `program` below `folder`.

    Raises:
        InvalidArgumentError: there is no such program.
        JobError: it did not come to an `execute()`; the message has its last words.
    """
    uploaded = folder / "program"
    check_program(spec, uploaded if uploaded.is_dir() else None)
    orders = orders_of(0, Record("", "", 0, 0), spec, folder)
    program = spec.module or program_path(folder, spec)
    command = child_command(program, spec.arguments, is_module=spec.module is not None, entry=spec.entry)
    told = folder / "explained.json"
    said, status = _run(
        command,
        {**os.environ, **program_environment(folder, spec, orders), VARIABLE: str(told)},
        working_directory(folder, spec),
        timeout,
    )
    if told.exists():
        return json.loads(told.read_text())
    if status is None:
        what, remedy = f"the program did not come to an execute() within {timeout:g} s", "look what it waits for"
    elif status == 0:
        what, remedy = "the program ended before it came to an execute()", "call execute() in what the program runs"
    else:
        last = said.strip().rpartition("\n")[2].removeprefix("flintstream: ")
        what = f"the program failed before it came to an execute() ({last[-_LAST_WORDS:]})"
        remedy = "mend it, or give it what it needs"
    raise JobError(describe(what, spec.program or spec.module, remedy))


def _run(command: list[str], environment: dict[str, str], folder: Path, timeout: float) -> tuple[str, int | None]:
    """Return what a process said of its troubles, and its exit status, None if it was still there."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=timeout)[1], process.returncode
    except subprocess.TimeoutExpired:
        return "", None
    finally:
        # Spark, which a program may have started by then, is in the same session.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
