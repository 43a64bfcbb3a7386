"""Serves the manager's app by uvicorn: with connections of our own (`rest_protocol`), and an end that waits for nobody.

Separate from `server`, which every command may import; this module needs the packages of the extra `manager`.

Flink: RestServerEndpoint.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from flintstream.jobs.rest_events import Hub
from flintstream.jobs.rest_protocol import AtOnce, Protocol

CLOSING_SECONDS = 3
MOST_CONNECTIONS = 1_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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

    class Connection(Protocol):
        at_once: AtOnce = staticmethod(app.state.at_once)

    config = uvicorn.Config(
        app,
        http=Connection,
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
