"""The endpoints that only look: jobs, what their drivers report, logs, events, and metrics for Prometheus.

Flink: the handlers of `/overview`, `/jobs/:id`, `/jobs/:id/plan`, `/checkpoints`, `/exceptions`, `/config`, `/metrics`.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from flintstream.jobs.prometheus import exposition
from flintstream.jobs.rest_desk import DeskOf, JobId
from flintstream.jobs.rest_events import ALL
from flintstream.jobs.rest_models import (
    Configuration,
    Epochs,
    Exceptions,
    History,
    Job,
    Jobs,
    LogAnswer,
    Overview,
    Plan,
    Status,
)
from flintstream.jobs.rest_problems import Refused, json_answer

router = APIRouter(tags=["look"])
MOST_OFFSET = 1 << 53
PIECE, MOST_PIECE = 64 << 10, 1 << 20
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events, without an end."}
}
_PICTURE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


class _Events(Response):
    media_type = "text/event-stream"


class _Svg(Response):
    media_type = "image/svg+xml"


class _Metrics(Response):
    media_type = "text/plain"


@router.get("/overview", response_model=Overview)
def overview(desk: DeskOf) -> Response:
    """Show the manager: who leads, slots, workers, and how many jobs there are in which state."""
    return json_answer(desk.manager.overview())


@router.get("/jobs", response_model=Jobs)
def jobs(desk: DeskOf) -> Response:
    """List all jobs, those that have ended among them."""
    return json_answer({"jobs": [desk.reports.listed(view) for view in desk.manager.jobs()]})


@router.get("/jobs/{job}", response_model=Job)
def job(job: JobId, desk: DeskOf) -> Response:
    """Show a job."""
    return json_answer(desk.manager.job(job).as_dict())


@router.get("/jobs/{job}/status", response_model=Status)
def status(job: JobId, desk: DeskOf) -> Response:
    """Show what a job's driver reported last: records, rates, watermarks, latency, state, of each operator."""
    return json_answer(desk.reports.status(desk.manager.job(job)))


@router.get("/jobs/{job}/plan", response_model=Plan)
def plan(job: JobId, desk: DeskOf) -> Response:
    """Show the dataflow that a job runs."""
    return json_answer(desk.manager.plan(job))


@router.get("/jobs/{job}/graph.svg", response_class=_Svg)
def graph(job: JobId, desk: DeskOf) -> Response:
    """Draw the dataflow that a job runs."""
    picture = desk.manager.plan(job).get("picture")
    if not isinstance(picture, str):
        raise Refused(404, "no-plan", "the job has no picture yet", "ask again when its driver has started")
    return _Svg(picture, headers=_PICTURE)


@router.get("/jobs/{job}/epochs", response_model=Epochs)
def epochs(
    job: JobId,
    desk: DeskOf,
    since: Annotated[int, Query(ge=0, le=MOST_OFFSET, description="Only epochs behind this one.")] = 0,
) -> Response:
    """List the epochs that a job has committed, with sizes, durations and latencies; at least the last 2,000."""
    return json_answer({"epochs": desk.manager.epochs(job, since)})


@router.get("/jobs/{job}/exceptions", response_model=Exceptions)
def exceptions(job: JobId, desk: DeskOf) -> Response:
    """List what failed in a job, with the user's file and line where that is known."""
    return json_answer({"exceptions": desk.manager.exceptions(job)})


@router.get("/jobs/{job}/history", response_model=History)
def history(job: JobId, desk: DeskOf) -> Response:
    """List the states that a job went through."""
    return json_answer({"history": desk.manager.history(job)})


@router.get("/jobs/{job}/configuration", response_model=Configuration)
def configuration(job: JobId, desk: DeskOf) -> Response:
    """Show the settings that a job runs with; secrets are stars."""
    return json_answer({"configuration": desk.manager.configuration(job)})


@router.get("/jobs/{job}/logs/{stream}", response_model=LogAnswer, responses=_STREAM)
async def log(
    job: JobId,
    stream: Literal["out", "err"],
    desk: DeskOf,
    offset: Annotated[
        int,
        Query(ge=-MOST_OFFSET, le=MOST_OFFSET, description="From this byte on; a negative one counts from the end."),
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_PIECE, description="At most that many bytes.")] = PIECE,
    follow: Annotated[bool, Query(description="Whether to go on as events while the job prints more.")] = False,
    last_event_id: Annotated[str | None, Header(description="Where a stream that broke goes on.")] = None,
) -> Response:
    """Show what a job's program printed: `out` has the print sink, `err` its log."""
    if follow:
        await asyncio.to_thread(desk.manager.job, job)
        if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
            offset = min(int(last_event_id[:16]), MOST_OFFSET)
        return desk.hub.stream(desk.hub.follow(job, stream, offset))
    return json_answer(asdict(await asyncio.to_thread(desk.manager.log, job, stream, offset, limit)))


@router.get("/jobs/{job}/events", response_class=_Events)
async def job_events(job: JobId, desk: DeskOf) -> Response:
    """Watch a job: `event: status` with the job and what its driver reports, at once and whenever that changes."""
    await asyncio.to_thread(desk.manager.job, job)
    return desk.hub.stream(desk.hub.watch(job))


@router.get("/events", response_class=_Events)
async def events(desk: DeskOf) -> Response:
    """Watch the manager: `event: overview` with the overview and all jobs, at once and whenever that changes."""
    return desk.hub.stream(desk.hub.watch(ALL))


@router.get("/metrics", response_class=_Metrics)
def metrics(desk: DeskOf) -> Response:
    """Show the metrics of all jobs, as Prometheus reads them."""
    known = [(view.as_dict(), desk.reports.status(view)) for view in desk.manager.jobs()]
    return _Metrics(exposition(known), headers={"Content-Type": PROMETHEUS_TYPE})
