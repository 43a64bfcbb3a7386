"""A server of queryable state on a port of its own, over checkpoint directories instead of jobs that run."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn

from flintstream.errors import UnknownJobError
from flintstream.jobs.rest import create_app

JOB = "0123456789abcdef0123456789abcdef"


class Directories:
    """Stands for a manager of which nothing is asked but where jobs keep their state."""

    is_leader = True

    def __init__(self, home: Path, places: dict[str, str | None]) -> None:
        self.home = home
        self.places = places

    def job(self, job: str) -> Any:
        if job not in self.places:
            msg = f"there is no job {job}; list them with GET /v1/jobs"
            raise UnknownJobError(msg)
        return SimpleNamespace(id=job, checkpoint_dir=self.places[job])

    def leader_url(self) -> None:
        return None


@contextmanager
def serving(home: Path, places: dict[str, str | None], is_open: bool = False) -> Iterator[str]:
    """Serve, and yield the address; a server that says it `is_open` to other machines demands its token."""
    manager: Any = Directories(home, places)
    app = create_app(manager, token="t0ken", bound_to=("0.0.0.0" if is_open else "127.0.0.1", 0))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    limit = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < limit:
        time.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


def ask(address: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return status and JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", data, headers), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
