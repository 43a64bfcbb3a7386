"""The manager over HTTP: everything that the command line can do, below `/v1`, and the dashboard at `/`.

This is the place where the parts meet: endpoints, the guard in front of them, the files of the dashboard, and the
OpenAPI description, to which is added what the framework cannot know: that every refusal is a problem document.

Flink: WebMonitorEndpoint. Differs from Flink: OpenAPI describes it, server-sent events keep it live, and one token
protects what runs code.
"""

from __future__ import annotations

import mimetypes
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.staticfiles import StaticFiles

from flintstream.jobs import rest_jobs, rest_savepoints, rest_watch
from flintstream.jobs.manager import Manager
from flintstream.jobs.rest_desk import Desk, refuse_unknown_queries
from flintstream.jobs.rest_events import Hub, Reports
from flintstream.jobs.rest_guard import VERSION, Guard, Limits
from flintstream.jobs.rest_lookups import AtOnce, Lookups
from flintstream.jobs.rest_models import Problem, Submission
from flintstream.jobs.rest_operations import Operations
from flintstream.jobs.rest_problems import PROBLEM_TYPE, install
from flintstream.jobs.rest_state import state_router
from flintstream.jobs.security import Access, Roots

DASHBOARD = Path(__file__).parent / "dashboard"
REF = "#/components/schemas/{model}"
# Any request may meet these; those of one endpoint are in its own description.
_REFUSALS = {
    "400": "The request cannot be read.",
    "401": "The manager's token is missing or wrong.",
    "403": "A page of another origin asks, or a path leads where it may not.",
    "404": "There is no such job, or no such path.",
    "421": "The server does not go by the name in the Host header.",
    "422": "The request does not fit its description.",
    "503": "The manager cannot do that just now: it is busy, stops, or its disk is full.",
}
_REFUSALS_OF_CHANGES = {
    "307": "This manager stands by; the one that leads is at the address in Location.",
    "409": "The job is not at a point where that can be done.",
}
_REFUSALS_OF_BODIES = {
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "415": "The body is not of a type that is read here.",
}


def create_app(
    manager: Manager,
    *,
    token: str,
    bound_to: tuple[str, int] = ("127.0.0.1", 8081),
    allow_paths: Sequence[str] = (),
    allow_hosts: Sequence[str] = (),
    limits: Limits | None = None,
) -> FastAPI:
    """Return the app of a manager.

    Args:
        manager: Whose jobs it serves.
        token: What submitting programs demands; everything, if `bound_to` can be reached from elsewhere.
        bound_to: The address and the port that it is served at.
        allow_paths: Directories that savepoints may be written to and read from, besides the manager's home.
        allow_hosts: Names that it goes by, besides this machine's.
        limits: How much a caller may send, and how slowly.
    """
    names = {name.lower() for name in (*allow_hosts, socket.gethostname())}
    access = Access(token, *bound_to, frozenset(names))
    reports = Reports(manager)
    hub, operations = Hub(manager, reports), Operations()
    roots = Roots([str(manager.home), *allow_paths])

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        yield
        hub.close()
        operations.close()

    app = FastAPI(
        title="Flintstream",
        version=_release(),
        description="Runs, watches, queries and steers streaming jobs.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        openapi_url=f"{VERSION}/openapi.json",
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.desk = Desk(manager, access, roots, reports, hub, operations)
    app.state.hub = hub
    install(app)
    states = state_router(manager)
    for router in (states, rest_watch.router, rest_jobs.router, rest_savepoints.router):
        app.include_router(router, prefix=VERSION, dependencies=[Depends(refuse_unknown_queries)])
    app.state.at_once = AtOnce(states.views, access)
    app.openapi = lambda: _described(app)
    # The one that is added last comes first.
    app.add_middleware(Lookups, views=states.views)
    app.add_middleware(
        Guard,
        dashboard=_dashboard(),
        access=access,
        leader=lambda: None if manager.is_leader else manager.leader_url() or "",
        limits=limits or Limits(),
    )
    return app


def _release() -> str:
    try:
        return version("flintstream")
    except PackageNotFoundError:  # run from its sources
        return "0"


def _dashboard() -> StaticFiles:
    # What systems say of these differs, and browsers refuse modules of the wrong type.
    mimetypes.add_type("text/javascript", ".js")
    mimetypes.add_type("image/svg+xml", ".svg")
    return StaticFiles(directory=DASHBOARD, html=True)


def _described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            openapi_version="3.1.0",
        )
        parts = found.setdefault("components", {})
        schemas: dict[str, Any] = parts.setdefault("schemas", {})
        for model in (Problem, Submission):
            schema = model.model_json_schema(ref_template=REF)
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        parts["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "The manager's token."}
        }
        for path in cast("dict[str, dict[str, Any]]", found["paths"]).values():
            for method, operation in path.items():
                _add_refusals(method, operation)
        app.openapi_schema = found
    return app.openapi_schema


def _add_refusals(method: str, operation: dict[str, Any]) -> None:
    # The token is optional as long as the manager is reached from its own machine only.
    operation.setdefault("security", [{}, {"token": []}])
    wanted = dict(_REFUSALS)
    if method != "get":
        wanted |= _REFUSALS_OF_CHANGES
    if method == "post":
        wanted |= _REFUSALS_OF_BODIES
    content = {PROBLEM_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}}
    for status, description in wanted.items():
        operation["responses"][status] = {"description": description, "content": content}
    operation["responses"] = dict(sorted(operation["responses"].items()))
