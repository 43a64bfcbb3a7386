"""The endpoints about one savepoint of a job: show it, compare, check, tag and dispose of it.

A savepoint is named by the last part of its path, and only those that the manager knows of the job can be named: no
caller reads or deletes a directory by its path. Separate from the endpoints that steer jobs, which these do not.

Flink: the handler of `/savepoint-disposal`. Differs from Flink: a savepoint is no path, and can be looked into.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from flintstream.api import savepoints
from flintstream.jobs.rest_desk import Desk, DeskOf, JobId
from flintstream.jobs.rest_models import Answer, Body, Free, Name
from flintstream.jobs.rest_problems import Refused, json_answer

router = APIRouter(prefix="/jobs/{job}/savepoints/{savepoint}")
_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
SavepointName = Annotated[str, Path(pattern=_NAME, description="The last part of the savepoint's path.")]


class CheckBody(Body):
    """Nothing has to be said to check a savepoint."""


class TagsBody(Body):
    """Tags that a savepoint is to have instead of those it has."""

    tags: list[Name] = Field(default=[], max_length=50, description="Words to find it by.")
    comment: Free | None = Field(default=None, description="Another comment; without one, it stays.")


class SavepointAnswer(Answer):
    """A savepoint: operators with their state, and how far sources were read."""

    id: str
    job: str
    epoch: int
    created: int = Field(description="Milliseconds since 1970.")
    operators: list[dict[str, Any]]
    sources: list[dict[str, Any]]


class CheckAnswer(Answer):
    """What was found of a savepoint."""

    id: str
    is_whole: bool


class TagsAnswer(Answer):
    """A savepoint with its tags."""

    id: str
    tags: list[str]
    comment: str


class DiffAnswer(Answer):
    """How much of each state was added, removed and changed."""

    tables: list[dict[str, Any]]


@router.get("", response_model=SavepointAnswer, tags=["look"])
def show(job: JobId, savepoint: SavepointName, desk: DeskOf) -> Response:
    """Show what is in a savepoint."""
    return json_answer(asdict(savepoints.show(_path(desk, job, savepoint))))


@router.get("/diff/{other}", response_model=DiffAnswer, tags=["look"])
def diff(job: JobId, savepoint: SavepointName, other: SavepointName, desk: DeskOf) -> Response:
    """Compare a savepoint with another one of the job: what came with that one, and what went."""
    found = savepoints.diff(_path(desk, job, savepoint), _path(desk, job, other))
    return json_answer({"tables": [asdict(each) for each in found]})


@router.post("/check", response_model=CheckAnswer, tags=["look"])
def check(job: JobId, savepoint: SavepointName, body: CheckBody, desk: DeskOf) -> Response:
    """Read all of a savepoint and compare it with its checksums."""
    return json_answer({"id": savepoints.check(_path(desk, job, savepoint)).id, "is_whole": True})


@router.post("/tags", response_model=TagsAnswer, tags=["steer"])
def tag(job: JobId, savepoint: SavepointName, body: TagsBody, desk: DeskOf) -> Response:
    """Give a savepoint these tags instead of those it has."""
    return json_answer(asdict(savepoints.tag(_path(desk, job, savepoint), *body.tags, comment=body.comment)))


@router.delete("", status_code=204, response_class=Response, tags=["steer"])
def dispose(job: JobId, savepoint: SavepointName, desk: DeskOf) -> Response:
    """Delete a savepoint, and nothing beside it."""
    savepoints.dispose(_path(desk, job, savepoint))
    return Response(status_code=204)


def _path(desk: Desk, job: str, name: str) -> str:
    for each in desk.manager.savepoints(job):
        if PurePosixPath(each["path"]).name == name:
            return each["path"]
    what = f"job {job} has no savepoint {name!r}"
    raise Refused(404, "unknown-savepoint", what, f"list them with GET /v1/jobs/{job}/savepoints")
