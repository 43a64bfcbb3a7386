"""A server of queryable state on a port of its own, over checkpoint directories instead of jobs that run."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI

from flintstream.errors import UnknownJobError
from flintstream.jobs.rest import create_app
from flintstream.jobs.rest_server import server_for
from flintstream.testing.stepped import InProcess, Line, ScriptedSource, SteppedJob

JOB = "0123456789abcdef0123456789abcdef"


@contextmanager
def keeping(keys: Sequence[Any], folder: Path, uncommitted: bool = False) -> Iterator[SteppedJob]:
    """Run a job that keeps the newest record of each key, one of which every key has."""

    def declare(env: Any, where: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(where, "in", 1)).uid("in")
        stream.key_by(lambda row: keys[row["key"]]).as_queryable_state("newest", uncommitted=uncommitted).uid("keep")
        return {}

    made = SteppedJob(declare, folder, InProcess(), 2)
    made.epoch([Line("in", 0, {"key": number, "n": 1}) for number in range(len(keys))])
    yield made
    made.stop()


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
    with serving_app(app_of(home, places, is_open)) as address:
        yield address


def app_of(home: Path, places: dict[str, str | None], is_open: bool = False) -> FastAPI:
    """Return the app of a manager that has these jobs."""
    manager: Any = Directories(home, places)
    return create_app(manager, token="t0ken", bound_to=("0.0.0.0" if is_open else "127.0.0.1", 0))


@contextmanager
def serving_app(app: FastAPI) -> Iterator[str]:
    """Serve an app as managers do, and yield the address."""
    ready = threading.Event()
    server = server_for(app, ready.set)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert ready.wait(30)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
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
