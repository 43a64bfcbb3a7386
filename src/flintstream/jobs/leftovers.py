"""Clears away what a keeper that was killed has left behind, before its successor starts the program again.

The old driver stops by itself when its keeper dies, but not at once, and its JVM may outlive it. Two drivers in one
checkpoint directory do no harm, but the second would be refused, and the job would count as failed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flintstream.engine.lease import TIMEOUT_MS, Holder, holder
from flintstream.engine.supervisor import is_there
from flintstream.errors import FlintstreamError
from flintstream.jobs.orders import KeeperState
from flintstream.state.storage import Storage
from flintstream.state.storage_remote import storage_at

SECONDS_TO_LEAVE = 5.0
LONGEST_SECONDS = 60.0


def clear_away(folder: Path, state: KeeperState, checkpoint_dir: str | None) -> None:
    """End what is left of the former driver of a job, and wait until nobody uses its checkpoint directory."""
    child = state.old_child()
    if child is not None and _is_ours(child):
        _until(lambda: not is_there(child.pid), SECONDS_TO_LEAVE)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        _until(lambda: not is_there(child.pid), SECONDS_TO_LEAVE)
    if checkpoint_dir is not None:
        with suppress(FlintstreamError, OSError):
            wait_for_lease(storage_at(checkpoint_dir))


def _is_ours(child: Holder) -> bool:
    """Whether a process group can only be that of the former driver, and not one that has got its number since."""
    here = Holder.this_process(child.job)
    if not child.machine or child.machine != here.machine or not is_there(child.pid):
        return False
    return not child.is_gone or not Path(f"/proc/{child.pid}").exists()


def wait_for_lease(
    storage: Storage,
    longest: float = LONGEST_SECONDS,
    still: float = TIMEOUT_MS / 1000,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the lease of a checkpoint directory is free, or its holder has not moved for a time."""
    began = moved = clock()
    before = holder(storage)
    while (now := holder(storage)) is not None and clock() - began < longest:
        if now != before:
            before, moved = now, clock()
        if clock() - moved >= still:
            return
        wait(0.1)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
