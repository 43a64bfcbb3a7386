"""What other processes ask of a running job, as files in its checkpoint directory: savepoint, stop, cancel.

A request is a file under `requests`, which the job looks for between epochs; its answer is a file under `answers`. So a
command line or a dashboard needs neither a port nor a password: who may write into the directory may ask, nobody else.
Separate from the desk that serves them, because those who ask know nothing of a running job.

Flink: the REST endpoints `/jobs/:id/savepoints`, `/jobs/:id/stop` and the cancellation of a job.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, cast

from flintstream.engine.lease import holder
from flintstream.errors import FlintstreamError, SavepointError, describe
from flintstream.state.storage import Storage

REQUESTS, ANSWERS = "requests", "answers"
SAVEPOINT, STOP, CANCEL = "savepoint", "stop", "cancel"
KINDS = (SAVEPOINT, STOP, CANCEL)
MOST_BYTES = 1 << 16
_NAME = re.compile(r"[0-9a-f]{32}\.json")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: a savepoint, a stop with one, or a cancellation."""

    id: str
    kind: str
    savepoint_directory: str | None = None
    drain: bool = False
    tags: tuple[str, ...] = ()
    comment: str = ""

    @staticmethod
    def from_bytes(name: str, data: bytes) -> Request:
        """Read a request that anyone may have written; raise ValueError if it is none."""
        found = json.loads(data) if len(data) <= MOST_BYTES else None
        if not isinstance(found, dict):
            raise ValueError("it is not a request")  # noqa: EM101 - one error for all that is wrong
        given = cast("dict[str, Any]", found)
        if set(given) - set(Request.__dataclass_fields__) or given.get("id") != name.removesuffix(".json"):
            raise ValueError("it has entries that no request has")  # noqa: EM101
        directory, tags = given.get("savepoint_directory"), given.get("tags", [])
        is_right = (
            given.get("kind") in KINDS
            and (directory is None or isinstance(directory, str))
            and isinstance(given.get("drain", False), bool)
            and isinstance(tags, list)
            and all(isinstance(tag, str) for tag in cast("list[Any]", tags))
            and isinstance(given.get("comment", ""), str)
        )
        if not is_right:
            raise ValueError("it has entries of the wrong type")  # noqa: EM101
        given["tags"] = tuple(cast("list[str]", tags))
        return Request(**given)


def ask(
    storage: Storage,
    kind: str,
    *,
    savepoint_directory: str | None = None,
    drain: bool = False,
    tags: Sequence[str] = (),
    comment: str = "",
    timeout: float = 60.0,
    every: float = 0.05,
) -> str | None:
    """Ask the job of a checkpoint directory, and wait for its answer; return the savepoint's path, if there is one.

    Raises:
        SavepointError: no job runs there; or it says why not; or it does not answer in time, and the request is taken
            back.
    """
    where = str(getattr(storage, "root", "")) or None
    if holder(storage) is None:
        remedy = "start it, or name another; `flintstream savepoint take` takes one of a job that does not run"
        raise SavepointError(describe(f"no job runs on {where or 'that checkpoint directory'}", None, remedy))
    request = Request(uuid.uuid4().hex, kind, savepoint_directory, drain, tuple(tags), comment)
    path = f"{REQUESTS}/{request.id}.json"
    storage.write(path, json.dumps(asdict(request)).encode())
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if f"{request.id}.json" in storage.list(ANSWERS):
            answered = json.loads(storage.read(f"{ANSWERS}/{request.id}.json"))
            storage.delete(f"{ANSWERS}/{request.id}.json")
            if answered.get("error"):
                raise SavepointError(str(answered["error"]))
            return answered.get("path")
        time.sleep(every)
    storage.delete(path)
    what = f"no job has answered within {timeout:g} s"
    remedy = "look whether it runs, or wait longer: a job answers between two epochs"
    raise SavepointError(describe(what, where, remedy))


def begin(storage: Storage) -> list[Request]:
    """Called when a job starts: forget answers that nobody fetched, and return the requests that are too old for it."""
    with suppress(OSError):
        for name in storage.list(ANSWERS):
            storage.delete(f"{ANSWERS}/{name}")
        return pending(storage)
    return []


def pending(storage: Storage) -> list[Request]:
    """Return the requests that wait, and take them; what is none is answered with an error."""
    found: list[Request] = []
    for name in storage.list(REQUESTS):
        path = f"{REQUESTS}/{name}"
        if not _NAME.fullmatch(name):
            continue
        try:
            found.append(Request.from_bytes(name, storage.read(path, 0, MOST_BYTES + 1)))
        except (ValueError, RecursionError) as error:
            answer(storage, name.removesuffix(".json"), error=f"the request cannot be read: {error}")
        except FlintstreamError:
            continue  # whoever asked has taken it back
        storage.delete(path)
    return found


def answer(storage: Storage, request_id: str, path: str | None = None, error: str | None = None) -> None:
    """Answer a request; that nobody can be told is no reason to stop a job."""
    with suppress(OSError):
        storage.write(f"{ANSWERS}/{request_id}.json", json.dumps({"path": path, "error": error}).encode())
