"""What the endpoints of REST have in common: whose jobs they speak of, and parameters that several of them take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from flintstream.jobs.manager import Manager
from flintstream.jobs.rest_events import Hub, Reports
from flintstream.jobs.rest_models import JOB
from flintstream.jobs.rest_operations import Operations, settled
from flintstream.jobs.rest_problems import Refused, json_answer
from flintstream.jobs.security import Access, Roots

ID = "^[0-9a-f]{32}$"
MOST_SECONDS = 3_600
_SAVEPOINT_KEYS = ("execution.checkpointing.savepoint-dir", "state.savepoints.dir")


@dataclass(frozen=True)
class Desk:
    """What a server works with."""

    manager: Manager
    access: Access
    roots: Roots
    reports: Reports
    hub: Hub
    operations: Operations

    async def begin(self, job: str, kind: str, call: Callable[[], dict[str, Any]], wait: int) -> Response:
        """Begin an operation and wait for it that long; answer with it, or with its problem if it failed by then."""
        operation = await settled(self.operations.begin(job, kind, call), wait)
        if wait and operation.refused is not None:
            raise operation.refused
        status = 200 if wait and operation.status == "done" else 202
        return json_answer(operation.as_dict(), status, {"Location": f"/v1/operations/{operation.id}"})

    def place_for(self, job: str, directory: str | None) -> str | None:
        """Return where a savepoint may go that a caller names; None is where the job says.

        Raises:
            Refused: it may not go there.
        """
        if directory is None:
            return None
        settings = self.manager.configuration(job)
        own = [str(settings[key]) for key in _SAVEPOINT_KEYS if settings.get(key)]
        found = self.roots.resolved(directory, own)
        if found is None:
            raise _outside(directory)
        return found

    def place_of(self, job: str, savepoint: str | None) -> str | None:
        """Return a savepoint that a job may be restarted from: one of its own, or one below an allowed directory."""
        if savepoint is None or savepoint in {each.get("path") for each in self.manager.savepoints(job)}:
            return savepoint
        return self.place_for(job, savepoint)


def _outside(path: str) -> Refused:
    what = f"{path[:200]!r} is neither below the manager's home nor in the job's own savepoint directory"
    return Refused(403, "path", what, "leave it out, or start the manager with --allow-path DIR")


async def _desk_of(request: Request) -> Desk:
    return request.app.state.desk


async def refuse_unknown_queries(request: Request) -> None:
    """Refuse what an endpoint does not read: it may be one of its parameters, misspelled.

    Raises:
        Refused: the address has such a parameter.
    """
    route = request.scope["route"]
    if not request.query_params or not isinstance(route, APIRoute):
        return
    # Endpoints read queries themselves, none of what they depend on does.
    known = sorted(each.alias for each in route.dependant.query_params)
    unknown = [
        {"where": f"query.{name:.100}", "message": "there is no such parameter"}
        for name in request.query_params
        if name not in known
    ]
    if unknown:
        what = f"{unknown[0]['where']}: {unknown[0]['message']}"
        remedy = f"known here: {', '.join(known)}" if known else "leave it out; none is read here"
        raise Refused(422, "invalid", what, remedy, errors=unknown)


DeskOf = Annotated[Desk, Depends(_desk_of)]
JobId = Annotated[str, Path(pattern=ID, description="The job's id: 32 hexadecimal digits.", examples=[JOB])]
Wait = Annotated[
    int,
    Query(ge=0, le=60, description="Seconds to wait for the operation's end before answering that it still runs."),
]
Timeout = Annotated[
    int, Query(ge=1, le=MOST_SECONDS, description="Seconds that the job may take before the operation fails.")
]
