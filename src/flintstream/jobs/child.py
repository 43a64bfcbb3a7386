"""The first module of a supervised program: runs the user's script as `python script` would, and reports its end.

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
from flintstream.jobs.supervise import LIFELINE


class _Termination:
    """Turns other signals into what Ctrl-C is, and remembers which one it was."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    """Run a script or a module; `argv` is its kind, its name and its arguments. Return the exit status."""
    kind, name, *arguments = argv
    log = of_this_process()
    termination = _Termination()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, termination)
    _hold_on(os.environ.pop(LIFELINE, None))
    try:
        _run(kind, name, arguments)
    except KeyboardInterrupt:
        return 128 + (termination.number or signal.SIGINT)
    except SystemExit:
        if termination.number is None:
            raise
        return 128 + termination.number
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
        return "".join(traceback.format_exception(error))
    notes: list[str] = getattr(error, "__notes__", [])
    return "\n".join([f"flintstream: {type(error).__name__}: {error}", *notes, ""])


def _run(kind: str, name: str, arguments: list[str]) -> None:
    sys.argv = [name, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd() if kind == "module" else Path(name).resolve().parent)
    if kind == "module":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


def _of_the_program(error: BaseException) -> TracebackType | None:
    """Return the traceback from the program's own first frame on."""
    trace = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in ours:
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
