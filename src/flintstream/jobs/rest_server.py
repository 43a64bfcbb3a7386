"""Serves the manager's app by uvicorn: with deadlines that it does not have, and an end that waits for no watcher.

Separate from `server`, which every command may import; this module needs the packages of the extra `manager`.

Flink: RestServerEndpoint.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from flintstream.jobs.rest_events import Hub
from flintstream.jobs.rest_guard import VERSION
from flintstream.jobs.rest_problems import Refused
from flintstream.jobs.security import SIGNATURE

HEAD_SECONDS = 15.0
CLOSING_SECONDS = 3
MOST_CONNECTIONS = 1_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Protocol(H11Protocol):
    """A connection whose request must arrive in time: one that sends a byte now and then would stay for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Stop waiting when the head of a request is there."""
        super().data_received(data)
        if self._is_answering:
            self._stop_expecting()
        elif self._deadline is None:
            self._expect()

    def on_response_complete(self) -> None:
        """Wait for the next request; how long one may take to begin is the server's own affair."""
        self._stop_expecting()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_expecting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or one with a head of more than 64 KiB, as everything else is refused."""
        body = Refused(400, "request", msg, "send a request of HTTP, with a shorter head").as_answer()
        headers = [*body.raw_headers, (b"connection", b"close"), (SIGNATURE.lower().encode(), VERSION[1:].encode())]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(body.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _is_answering(self) -> bool:
        # Before the first request there is none, whatever its type says.
        cycle = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """A server that says when it is ready, ends streams when it ends, and returns instead of dying by the signal."""

    def __init__(self, config: uvicorn.Config, hub: Hub, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it is ready, behind the point where it is."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what has no end, then the rest."""
        self._hub.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End by signals, without dying by them: the manager still has to be closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ended) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ended(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True


def server_for(app: FastAPI, on_ready: Callable[[], None] = lambda: None) -> Server:
    """Return a server for an app; it runs on sockets that listen already."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    return Server(config, app.state.hub, on_ready)
