"""What browsers and terminals see change without asking again: server-sent events, from one poller for all of them.

However many watch, each report is looked at once per beat, and read only if its file has changed. Who is slow gets the
newest state and misses what lay between, so nothing piles up for them.

Flink: none; its dashboard polls the REST interface, each client for itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from flintstream.errors import UnknownJobError
from flintstream.jobs.manager import Manager
from flintstream.jobs.rest_problems import Refused, refusal_of, to_json
from flintstream.jobs.view import JobView

ALL = ""
"""The topic of everything there is; the others are ids of jobs."""
BEAT_SECONDS = 10.0
MOST_STREAMS = 200
_NOW = ("epoch", "records_in_per_second", "records_out_per_second", "watermark_lag_ms", "updated_ms")
_LOG = logging.getLogger("flintstream.rest")


class Reports:
    """What drivers report, read again only when the file or the job's status has changed."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._seen: dict[str, tuple[tuple[int, int, int, str], dict[str, Any]]] = {}

    def status(self, view: JobView) -> dict[str, Any]:
        """Return a job's newest report, empty if there is none yet."""
        job = view.id
        try:
            found = (self._manager.folder(job) / "report" / "status.json").stat()
        except (OSError, UnknownJobError):
            self._seen.pop(job, None)
            return {}
        # A driver's last word is read before its job counts as ended, and a job that has ended has no speed any more.
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size, view.status)
        known = self._seen.get(job)
        if known is None or known[0] != stamp:
            known = (stamp, self._manager.status(job))
            self._seen[job] = known
        return known[1]

    def listed(self, view: JobView) -> dict[str, Any]:
        """Return a job as lists show it: with how fast it is just now, if it runs."""
        found = view.as_dict()
        if not view.has_ended:
            status = self.status(view)
            found["status_now"] = {name: status[name] for name in _NOW if name in status}
        return found


@dataclass(frozen=True)
class _News:
    """What is new of a topic, as it goes over the wire."""

    number: int
    data: bytes
    is_last: bool = False


class Hub:
    """Looks at jobs while somebody watches, and tells all who do.

    Args:
        manager: Whose jobs are watched.
        reports: What their drivers report.
        every: Seconds between two looks.
    """

    def __init__(self, manager: Manager, reports: Reports, every: float = 0.5) -> None:
        self._manager = manager
        self._reports = reports
        self._every = every
        self._watchers: Counter[str] = Counter()
        self._news: dict[str, _News] = {}
        self._number = 0
        self._looked_at_all = 0.0
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._streams = 0

    def close(self) -> None:
        """End all streams."""
        self._closing.set()

    def stream(self, events: AsyncGenerator[bytes]) -> StreamingResponse:
        """Return a response that sends events as they come; it beats while there are none, and ends with the server."""
        if self._streams >= MOST_STREAMS or self._closing.is_set():
            what = "too many are watching" if not self._closing.is_set() else "the manager is stopping"
            raise Refused(503, "busy", what, "try again in some seconds", {"Retry-After": "5"})
        return StreamingResponse(self._kept(events), media_type="text/event-stream")

    async def _kept(self, events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        self._streams += 1
        over = asyncio.ensure_future(self._closing.wait())
        upcoming: asyncio.Future[bytes | None] | None = None
        try:
            yield b"retry: 2000\n\n"
            while True:
                upcoming = upcoming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait((upcoming, over), timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if over.done():
                    return
                if not upcoming.done():
                    yield b": beat\n\n"
                    continue
                done, upcoming = upcoming, None
                item = done.result()
                if item is None:
                    return
                yield item
        except Exception as error:
            # It is too late for another status.
            yield sse("problem", refusal_of(error).as_problem())
        finally:
            self._streams -= 1
            over.cancel()
            if upcoming is not None:
                upcoming.cancel()
                with suppress(Exception, asyncio.CancelledError):
                    await upcoming
            await events.aclose()

    async def watch(self, topic: str) -> AsyncGenerator[bytes]:
        """Yield the state of a job, or of all, at once and whenever it has changed."""
        self._watchers[topic] += 1
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._poll())
        seen = -1
        try:
            while True:
                changed, found = self._changed, self._news.get(topic)
                if found is None or found.number == seen:
                    await changed.wait()
                    continue
                seen = found.number
                yield found.data
                if found.is_last:
                    return
        finally:
            self._watchers[topic] -= 1
            if not self._watchers[topic]:
                del self._watchers[topic]
                self._news.pop(topic, None)

    async def _poll(self) -> None:
        try:
            while self._watchers and not self._closing.is_set():
                self._wake.clear()
                try:
                    self._tell(await asyncio.to_thread(self._look, set(self._watchers)))
                except Exception as error:
                    # The next look may go well; those who watch see that nothing comes.
                    _LOG.warning("jobs could not be looked at: %s: %s", type(error).__name__, error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._every)
        finally:
            self._task = None

    def _tell(self, looked: Mapping[str, tuple[bytes, bool]]) -> None:
        is_new = False
        for topic, (data, is_last) in looked.items():
            known = self._news.get(topic)
            if topic in self._watchers and (known is None or known.data != data):
                self._number += 1
                self._news[topic] = _News(self._number, data, is_last)
                is_new = True
        if is_new:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _look(self, topics: set[str]) -> dict[str, tuple[bytes, bool]]:
        """Look at jobs, in a thread of its own; return what is to be seen of each topic, and whether it is the last."""
        found: dict[str, tuple[bytes, bool]] = {}
        for job in topics - {ALL}:
            try:
                view = self._manager.job(job)
            except UnknownJobError as error:
                found[job] = sse("gone", refusal_of(error).as_problem()), True
                continue
            found[job] = sse("status", {"job": view.as_dict(), "status": self._reports.status(view)}), False
        if ALL in topics and (ALL not in self._news or time.monotonic() - self._looked_at_all >= 1.0):
            self._looked_at_all = time.monotonic()
            jobs = [self._reports.listed(view) for view in self._manager.jobs()]
            found[ALL] = sse("overview", {"overview": self._manager.overview(), "jobs": jobs}), False
        return found

    async def follow(self, job: str, stream: str, offset: int) -> AsyncGenerator[bytes]:
        """Yield what a job prints from a position on, until it has ended and all is said."""
        while True:
            view = await asyncio.to_thread(self._manager.job, job)
            piece = await asyncio.to_thread(self._manager.log, job, stream, offset)
            if piece.text or piece.next_offset != offset:
                offset = piece.next_offset
                yield sse("log", asdict(piece), offset)
            elif view.has_ended:
                yield sse("end", {"status": view.status}, offset)
                return
            else:
                await asyncio.sleep(self._every)


def sse(event: str, data: Any, number: int | str | None = None) -> bytes:
    """Return an event as it goes over the wire; its number comes back as Last-Event-ID when a client reconnects."""
    head = f"event: {event}\n" if number is None else f"id: {number}\nevent: {event}\n"
    return head.encode() + b"data: " + to_json(data) + b"\n\n"


def event_stream(request: Request, events: AsyncGenerator[bytes]) -> StreamingResponse:
    """Return a response for an endpoint that has events of its own."""
    hub: Hub = request.app.state.hub
    return hub.stream(events)
