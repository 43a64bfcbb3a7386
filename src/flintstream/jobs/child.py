"""The first module of a supervised program: runs the user's script as `python script` would, and reports its end.

With an entry point (`--entry`) the script is a module like any other, and the entry is what runs.

A process that dies by an exception says so in the restart log before it goes: only it knows whether the program is
wrong, which no restart mends, or something failed that may pass. SIGTERM stops the job as Ctrl-C does, and so does the
death of the supervisor.

Flink: the entry point of a job's cluster (ClusterEntrypoint), which runs the user's `main`.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType, TracebackType

from flintstream.engine.restart import may_pass
from flintstream.engine.restart_log import of_this_process
from flintstream.errors import FlintstreamError
from flintstream.jobs.entry import __file__ as entry_file
from flintstream.jobs.entry import run_entry
from flintstream.jobs.supervise import LIFELINE

OURS = (__file__, entry_file, runpy.__file__, "<frozen runpy>", "<frozen importlib.util>")


class _Termination:
    """Turns other signals into what Ctrl-C is, and remembers which one it was."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    """Run a script or a module; `argv` is its kind, its name and its arguments. Return the exit status.

    Before them may be `--entry` and the dotted name of what runs instead of the script's own lines.
    """
    entry = argv[1] if argv[0] == "--entry" else None
    kind, name, *arguments = argv if entry is None else argv[2:]
    log = of_this_process()
    termination = _Termination()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, termination)
    _hold_on(os.environ.pop(LIFELINE, None))
    try:
        _run(kind, name, arguments, entry)
    except KeyboardInterrupt:
        return 128 + (termination.number or signal.SIGINT)
    except SystemExit as leaving:
        if termination.number is not None:
            return 128 + termination.number
        if leaving.code and not log.has_begun:
            # It was called in a wrong way, say: it would leave so again and again.
            log.ended(leaving, may_restart=False)
        raise
    except BaseException as error:
        error = error.with_traceback(_of_the_program(error))
        # A program that does not even get to its job is wrong, unless it did before.
        log.ended(error, may_pass(error) and log.has_begun)
        sys.stderr.write(told(error))
        return 1
    return 0


def told(error: BaseException) -> str:
    """Return what the user is shown: one line for our own errors, with what they say besides; else the traceback."""
    if not isinstance(error, FlintstreamError):
        is_of_program = error.__traceback__ is None or error.__traceback__.tb_frame.f_code.co_filename not in OURS
        # Of a program that could not even be loaded, the lines that tried to are of no use.
        lines = traceback.format_exception(error) if is_of_program else traceback.format_exception_only(error)
        return "".join(lines)
    notes: list[str] = getattr(error, "__notes__", [])
    return "\n".join([f"flintstream: {type(error).__name__}: {error}", *notes, ""])


def _run(kind: str, name: str, arguments: list[str], entry: str | None) -> None:
    sys.argv = [name, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd() if kind == "module" else Path(name).resolve().parent)
    if entry is not None:
        run_entry(kind, name, entry, arguments)
    elif kind == "module":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


def _of_the_program(error: BaseException) -> TracebackType | None:
    """Return the traceback from the program's own first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in OURS:
        trace = trace.tb_next
    return trace


def _hold_on(lifeline: str | None) -> None:
    """Stop when the supervisor dies: it holds the other end of a pipe to which nothing is ever written."""
    if lifeline is None:
        return
    descriptor = int(lifeline)
    os.set_inheritable(descriptor, False)

    def watch() -> None:
        os.read(descriptor, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="flintstream-lifeline", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
