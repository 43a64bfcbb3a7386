"""A manager behind a real server in this process, and requests to it that a well-behaved client would never send."""

from __future__ import annotations

import http.client
import json
import socket
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintstream.jobs.client import Client
from flintstream.jobs.manager import Manager
from flintstream.jobs.rest import create_app
from flintstream.jobs.rest_guard import Limits
from flintstream.jobs.rest_server import server_for
from flintstream.jobs.spec import token_of

PATIENCE = 60.0
PROGRAM = """
    import sys

    from flintstream import DataGeneratorSource, FileSink, StreamExecutionEnvironment, sequence

    folder, rate = sys.argv[1], int(sys.argv[2])
    print("counting begins", flush=True)
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    env.enable_checkpointing(100)
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=rate, splits=1)).uid("numbers")
    ones = numbers.map(lambda row: (row.n % 5, 1)).uid("ones")
    counts = ones.key_by(lambda pair: pair[0]).sum(1).uid("counts")
    counts.sink_to(FileSink.json(f"{folder}/out")).uid("out")
    env.execute("counting")
"""


@dataclass(frozen=True)
class Answered:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """A server that runs, and what it serves."""

    manager: Manager
    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, token: bool = False
    ) -> Answered:
        """Send a request as it is: no header is there that was not given, but for Host and the body's length."""
        sent = dict(headers or {})
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if token:
            sent["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host="Host" in sent, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            found = connection.getresponse()
            return Answered(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def raw(self, data: bytes, seconds: float = PATIENCE) -> bytes:
        """Send bytes and return all that comes until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found


@contextmanager
def serving(
    home: Path,
    *,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    is_standby: bool = False,
    slots: int = 8,
    **options: Any,
) -> Iterator[Served]:
    """Run a manager and its server; `host` is what it believes to be bound to, it really is on loopback only."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        port = listener.getsockname()[1]
        manager = Manager(home, jobs_at_once=slots, url=f"http://127.0.0.1:{port}")
        manager.start()
        token = token_of(home)
        app = create_app(manager, token=token, bound_to=(host, port), limits=limits, **options)
        ready = threading.Event()
        server = server_for(app, ready.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            wait_for(lambda: manager.leader() is not None if is_standby else manager.is_leader)
            yield Served(manager, host, port, token)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            for view in manager.jobs():
                if manager.is_leader and not view.has_ended:
                    manager.cancel(view.id)
            manager.close()
        assert not thread.is_alive()


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what a condition gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found


def program(folder: Path) -> Path:
    """Write the program that counts for ever, and return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "counting.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def submission(folder: Path, rate: int = 300) -> dict[str, Any]:
    """Return a job that counts for ever."""
    return {"program": str(program(folder)), "arguments": [str(folder), str(rate)]}


def await_running(served: Served, job: str) -> None:
    """Wait until a job runs, and the manager knows it."""
    wait_for(lambda: served.manager.status(job).get("epoch"))
    wait_for(lambda: served.manager.job(job).status == "RUNNING" and served.manager.job(job).checkpoint_dir)
