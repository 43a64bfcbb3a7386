"""The endpoints that run or change something: submit, explain, cancel, stop, savepoints, rescale, restart, forget.

Flink: the handlers of `/jobs`, `/jars/:id/run`, `/jobs/:id/savepoints`, `/jobs/:id/stop`, `/jobs/:id/rescaling`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Path, Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.responses import Response

from flintstream.jobs.explaining import explained
from flintstream.jobs.rest_desk import ID, Desk, DeskOf, JobId, Timeout, Wait
from flintstream.jobs.rest_guard import FORM, JSON
from flintstream.jobs.rest_models import (
    CancelBody,
    Explanation,
    Job,
    OperationAnswer,
    RescaleBody,
    RestartBody,
    SavepointBody,
    Savepoints,
    SessionBody,
    StopBody,
    Submission,
)
from flintstream.jobs.rest_operations import settled
from flintstream.jobs.rest_problems import Refused, json_answer
from flintstream.jobs.rest_uploads import inside, staged, store
from flintstream.jobs.security import SESSION_SECONDS
from flintstream.jobs.spec import JobSpec

router = APIRouter()
T = TypeVar("T")
_OPERATION: dict[int | str, dict[str, Any]] = {
    200: {"model": OperationAnswer, "description": "It is done; only with `wait`."},
    202: {"description": "It runs; ask for it at the address in Location."},
}
_SCHEMA = {"$ref": "#/components/schemas/Submission"}
_SUBMITTED: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The job; or a form with a program to upload and the job.",
        "content": {
            JSON: {"schema": _SCHEMA},
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["program"],
                    "properties": {
                        "program": {
                            "type": "string",
                            "format": "binary",
                            "description": "One .py; or a .zip or .whl of modules, of which the job names one.",
                        },
                        "spec": {"type": "string", "contentMediaType": JSON, "contentSchema": _SCHEMA},
                    },
                },
                "encoding": {"spec": {"contentType": JSON}},
            },
        },
    },
    "security": [{"token": []}],
}


@router.post("/jobs", status_code=201, response_model=Job, openapi_extra=_SUBMITTED, tags=["jobs"])
async def submit(request: Request, desk: DeskOf) -> Response:
    """Run a program as a job. Always needs the token: it runs code as the user who started the manager."""
    view = await _with_program(request, desk, desk.manager.submit)
    return json_answer(view.as_dict(), 201, {"Location": f"/v1/jobs/{view.id}"})


@router.post("/explain", response_model=Explanation, openapi_extra=_SUBMITTED, tags=["look"])
async def explain(request: Request, desk: DeskOf) -> Response:
    """Show how a program would run: it runs up to its first execute(), and no further. Always needs the token."""

    def use(spec: JobSpec, files: FilePath | None) -> dict[str, Any]:
        with staged(desk.manager.home) as folder:
            if files is not None:
                files.rename(folder / "program")
            return explained(spec, folder)

    return json_answer(await _with_program(request, desk, use))


async def _with_program(request: Request, desk: Desk, use: Callable[[JobSpec, FilePath | None], T]) -> T:
    """Return what comes of a request's job and of the folder with its program, if one was uploaded."""
    if request.headers["content-type"].partition(";")[0].strip().lower() != FORM:
        spec = _spec(await request.body())
        return await asyncio.to_thread(use, spec, None)
    async with request.form(max_files=1, max_fields=1, max_part_size=1 << 20) as form:
        program, text = form.get("program"), form.get("spec", "{}")
        if not isinstance(program, UploadFile) or not isinstance(text, str) or set(form) - {"program", "spec"}:
            what = "the form has no file `program`, or more than it and a field `spec`"
            raise Refused(422, "upload", what, "send one file `program` and the job as JSON in a field `spec`")
        return await asyncio.to_thread(_stored, desk, program, text.encode(), use)


def _stored(desk: Desk, program: UploadFile, text: bytes, use: Callable[[JobSpec, FilePath | None], T]) -> T:
    with staged(desk.manager.home) as folder:
        name = store(program.filename or "", program.file, folder)
        spec = _spec(text, name)
        if spec.program is not None:
            inside(folder, spec.program)
        return use(spec, folder)


def _spec(text: bytes, program: str | None = None) -> JobSpec:
    """Return the job that a body describes; `program` is the name of a script that was uploaded alone."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = f"the job is no JSON ({type(error).__name__})"
        raise Refused(400, "request", what, "send an object with a program") from None
    if program is not None and isinstance(document, dict) and "module" not in document:
        cast("dict[str, Any]", document).setdefault("program", program)
    try:
        given = Submission.model_validate(document)
    except ValidationError as error:
        errors = [
            {"where": ".".join(["body", *map(str, each["loc"])]), "message": each["msg"]}
            for each in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        detail = f"{errors[0]['where']}: {errors[0]['message']}"
        raise Refused(422, "invalid", detail, "see the description at /v1/openapi.json", errors=errors) from None
    return JobSpec.from_json(given.model_dump())


@router.delete("/jobs/{job}", status_code=204, response_class=Response, tags=["jobs"])
def forget(job: JobId, desk: DeskOf) -> Response:
    """Forget a job that has ended, and delete its logs; its checkpoints and savepoints elsewhere stay."""
    desk.manager.forget(job)
    return Response(status_code=204)


@router.post(
    "/jobs/{job}/cancel", status_code=202, response_model=OperationAnswer, responses=_OPERATION, tags=["steer"]
)
async def cancel(job: JobId, body: CancelBody, desk: DeskOf, wait: Wait = 0, timeout: Timeout = 60) -> Response:
    """Let a job end behind its last epoch; a restart goes on from there."""
    await asyncio.to_thread(desk.manager.job, job)

    def call() -> dict[str, Any]:
        return {"job": desk.manager.cancel(job, timeout=timeout).as_dict()}

    return await desk.begin(job, "cancel", call, wait)


@router.post("/jobs/{job}/stop", status_code=202, response_model=OperationAnswer, responses=_OPERATION, tags=["steer"])
async def stop(job: JobId, body: StopBody, desk: DeskOf, wait: Wait = 0, timeout: Timeout = 60) -> Response:
    """Let a job take a last savepoint and end."""
    await asyncio.to_thread(desk.manager.job, job)
    place = await asyncio.to_thread(desk.place_for, job, body.directory)

    def call() -> dict[str, Any]:
        return {"path": desk.manager.stop(job, place, body.drain, timeout=timeout)}

    return await desk.begin(job, "stop", call, wait)


@router.post(
    "/jobs/{job}/savepoints", status_code=202, response_model=OperationAnswer, responses=_OPERATION, tags=["steer"]
)
async def take_savepoint(
    job: JobId, body: SavepointBody, desk: DeskOf, wait: Wait = 0, timeout: Timeout = 60
) -> Response:
    """Take a savepoint of a job, which goes on if it runs."""
    await asyncio.to_thread(desk.manager.job, job)
    place = await asyncio.to_thread(desk.place_for, job, body.directory)

    def call() -> dict[str, Any]:
        return {"path": desk.manager.savepoint(job, place, tuple(body.tags), body.comment, timeout=timeout)}

    return await desk.begin(job, "savepoint", call, wait)


@router.get("/jobs/{job}/savepoints", response_model=Savepoints, tags=["look"])
def savepoints(job: JobId, desk: DeskOf) -> Response:
    """List the savepoints that were taken of a job."""
    return json_answer({"savepoints": desk.manager.savepoints(job)})


@router.post(
    "/jobs/{job}/rescale", status_code=202, response_model=OperationAnswer, responses=_OPERATION, tags=["steer"]
)
async def rescale(job: JobId, body: RescaleBody, desk: DeskOf, wait: Wait = 0, timeout: Timeout = 60) -> Response:
    """Let a job go on with another parallelism, from behind its last epoch; or let it follow its backlog."""
    await asyncio.to_thread(desk.manager.job, job)
    least = body.least or 1
    most = body.most or max(least, desk.manager.slots)

    def call() -> dict[str, Any]:
        if isinstance(body.parallelism, int):
            view = desk.manager.rescale(job, body.parallelism, timeout=timeout)
        else:
            view = desk.manager.rescale_auto(job, least, most)
        return {"job": view.as_dict()}

    return await desk.begin(job, "rescale", call, wait)


@router.post(
    "/jobs/{job}/restart", status_code=202, response_model=OperationAnswer, responses=_OPERATION, tags=["steer"]
)
async def restart(job: JobId, body: RestartBody, desk: DeskOf, wait: Wait = 0, timeout: Timeout = 60) -> Response:
    """Start a job again, whether it runs or has ended: where it stood, or from a savepoint."""
    await asyncio.to_thread(desk.manager.job, job)
    place = await asyncio.to_thread(desk.place_of, job, body.savepoint)

    def call() -> dict[str, Any]:
        return {"job": desk.manager.restart(job, place, body.allow_non_restored, timeout=timeout).as_dict()}

    return await desk.begin(job, "restart", call, wait)


@router.get("/operations/{operation}", response_model=OperationAnswer, tags=["steer"])
async def operation(
    operation: Annotated[str, Path(pattern=ID, description="The operation's id.")], desk: DeskOf, wait: Wait = 0
) -> Response:
    """Show how far an operation is; with `wait`, as soon as it has ended."""
    found = await settled(desk.operations.get(operation), wait)
    return json_answer(found.as_dict())


@router.post("/session", status_code=204, response_class=Response, tags=["session"])
async def begin_session(request: Request, body: SessionBody, desk: DeskOf) -> Response:
    """Exchange the token for a cookie that is good for looking, not for changing anything."""
    if not desk.access.is_token(body.token.encode("utf-8", "surrogatepass")):
        raise Refused(401, "token", "the token is wrong", "it is in the file `token` of the manager's home")
    answer = Response(status_code=204)
    answer.set_cookie(
        desk.access.cookie,
        desk.access.new_session(),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.delete("/session", status_code=204, response_class=Response, tags=["session"])
async def end_session(desk: DeskOf) -> Response:
    """Take the cookie back."""
    answer = Response(status_code=204)
    answer.delete_cookie(desk.access.cookie, httponly=True, samesite="strict")
    return answer
