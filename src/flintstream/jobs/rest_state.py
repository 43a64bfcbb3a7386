"""The endpoints of queryable state: what can be looked up, one key, many keys, pages of keys, and what changes.

Answers come from the checkpoint directory of a job, which the manager reads itself (`engine.query`); the job is asked
nothing. Look-ups run in the server's own loop, since they take microseconds once a table is indexed (`rest_lookups`);
all that may take longer (a newer manifest, a page) runs in a thread.

Names may have any character: operator, state and key are read from the path as it was sent, so that a slash in a key is
`%2F` there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import Field, JsonValue
from starlette.responses import Response

from flintstream.engine.query import StateView
from flintstream.engine.query_names import LONGEST_PAGE, KeyText, is_shallow
from flintstream.engine.query_watch import EVERYTHING, Watch
from flintstream.errors import UnknownStateError, describe
from flintstream.jobs.manager import Manager
from flintstream.jobs.rest_desk import JobId
from flintstream.jobs.rest_events import event_stream, sse
from flintstream.jobs.rest_lookups import Asked, Consistency, Views, operator_of
from flintstream.jobs.rest_models import Answer, Body
from flintstream.jobs.rest_problems import Refused, json_answer

MOST_KEYS = 10_000
_WATCH_SECONDS = 0.1
"""How often a watched state is looked at for a newer manifest."""
_LONGEST_WINDOW = 100
Operator = Annotated[str, Path(description="The operator's uid or name; `-` if only one has such a state.")]
Name = Annotated[str, Path(description="The name under which the state is queryable.")]
Key = Annotated[str, Path(description='The key: text, or JSON, such as `42` or `["de", 7]`.')]
Window = Annotated[
    str | None,
    Query(max_length=_LONGEST_WINDOW, description="The start of a window in ms, or `start,end`; else all are told."),
]


class QueryableState(Answer):
    """A state that can be looked up."""

    operator: str
    operator_name: str
    name: str
    kind: str
    windowed: bool
    uncommitted: bool


class QueryableStates(Answer):
    """The states of a job that can be looked up."""

    states: list[QueryableState]
    epoch: int


class StateEntry(Answer):
    """What a key has."""

    operator: str
    name: str
    key: JsonValue
    found: bool
    value: JsonValue
    epoch: int = Field(description="The epoch whose state this is.")
    committed: bool = Field(description="If not, the epoch may still come to nothing.")


class StateEntries(Answer):
    """Some entries in the order of their keys."""

    entries: list[StateEntry]
    epoch: int
    after: str | None = Field(description="What to ask for the next page with.")


class StateAnswers(Answer):
    """What some keys have, as of one epoch."""

    answers: list[StateEntry]


class Keys(Body):
    """Keys to be looked up at once."""

    keys: list[JsonValue] = Field(min_length=1, max_length=MOST_KEYS)
    window: str | None = Field(default=None, max_length=100)
    consistency: Consistency = "committed"


def _parts(request: Request) -> list[str]:
    """Return operator, state and so on out of the path as it was sent, where a slash in a name is not one of ours."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    _, _, rest = raw.decode("ascii", "replace").partition("?")[0].partition("/state/")
    return [unquote(part) for part in rest.split("/")]


async def _events(views: Views, view: StateView, watch: Watch) -> AsyncGenerator[bytes]:
    while True:
        changes = await asyncio.to_thread(watch.news)
        if changes:
            document = {"epoch": changes[0].epoch, "changes": [change.as_dict() for change in changes]}
            yield sse("state", document, changes[0].epoch)
        while not watch.may_have_news:
            await asyncio.sleep(_WATCH_SECONDS)
        await views.refreshed(view)


def _since(last_event_id: str | None) -> int | None:
    return int(last_event_id) if last_event_id is not None and last_event_id.isdecimal() else None


_LAST = Header(alias="Last-Event-ID", max_length=40, description="The epoch of the last event that was seen.")
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events, without an end."}
}


class StateRouter(APIRouter):
    """The endpoints, and the views that they share with `rest_lookups`."""

    def __init__(self, views: Views) -> None:
        super().__init__(tags=["queryable state"])
        self.views = views
        _add_lookups(self, views)
        _add_lists(self, views)


def state_router(manager: Manager) -> StateRouter:
    """Return the endpoints, over the jobs of a manager."""
    return StateRouter(Views(manager))


def _add_lists(router: APIRouter, views: Views) -> None:
    """Add what lists: states, and the entries of one."""

    async def states(job: JobId) -> Response:
        """List the states of a job that can be looked up."""
        view = await views.of(job)
        return json_answer({"states": [state.as_dict() for state in view.states()], "epoch": view.epoch})

    async def scan(
        request: Request,
        job: JobId,
        operator: Operator,
        name: Name,
        prefix: Annotated[str | None, Query(max_length=10_000, description="What keys begin with.")] = None,
        limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="At most that many entries.")] = 100,
        after: Annotated[str | None, Query(max_length=100_000, description="`after` of the page before.")] = None,
        watch: Annotated[bool, Query(description="Send what changes, as events.")] = False,
        last_event_id: Annotated[str | None, _LAST] = None,
    ) -> Response:
        """List entries in the order of their keys, page by page, or watch all that begin with a prefix."""
        view, parts = await views.of(job), _parts(request)
        begins = None if prefix is None else KeyText(prefix)
        if watch:
            watched = Watch(view, parts[1], EVERYTHING, begins, operator_of(parts[0]), None, _since(last_event_id))
            return event_stream(request, _events(views, view, watched))
        page = await asyncio.to_thread(view.scan, parts[1], begins, limit, after, operator_of(parts[0]))
        return json_answer(page.as_dict())

    router.get("/jobs/{job}/state", response_model=QueryableStates)(states)
    router.get("/jobs/{job}/state/{operator}/{name}", response_model=StateEntries, responses=_STREAM)(scan)


def _add_lookups(router: APIRouter, views: Views) -> None:
    """Add what looks up: a key, and many keys."""

    async def get(
        request: Request,
        job: JobId,
        operator: Operator,
        name: Name,
        key: Key,
        window: Window = None,
        consistency: Consistency = "committed",
        last_event_id: Annotated[str | None, _LAST] = None,
    ) -> Response:
        """Look a key up: what it has as of the newest manifest, or `uncommitted`. Ending in `/watch`: what changes."""
        parts = _parts(request)
        if len(parts) == 3:
            return await views.found(Asked(job, operator_of(parts[0]), parts[1], parts[2]), window, consistency)
        view = await views.of(job)
        if len(parts) == 4 and parts[3] == "watch":
            watch = Watch(view, parts[1], KeyText(parts[2]), None, operator_of(parts[0]), window, _since(last_event_id))
            # What cannot be looked up is told at once, while there is a status to tell it with.
            view.get(parts[1], [KeyText(parts[2])], operator_of(parts[0]), window)
            return event_stream(request, _events(views, view, watch))
        what = "the path is not one of operator, state and key"
        remedy = "write a slash inside a key as %2F; name an operator whose uid has one by its name, or by -"
        raise UnknownStateError(describe(what, None, remedy))

    async def get_many(request: Request, job: JobId, operator: Operator, name: Name, body: Keys) -> Response:
        """Look many keys up at once, all as of one epoch; keys are JSON values."""
        view, parts = await views.of(job), _parts(request)
        if not is_shallow(body.keys):
            raise Refused(422, "invalid", "keys are nested deeper than any key is", "give keys as the program has them")
        asked = (parts[1], body.keys, operator_of(parts[0]), body.window, body.consistency)
        answers = await asyncio.to_thread(view.get, *asked)
        return json_answer({"answers": [answer.as_dict() for answer in answers]})

    router.get("/jobs/{job}/state/{operator}/{name}/{key:path}", response_model=StateEntry)(get)
    router.post("/jobs/{job}/state/{operator}/{name}", response_model=StateAnswers)(get_many)
