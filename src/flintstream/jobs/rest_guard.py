"""The door of the server: what every request passes before an endpoint sees it, and every answer on its way out.

One layer directly on ASGI, because most of it must happen before a body is read, and because a lookup of state should
not pay for several. It checks who asks (`security`), reads bodies within a limit of bytes and of time, which the server
below does not do, sends what only the leader may do to the leader, and adds the headers that keep browsers strict.

Flink: the Netty pipeline of RestServerEndpoint (FileUploadHandler, `rest.server.max-content-length`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flintstream.jobs.rest_problems import Refused, refusal_of
from flintstream.jobs.security import SESSION_PATH, SIGNATURE, SUBMISSIONS, Access

VERSION = "/v1"
API_ROOTS = frozenset({"overview", "jobs", "operations", "events", "metrics", "session", "explain", "openapi.json"})
"""First parts of paths that mean the newest version when none is named."""
JSON, FORM = "application/json", "multipart/form-data"
_CLOSE = {"Connection": "close"}
_QUERY = re.compile(rf"{VERSION}/jobs/[^/]+/state/")
"""Asking for many keys of a state is a POST, but changes nothing."""
_LOG = logging.getLogger("flintstream.rest")
_SIGNED = [(SIGNATURE.lower().encode(), VERSION[1:].encode()), (b"x-content-type-options", b"nosniff")]
_SAME_ORIGIN = b"same-origin"
API_HEADERS = (
    *_SIGNED,
    (b"cross-origin-resource-policy", _SAME_ORIGIN),
    # What a driver writes may change at any time.
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""What every answer of the interface has; pages need more."""
_PAGE_HEADERS = (
    *_SIGNED,
    (b"cross-origin-resource-policy", _SAME_ORIGIN),
    (b"cross-origin-opener-policy", _SAME_ORIGIN),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    # A new release may bring other files.
    (b"cache-control", b"no-cache"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; "
        b"form-action 'self'",
    ),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Limits:
    """How much a caller may send, and how slowly.

    Attributes:
        body_bytes: Of a JSON body.
        upload_bytes: Of an upload with all its parts.
        body_seconds: How long a JSON body may take.
        upload_seconds: How long an upload may take.
        idle_seconds: How long an upload may pause.
        drain_bytes: How much of a refused body is still read, so that its sender gets to the answer.
    """

    body_bytes: int = 1 << 20
    upload_bytes: int = 64 << 20
    body_seconds: float = 15.0
    upload_seconds: float = 300.0
    idle_seconds: float = 15.0
    drain_bytes: int = 8 << 20


class Guard:
    """An ASGI app in front of another one, and of the dashboard's files.

    Args:
        app: What answers below `/v1`.
        dashboard: What answers everywhere else.
        access: Who may ask for what.
        leader: Returns None on the manager that leads; else where that one is, empty if nobody knows.
        limits: How much a caller may send, and how slowly.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        dashboard: ASGIApp,
        access: Access,
        leader: Callable[[], str | None],
        limits: Limits,
    ) -> None:
        self._app = app
        self._dashboard = dashboard
        self._access = access
        self._leader = leader
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            # Starting and stopping pass; there are no web sockets here.
            await self._app(scope, receive, send)
            return
        is_api = _versioned(scope)
        answer = _Answer(send, is_api)
        try:
            await self._answer(scope, receive, answer, is_api)
        except Exception as error:
            if answer.has_begun:
                _LOG.warning("an answer was cut short: %s: %s", type(error).__name__, error)
                raise
            await refusal_of(error, scope).as_answer()(scope, receive, answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, is_api: bool) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        method, path = scope["method"], scope["path"]
        try:
            verdict = self._access.refuses(method, path, headers, is_api)
            if verdict is not None:
                challenge = {"WWW-Authenticate": "Bearer"} if verdict.status == 401 else {}
                raise Refused(verdict.status, verdict.code, verdict.what, verdict.remedy, challenge)
            if not is_api:
                await self._dashboard(scope, receive, send)
                return
            if method in ("POST", "DELETE") and path != SESSION_PATH and not _QUERY.match(path):
                self._to_the_leader(scope)
            if method == "POST":
                receive = await self._read(method, path, headers, receive)
        except Refused as refused:
            if _has_body(headers):
                await _drain(receive, self._limits)
                refused.headers.update(_CLOSE)
            raise
        await self._app(scope, receive, send)

    def _to_the_leader(self, scope: Scope) -> None:
        url = self._leader()
        if url is None:
            return
        if not url:
            what = "this manager stands by, and nobody leads just now"
            raise Refused(503, "not-leader", what, "try again in some seconds", {"Retry-After": "5"})
        target = url.rstrip("/") + quote(scope["path"])
        query = scope["query_string"].decode("latin-1")
        location = f"{target}?{quote(query, safe='=&%+,:;@/?-._~')}" if query else target
        what = f"this manager stands by; {url} leads"
        raise Refused(307, "not-leader", what, "ask the manager that leads", {"Location": location})

    async def _read(self, method: str, path: str, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        """Return from where the endpoint gets its body: JSON is there as a whole, an upload comes in pieces."""
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        is_upload = kind == FORM and (method, path) in SUBMISSIONS
        if kind != JSON and not is_upload:
            remedy = f"send {JSON}" + (f", or {FORM} with a program" if (method, path) in SUBMISSIONS else "")
            raise Refused(415, "content-type", f"a body of type {kind[:100] or 'nothing'!r} is not read here", remedy)
        limit = self._limits.upload_bytes if is_upload else self._limits.body_bytes
        length = headers.get(b"content-length", b"0").decode("latin-1")
        if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > limit:
            raise _too_large(limit)
        if is_upload:
            return _Pieces(receive, self._limits)
        return _Whole(receive, await _whole(receive, limit, self._limits.body_seconds))


class _Answer:
    """Passes an answer on, with the headers that every answer has."""

    def __init__(self, send: Send, is_api: bool) -> None:
        self._send = send
        self._own = API_HEADERS if is_api else _PAGE_HEADERS
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[tuple[bytes, bytes]] = message["headers"]
            # The protocol writes what it is given: a line break in a value would begin a header of somebody else's.
            if any(_CONTROL.search(value) for _, value in headers):
                msg = "a header of an answer has a control character in it"
                raise ValueError(msg)
            self.has_begun = True
            given = {name for name, _ in headers}
            message["headers"] = [*headers, *(each for each in self._own if each[0] not in given)]
        await self._send(message)


class _Whole:
    """A body that was read already."""

    def __init__(self, receive: Receive, body: bytes) -> None:
        self._receive = receive
        self._body: bytes | None = body

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


class _Pieces:
    """A body that is read as it comes, within the limits of uploads."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive = receive
        self._limits = limits
        self._left = limits.upload_bytes
        self._until = asyncio.get_running_loop().time() + limits.upload_seconds
        self._is_over = False

    async def __call__(self) -> Message:
        if self._is_over:
            return await self._receive()
        left = self._until - asyncio.get_running_loop().time()
        message = await _next(self._receive, min(left, self._limits.idle_seconds))
        self._left -= len(message.get("body", b""))
        self._is_over = not message.get("more_body", False)
        if self._left < 0:
            await _drain(self._receive, self._limits)
            raise _too_large(self._limits.upload_bytes)
        return message


async def _whole(receive: Receive, limit: int, seconds: float) -> bytes:
    until = asyncio.get_running_loop().time() + seconds
    pieces: list[bytes] = []
    size, is_over = 0, False
    while not is_over:
        message = await _next(receive, until - asyncio.get_running_loop().time())
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        is_over = not message.get("more_body", False)
        if size > limit:
            raise _too_large(limit)
    return b"".join(pieces)


async def _next(receive: Receive, seconds: float) -> Message:
    try:
        return await asyncio.wait_for(receive(), max(seconds, 0.0))
    except TimeoutError:
        what, remedy = "the body came too slowly", "send it in one go"
        raise Refused(408, "too-slow", what, remedy, _CLOSE) from None


async def _drain(receive: Receive, limits: Limits) -> None:
    """Read some of a body that nobody wants: a sender that is cut off in the middle never sees the answer."""
    left, until = limits.drain_bytes, asyncio.get_running_loop().time() + 2.0
    while left > 0:
        try:
            message = await _next(receive, min(0.5, until - asyncio.get_running_loop().time()))
        except Refused:
            return
        left -= len(message.get("body", b""))
        if not message.get("more_body", False):
            return


def _too_large(limit: int) -> Refused:
    return Refused(413, "too-large", f"the body has more than {limit} bytes", "send less", _CLOSE)


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _versioned(scope: dict[str, Any] | Scope) -> bool:
    """Return whether a path is one of the interface's; one without a version gets the newest."""
    path: str = scope["path"]
    first = path[1:].partition("/")[0]
    if first == VERSION[1:]:
        return True
    if first not in API_ROOTS:
        return False
    scope["path"] = VERSION + path
    if "raw_path" in scope:
        scope["raw_path"] = VERSION.encode() + scope["raw_path"]
    return True
