"""Savepoints as a user handles them: take one of a job that does not run, look at them, compare, tag, dispose of them.

Savepoints of a running job are asked of its `JobClient`; a job begins with one by `env.start_from_savepoint`. Published
as `flintstream.savepoints`. Nothing here needs Spark or the program.
Every function takes `storage_options`: what the file system of an address (`s3://...`) must know.

Flink: the actions `savepoint`, `stop` and `savepoint --dispose` of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from flintstream.engine import savepoint_history as histories
from flintstream.engine.options import StartFrom
from flintstream.engine.requests import SAVEPOINT, STOP, ask
from flintstream.engine.savepoint_format import (
    OperatorEntry,
    PartEntry,
    SavepointDocument,
    SourceEntry,
    TableEntry,
    read_document,
    savepoint_storage,
)
from flintstream.engine.savepoint_history import SavepointSummary, TableDiff
from flintstream.engine.savepoint_take import Notes
from flintstream.engine.savepoint_take import take as take_from
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.state.storage import Storage
from flintstream.state.storage_remote import StorageOptions

__all__ = [
    "OperatorEntry",
    "PartEntry",
    "SavepointDocument",
    "SavepointSummary",
    "SourceEntry",
    "TableDiff",
    "TableEntry",
    "ancestors",
    "check",
    "diff",
    "dispose",
    "history",
    "show",
    "stop",
    "tag",
    "take",
    "trigger",
]


def take(
    checkpoint_dir: str | PathLike[str],
    savepoint_directory: str | PathLike[str],
    *,
    tags: Sequence[str] = (),
    comment: str = "",
    storage_options: StorageOptions = None,
) -> str:
    """Take a savepoint of a job that does not run, from its checkpoint directory; return its path.

    The program is not needed.

    Args:
        checkpoint_dir: The directory that the job was given with `set_checkpoint_dir`.
        savepoint_directory: Where the savepoint gets a directory of its own.
        tags: Words to find it by.
        comment: What else is to be remembered of it.
        storage_options: What the file system of an address (`s3://...`) must know.

    Raises:
        SavepointError: there is no checkpoint, or its output may not be published yet.
    """
    source = savepoint_storage(check_path("the checkpoint directory", checkpoint_dir), storage_options)
    target = check_path("the savepoint directory", savepoint_directory)
    return take_from(source, target, Notes("checkpoint", read_tags(tags), comment), options=storage_options)


def trigger(
    checkpoint_dir: str | PathLike[str],
    savepoint_directory: str | PathLike[str] | None = None,
    *,
    tags: Sequence[str] = (),
    comment: str = "",
    timeout: float = 60.0,
    storage_options: StorageOptions = None,
) -> str:
    """Ask the running job of a checkpoint directory, which may be another process, for a savepoint; return its path.

    Args:
        checkpoint_dir: The directory that the job was given with `set_checkpoint_dir`.
        savepoint_directory: Where the savepoint gets a directory of its own; without it, where the job says.
        tags: Words to find it by.
        comment: What else is to be remembered of it.
        timeout: How many seconds to wait for the job's answer.
        storage_options: What the file system of the checkpoint directory (`s3://...`) must know.

    Raises:
        SavepointError: no job runs there, it says why not, or it does not answer in time.
    """
    storage = savepoint_storage(check_path("the checkpoint directory", checkpoint_dir), storage_options)
    return _asked(SAVEPOINT, storage, savepoint_directory, False, tags, comment, timeout)


def stop(
    checkpoint_dir: str | PathLike[str],
    savepoint_directory: str | PathLike[str] | None = None,
    *,
    drain: bool = False,
    tags: Sequence[str] = (),
    comment: str = "",
    timeout: float = 60.0,
    storage_options: StorageOptions = None,
) -> str:
    """Ask the running job of a checkpoint directory to end with a savepoint; return its path.

    Args:
        checkpoint_dir: The directory that the job was given with `set_checkpoint_dir`.
        savepoint_directory: Where the savepoint gets a directory of its own; without it, where the job says.
        drain: Whether all windows and event-time timers fire before, for a job that is to end for good.
        tags: Words to find it by.
        comment: What else is to be remembered of it.
        timeout: How many seconds to wait for the job's answer.
        storage_options: What the file system of the checkpoint directory (`s3://...`) must know.

    Raises:
        SavepointError: no job runs there, it says why not, or it does not answer in time.
    """
    storage = savepoint_storage(check_path("the checkpoint directory", checkpoint_dir), storage_options)
    return _asked(STOP, storage, savepoint_directory, drain, tags, comment, timeout)


def _as_the_job_sees_it(path: str) -> str:
    """Return a path that does not depend on the working directory, since the job may have another."""
    return path if "://" in path else str(Path(path).absolute())


def _asked(kind: str, storage: Storage, target: Any, drain: bool, tags: Any, comment: str, timeout: float) -> str:
    directory = None if target is None else _as_the_job_sees_it(check_path("the savepoint directory", target))
    words = read_tags(tags)
    path = ask(storage, kind, savepoint_directory=directory, drain=drain, tags=words, comment=comment, timeout=timeout)
    assert path is not None
    return path


def show(path: str | PathLike[str], *, storage_options: StorageOptions = None) -> SavepointDocument:
    """Return what a savepoint says of itself: its operators and their state, how far sources were read, and so on."""
    where = check_path("the savepoint", path)
    return read_document(savepoint_storage(where, storage_options), where)


def check(path: str | PathLike[str], *, storage_options: StorageOptions = None) -> SavepointDocument:
    """Read all files of a savepoint and compare them with their checksums; return what it says of itself."""
    return histories.check(check_path("the savepoint", path), storage_options)


def history(
    directory: str | PathLike[str], *, tag: str | None = None, storage_options: StorageOptions = None
) -> list[SavepointSummary]:
    """Return the savepoints in a directory, oldest first; with `tag` those that have it."""
    return histories.history(check_path("the directory", directory), tag, storage_options)


def ancestors(
    path: str | PathLike[str],
    directory: str | PathLike[str] | None = None,
    *,
    storage_options: StorageOptions = None,
) -> list[SavepointSummary]:
    """Return the savepoint that the job of a savepoint was started from, the one before that, and so on.

    Args:
        path: The savepoint.
        directory: Where the others are; without it, beside it.
        storage_options: What the file system of an address (`s3://...`) must know.
    """
    where = check_path("the savepoint", path).rstrip("/")
    among = where.rpartition("/")[0] if directory is None else check_path("the directory", directory)
    itself = histories.summary_of(where, show(where, storage_options=storage_options))
    return histories.ancestors(itself, histories.history(among, None, storage_options))


def diff(
    first: str | PathLike[str], second: str | PathLike[str], *, storage_options: StorageOptions = None
) -> list[TableDiff]:
    """Compare two savepoints: how many rows of each state the second has added, removed and changed."""
    one, other = check_path("the first savepoint", first), check_path("the second savepoint", second)
    return histories.diff(one, other, storage_options)


def tag(
    path: str | PathLike[str], *tags: str, comment: str | None = None, storage_options: StorageOptions = None
) -> SavepointSummary:
    """Give a savepoint these tags instead of those it has, and another comment if one is given."""
    return histories.tag(check_path("the savepoint", path), read_tags(tags), comment, storage_options)


def dispose(path: str | PathLike[str], *, storage_options: StorageOptions = None) -> None:
    """Delete a savepoint; a directory that is none is refused, and nothing beside its own files is touched."""
    histories.dispose(check_path("the savepoint", path), storage_options)


def check_path(what: str, path: Any) -> str:
    """Return a path as text, or refuse it with the user's line."""
    if not isinstance(path, str | PathLike) or not fspath(path):
        line = users_line()
        raise InvalidArgumentError(describe(f"{what} is {path!r}", line, "give a path"), location=line)
    return str(fspath(path))


def read_tags(tags: Any) -> tuple[str, ...]:
    """Return tags, or refuse them with the user's line."""
    if isinstance(tags, str) or not all(isinstance(each, str) and each for each in tags):
        line = users_line()
        what = f"tags are {tags!r}"
        raise InvalidArgumentError(describe(what, line, "give a list of words"), location=line)
    return tuple(tags)


def read_start(path: Any, allowed: bool, rename: Mapping[str, str | Sequence[str]] | None, trust: bool) -> StartFrom:
    """Return where a job is to begin, or refuse it with the user's line."""
    line = users_line()
    names: dict[str, tuple[str, ...]] = {}
    for old, new in (rename or {}).items():
        several = (new,) if isinstance(new, str) else tuple(new)
        if not isinstance(old, str) or not all(isinstance(each, str) and each for each in several):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"rename has {old!r}: {new!r}"
            raise InvalidArgumentError(describe(what, line, "give new uids by old ones"), location=line)
        names[old] = several
    return StartFrom(check_path("the savepoint", path), bool(allowed), names, bool(trust), line)
