"""Look-ups of a million queryable keys over HTTP, as fast as the server answers, beside rivals/redis_front.py.

The server is the manager's own: uvicorn with httptools, as the rival's, and on it our checks of a request and the index
over state files. `--serve DIRECTORY` is the server alone, over a checkpoint directory.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from redis_front import free_port, wait_for
from report import scratch

from flintstream import (
    DiscardingSink,
    KeyedProcessFunction,
    NumberSequenceSource,
    QueryableStateClient,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

JOB = "0" * 32
LOAD = Path(__file__).parent.parent / "rivals" / "http_load.py"
PATH = f"/v1/jobs/{JOB}/state/sums/sums/"


class Directory:
    """Stands for a manager with one job, of which only the checkpoint directory is asked."""

    is_leader = True

    def __init__(self, directory: str) -> None:
        self.home = Path(directory)

    def job(self, job: str) -> Any:
        """Return the job."""
        return SimpleNamespace(id=job, checkpoint_dir=str(self.home))

    def leader_url(self) -> None:
        """Return nothing: it leads itself."""


def serve(directory: str, port: int) -> None:
    """Serve the state in a checkpoint directory."""
    from flintstream.jobs.rest import create_app
    from flintstream.jobs.rest_server import server_for

    manager: Any = Directory(directory)
    app = create_app(manager, token="", bound_to=("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)) as listener:
        server_for(app).run([listener])


@contextmanager
def server(directory: str) -> Iterator[int]:
    """Run the server in a process of its own, and yield its port."""
    port = free_port()
    served = subprocess.Popen([sys.executable, __file__, "--serve", directory, "--port", str(port)])
    try:
        wait_for(port)
        yield port
    finally:
        served.terminate()
        served.wait()


class Sum(KeyedProcessFunction):
    """Adds up the values of a key, where others may look."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("sum", Types.LONG())
        descriptor.set_queryable("sums")
        self.total = runtime_context.get_state(descriptor)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        """Add one number."""
        self.total.update((self.total.value() or 0) + value)
        return ()


def fill(directory: str, keys: int) -> None:
    """Make state with that many keys."""
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    env.set_checkpoint_dir(directory)
    numbers = env.from_source(NumberSequenceSource(0, keys - 1))
    numbers.key_by(lambda number: number, key_type=Types.LONG()).process(Sum()).uid("sums").sink_to(DiscardingSink())
    env.execute("sums")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--serve", metavar="DIRECTORY")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.port)
        return
    with scratch("queryable-http") as directory:
        fill(str(directory), args.keys)
        with server(str(directory)) as port:
            # The first look-up makes the index.
            QueryableStateClient(f"http://127.0.0.1:{port}", job=JOB).get("sums", 0)
            load = ["--port", str(port), "--path", PATH, "--keys", str(args.keys), "--seconds", str(args.seconds)]
            subprocess.run([sys.executable, str(LOAD), *load], check=True)


if __name__ == "__main__":
    main()
