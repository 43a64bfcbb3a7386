"""What takes a while: savepoints, stopping, rescaling run in threads, and callers ask how far they are.

A request that lasts as long as a savepoint is cut by every proxy on its way; so it is answered at once with an
operation to ask for, unless the caller says how long it will wait.

Flink: AsynchronousOperationResult and the trigger ids of savepoints and rescaling.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from flintstream.jobs.rest_problems import Refused, refusal_of

THREADS = 8
MOST_WAITING = 64
KEPT = 1_000


class Operation:
    """Something that was asked for: it runs, is done or has failed."""

    def __init__(self, job: str, kind: str) -> None:
        self.id = uuid.uuid4().hex
        self.job = job
        self.kind = kind
        self.started_ms = int(time.time() * 1000)
        self.ended_ms: int | None = None
        self.result: dict[str, Any] | None = None
        self.refused: Refused | None = None
        self.future: Future[None] = Future()

    @property
    def status(self) -> str:
        """Return "running", "done" or "failed"."""
        if self.ended_ms is None:
            return "running"
        return "done" if self.refused is None else "failed"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "id": self.id,
            "job": self.job,
            "kind": self.kind,
            "status": self.status,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "result": self.result,
            "problem": None if self.refused is None else self.refused.as_problem(),
        }


class Operations:
    """The operations of one server; the last ones are remembered until it ends."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "flintstream-operation")
        self._known: OrderedDict[str, Operation] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, job: str, kind: str, call: Callable[[], dict[str, Any]]) -> Operation:
        """Begin something for a job; `call` returns what came of it."""
        operation = Operation(job, kind)
        with self._lock:
            if sum(each.ended_ms is None for each in self._known.values()) >= MOST_WAITING:
                what = f"{MOST_WAITING} operations wait already"
                raise Refused(503, "busy", what, "try again in some seconds", {"Retry-After": "5"})
            try:
                operation.future = self._pool.submit(_run, operation, call)
            except RuntimeError:  # closed
                raise Refused(503, "busy", "the manager is stopping", "ask the one that takes over") from None
            self._known[operation.id] = operation
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return operation

    def get(self, name: str) -> Operation:
        """Return an operation."""
        found = self._known.get(name)
        if found is None:
            remedy = "a manager remembers its last operations until it ends; look at the job itself"
            raise Refused(404, "unknown-operation", f"there is no operation {name}", remedy)
        return found

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def settled(operation: Operation, seconds: float) -> Operation:
    """Wait for an operation, but not longer than that."""
    if seconds > 0:
        await asyncio.wait([asyncio.wrap_future(operation.future)], timeout=seconds)
    return operation


def _run(operation: Operation, call: Callable[[], dict[str, Any]]) -> None:
    try:
        operation.result = call()
    except Exception as error:
        operation.refused = refusal_of(error)
    operation.ended_ms = int(time.time() * 1000)
