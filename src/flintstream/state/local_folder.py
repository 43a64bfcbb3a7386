"""Directories on a node's own disk, for state that may be thrown away at any time.

All jobs of one operating system user share one root, so that a job which died without a word is tidied up by the next.
What lies here is unpickled again, so the root must be the user's own and nobody else's.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from flintstream.errors import EnvironmentSetupError, describe

FOLDER_VARIABLE = "FLINTSTREAM_LOCAL_DIR"
STALE_SECONDS = 24 * 3600
"""Nobody has used a directory for so long: its job is dead, or will not mind."""


def local_root() -> Path:
    """Return the directory of this user's local state, made if need be."""
    root = _root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        what = f"local directory {str(root)!r} is not this user's alone"
        raise EnvironmentSetupError(describe(what, None, f"remove it, or set {FOLDER_VARIABLE} to another place"))
    return root


def _root() -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()) / f"flintstream-{os.getuid()}"


def job_folder(incarnation: str) -> Path:
    """Return where a job's local state is; after a reboot it is elsewhere, since unsynced files may be torn."""
    boot = boot_id()
    return _root() / (f"{incarnation}-{boot[:8]}" if boot else incarnation)


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return a name for the time since the machine was started; empty if it tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def remove_leftovers() -> None:
    """Remove what dead jobs left behind."""
    bound = time.time() - STALE_SECONDS
    for folder in local_root().iterdir():
        try:
            is_stale = folder.stat().st_mtime < bound
        except OSError:
            continue  # another process tidies up too
        if is_stale:
            shutil.rmtree(folder, ignore_errors=True)


def remove_job(incarnation: str) -> None:
    """Remove all local state of a job on this node."""
    shutil.rmtree(job_folder(incarnation), ignore_errors=True)
