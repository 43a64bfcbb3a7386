"""Look-ups of one key, the one thing that is asked of a manager a thousand times a second, and the views they look at.

The framework takes longer to find an endpoint than a look-up takes, so these have two ways around it, which answer what
the endpoint of the same path would. `at_once` is called by the protocol itself (`rest_protocol`) when a request is
there: whatever can be told at once is one piece of bytes. What has to wait (a newer manifest, a table that is not
indexed yet) comes through the guard to `Lookups`, and what that is not sure of goes on to the endpoint.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args
from urllib.parse import parse_qsl, unquote

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from flintstream.engine.query import StateAnswer, StateView
from flintstream.engine.query_names import KeyText
from flintstream.engine.savepoint_format import savepoint_storage
from flintstream.errors import JobStateError, describe
from flintstream.jobs.manager import Manager
from flintstream.jobs.rest_desk import ID
from flintstream.jobs.rest_guard import API_HEADERS, VERSION
from flintstream.jobs.rest_problems import PROBLEM_TYPE, Refused, refusal_of, to_json
from flintstream.jobs.security import Access

Consistency = Literal["committed", "uncommitted"]
JSON_TYPE = "application/json"
_MODES: tuple[str, ...] = get_args(Consistency)
_MOST_VIEWS = 32
_KNOWN_SECONDS = 1.0
"""How long the checkpoint directory of a job is believed to be the one it was."""
# Visible ASCII but for the slash, which parts names, and what ends a path.
_PART = r"[!\"$-.0->@-~]+"
_SINGLE = re.compile(rf"(?:{VERSION})?/jobs/({ID[1:-1]})/state/({_PART})/({_PART})/({_PART})".encode())
_COMMON = b"".join(b"%b: %b\r\n" % header for header in API_HEADERS)
_HEADS = {
    status: b"HTTP/1.1 %b\r\ncontent-type: %b\r\n%bcontent-length: " % (line, kind.encode(), _COMMON)
    for status, line, kind in ((200, b"200 OK", JSON_TYPE), (404, b"404 Not Found", PROBLEM_TYPE))
}


class Asked(NamedTuple):
    """What a path asks for."""

    job: str
    operator: str | None
    name: str
    key: str

    @staticmethod
    def by(path: bytes) -> Asked | None:
        """Return what a path asks for as it was sent, where a slash in a name is `%2F`; None if it is no look-up."""
        found = _SINGLE.fullmatch(path)
        if found is None:
            return None
        job, operator, name, key = map(bytes.decode, found.groups())
        if b"%" in path:
            operator, name, key = unquote(operator), unquote(name), unquote(key)
        return Asked(job, operator_of(operator), name, key)


def operator_of(text: str) -> str | None:
    """Return which operator is meant: `-` is the only one that has such a state."""
    return None if text == "-" else text


class Views:
    """The views of jobs that are asked for, and who waits for what."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._views: OrderedDict[str, StateView] = OrderedDict()
        self._places: dict[str, tuple[float, str]] = {}
        self._refreshing: dict[int, asyncio.Task[None]] = {}

    def known(self, job: str) -> StateView | None:
        """Return the view of a job if there is one, up to date or not."""
        place = self._places.get(job)
        if place is None or time.monotonic() - place[0] > _KNOWN_SECONDS:
            return None
        view = self._views.get(place[1])
        if view is not None:
            self._views.move_to_end(place[1])
        return view

    async def of(self, job: str) -> StateView:
        """Return the view of a job, up to date."""
        view = self.known(job)
        if view is None:
            place = await asyncio.to_thread(self._place_of, job)
            self._places[job] = (time.monotonic(), place)
            view = self._views.get(place)
            if view is None:
                view = self._views[place] = StateView(savepoint_storage(place), f"job {job}")
                while len(self._views) > _MOST_VIEWS:
                    self._views.popitem(last=False)
        if not view.is_current:
            await self.refreshed(view)
        return view

    async def refreshed(self, view: StateView) -> None:
        """Bring a view up to date; who comes while that is under way waits for the same."""
        task = self._refreshing.get(id(view))
        if task is None:
            task = self._refreshing[id(view)] = asyncio.create_task(asyncio.to_thread(view.refresh))
            task.add_done_callback(lambda _: self._refreshing.pop(id(view), None))
        await asyncio.shield(task)

    def _place_of(self, job: str) -> str:
        place = self._manager.job(job).checkpoint_dir
        if place is None:
            what = "where the job keeps its state is not known yet, or it keeps none"
            raise JobStateError(describe(what, f"job {job}", "ask again when it runs; it needs a checkpoint directory"))
        return place

    async def found(self, asked: Asked, window: str | None, consistency: str) -> Response:
        """Look a key up, as soon as that can be done."""
        view = await self.of(asked.job)
        answer = None
        if window is None and consistency == _MODES[0]:
            answer = view.get_at_once(asked.name, asked.key, asked.operator)
        if answer is None:
            call = (view.get, asked.name, [KeyText(asked.key)], asked.operator, window, consistency)
            answer = (await asyncio.to_thread(*call))[0]
        status, body = _told(asked, answer)
        return Response(body, status, None, JSON_TYPE if answer.found else PROBLEM_TYPE)

    def found_at_once(self, asked: Asked) -> tuple[int, bytes] | None:
        """Return the status and the body of the answer, if nobody has to wait for it."""
        view = self.known(asked.job)
        answer = None if view is None else view.get_at_once(asked.name, asked.key, asked.operator)
        return None if answer is None else _told(asked, answer)


def _told(asked: Asked, answer: StateAnswer) -> tuple[int, bytes]:
    if answer.found:
        return 200, to_json(answer.as_dict())
    what = f"key {asked.key!r:.200} has nothing in state {asked.name!r:.200} as of epoch {answer.epoch}"
    problem = Refused(404, "unknown-key", what, "list keys with GET on the state itself").as_problem()
    return 404, to_json({**problem, "answer": answer.as_dict()})


class AtOnce:
    """Answers look-ups that need not wait, with the rules of who may ask."""

    def __init__(self, views: Views, access: Access) -> None:
        self._views = views
        self._access = access

    def __call__(self, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> tuple[bytes, bytes] | None:
        """Return what answers a GET: its head but for the end, and its body; None if it has to go the long way."""
        try:
            asked = Asked.by(target)
            # Who is refused, is so behind the guard.
            if asked is None or self._access.refuses("GET", target.decode(), dict(headers), is_api=True) is not None:
                return None
            found = self._views.found_at_once(asked)
        except Exception:
            # The long way meets it again, and tells it.
            return None
        if found is None:
            return None
        return b"%b%d\r\n" % (_HEADS[found[0]], len(found[1])), found[1]


class Lookups:
    """Answers what asks for one key and may have to wait, before the framework looks for an endpoint."""

    def __init__(self, app: ASGIApp, views: Views) -> None:
        self._app = app
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = None
        if scope["type"] == "http" and scope["method"] == "GET":
            asked = Asked.by(scope.get("raw_path") or b"")
        query = scope["query_string"].decode("ascii", "replace") if asked else ""
        options = dict(parse_qsl(query, keep_blank_values=True))
        consistency = options.pop("consistency", _MODES[0])
        if asked is None or options or consistency not in _MODES:
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._views.found(asked, None, consistency)
        except Exception as error:  # every refusal is a problem document
            answer = refusal_of(error).as_answer()
        await answer(scope, receive, send)
