"""How REST says no: every refusal is a problem document (RFC 9457) with what is wrong and what to do about it.

Separate from the endpoints, so that none of them decides which error is which status, and none answers with a page of
its framework. Values are written as JSON that every reader accepts, also where a driver wrote NaN into its report.

Flink: the ErrorResponseBody of its REST handlers. Differs from Flink: no stack traces; a remedy instead.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from flintstream.errors import (
    DefinitionError,
    EnvironmentSetupError,
    FlintstreamError,
    JobStateError,
    ManagerError,
    PlanError,
    UnknownJobError,
    UnknownStateError,
)

PROBLEM_TYPE = "application/problem+json"
_LOG = logging.getLogger("flintstream.rest")
_WRITER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=str)
# The first class that fits counts. What is left was asked at the wrong moment, as far as a caller can tell.
_STATUS: tuple[tuple[type[FlintstreamError], int], ...] = (
    (UnknownJobError, 404),
    (UnknownStateError, 404),
    (UnknownStateError, 404),
    (JobStateError, 409),
    (ManagerError, 503),
    (DefinitionError, 422),
    (PlanError, 422),
    (EnvironmentSetupError, 503),
)
_DESCRIBED = "see the description at /v1/openapi.json"
_CODES = {404: "not-found", 405: "method", 400: "request", 413: "too-large"}


class Refused(Exception):
    """A request is refused: the status, a stable code, what is wrong and what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.remedy = remedy
        self.headers = dict(headers or {})
        self.errors = list(errors)

    def as_problem(self) -> dict[str, Any]:
        """Return the problem document."""
        found: dict[str, Any] = {
            "type": f"urn:flintstream:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "remedy": self.remedy,
        }
        return {**found, "errors": self.errors} if self.errors else found

    def as_answer(self) -> Response:
        """Return the response."""
        return Response(to_json(self.as_problem()), self.status, self.headers, PROBLEM_TYPE)


def refusal_of(error: Exception, asked: Scope | None = None) -> Refused:
    """Return how an error is told to a caller; one that nobody expected is logged, and told without its inside."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, HTTPException):
        code = _CODES.get(error.status_code, "request")
        detail = str(error.detail)
        if asked is not None and error.status_code in (404, 405):
            path = f"{asked['path']!r:.200}"
            detail = f"there is no path {path}" if code == "not-found" else f"{asked['method']} is not for path {path}"
        return Refused(error.status_code, code, detail, _DESCRIBED, error.headers)
    if isinstance(error, FlintstreamError):
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 409)
        # Messages are clauses; the last one of several says what to do.
        *clauses, last = str(error).split("; ")
        return Refused(status, error.code, "; ".join(clauses) or last, last if clauses else None)
    if isinstance(error, OSError):
        _LOG.warning("a request failed: %s", error)
        # What a store says besides the kind of its error may be an address with a secret.
        why = error.strerror or type(error.__cause__ or error).__name__
        what = f"the manager could not do that ({why})"
        return Refused(503, "os", what, "look at the manager's disk, memory and log", {"Retry-After": "5"})
    _LOG.error("a request met an error that should not be", exc_info=error)
    return Refused(500, "internal", "the manager has met an error of its own", "look at the manager's log; report it")


def to_json(value: Any) -> bytes:
    """Return a value as JSON; NaN and the infinities, which JSON does not have, become null."""
    try:
        text = _WRITER.encode(value)
    except ValueError:
        text = _WRITER.encode(_finite(value))
    return text.encode()


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a value as JSON."""
    return Response(to_json(value), status, headers, "application/json")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in cast("Sequence[Any]", value)]
    return value


def install(app: FastAPI) -> None:
    """Let an app answer every error as a problem document."""
    app.add_exception_handler(RequestValidationError, _invalid)
    for kind in (HTTPException, Refused, FlintstreamError, OSError):
        app.add_exception_handler(kind, _told)


async def _told(request: Request, error: Exception) -> Response:
    return refusal_of(error, request.scope).as_answer()


async def _invalid(_request: Request, error: Exception) -> Response:
    """Answer a request that does not fit its description; a path that cannot be one names nothing that exists."""
    assert isinstance(error, RequestValidationError)
    # The value itself is left out: it may be a secret, and it may be large.
    errors = [
        {"where": ".".join(str(part) for part in each["loc"]), "message": str(each["msg"])} for each in error.errors()
    ]
    first = errors[0] if errors else {"where": "request", "message": "it does not fit"}
    detail = f"{first['where']}: {first['message']}"
    if any(each["loc"][:1] == ("path",) for each in error.errors()):
        return Refused(404, "not-found", detail, "list what there is with GET /v1/jobs", errors=errors).as_answer()
    return Refused(422, "invalid", detail, _DESCRIBED, errors=errors).as_answer()
