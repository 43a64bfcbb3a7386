"""A million keys that others ask for while the job runs: how much the job slows down.

`--ask nobody` is the job alone. `--ask state`: 1,000 look-ups a second, one request each, at the server that reads the
job's checkpoint directory. `--ask redis`: the same sums go to a real Redis, each epoch of a second, and the look-ups to
the small front before it. Server, Redis and whoever asks run on the same cores as the job.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from queryable_http import JOB, LOAD, PATH, Sum, server
from redis_front import front, redis_server
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import (
    DiscardingSink,
    NumberSequenceSource,
    QueryableStateClient,
    StreamExecutionEnvironment,
    Types,
)
from flintstream.errors import FlintstreamError
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext


class Flush(Sink):
    """Writes the newest sum of each key to Redis, once an epoch: as little as a flush can write."""

    delivery = "at-least-once"

    def __init__(self, port: int) -> None:
        self._port = port

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Return what keeps the newest sums until the epoch ends."""
        return _Newest(self._port)

    def create_committer(self) -> Committer:
        """Return what has nothing to do."""
        return _Nothing()


class _Newest(SinkWriter):
    def __init__(self, port: int) -> None:
        self._client = redis.Redis(port=port)
        self._sums: dict[int, int] = {}

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        self._sums.update(values)

    def prepare_commit(self) -> Any:
        pairs = list(self._sums.items())
        for start in range(0, len(pairs), 10_000):
            self._client.mset({str(key): total for key, total in pairs[start : start + 10_000]})
        self._sums.clear()


class _Nothing(Committer):
    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """There is nothing to make visible."""


class SumAndTell(Sum):
    """Emits every new sum with its key, for the database that is to know it."""

    def process_element(self, value: int, ctx: Any) -> Any:
        """Add one number."""
        super().process_element(value, ctx)
        yield ctx.get_current_key(), self.total.value()


def ask(port: int, path: str, keys: int, seconds: float, rate: float) -> subprocess.Popen[str]:
    """Start to ask for random keys."""
    command = [sys.executable, str(LOAD), "--port", str(port), "--path", path, "--keys", str(keys)]
    command += ["--rate", str(rate), "--seconds", str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def first_epoch(port: int) -> None:
    """Return when something is committed, and its index is made."""
    client = QueryableStateClient(f"http://127.0.0.1:{port}", job=JOB)
    while True:
        try:
            client.get("sums", 0)
        except FlintstreamError:
            time.sleep(0.2)
        else:
            return


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=1_000_000)
    parser.add_argument("--ask", choices=("nobody", "state", "redis"), default="nobody")
    parser.add_argument("--rate", type=float, default=1_000.0, help="look-ups a second")
    parser.add_argument("--asking", type=float, default=600.0, help="seconds to go on asking at most")
    args = parser.parse_args()
    keys = args.keys
    samples: list[tuple[float, int]] = []

    def sample(manifest: Any, reports: Any, seconds: float) -> None:
        samples.append((time.monotonic(), max(c.get("in", 0) for c in manifest.counters.values())))

    asking: subprocess.Popen[str] | None = None
    with scratch("queryable-flintstream") as directory, ExitStack() as running:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory)).add_listener(sample)
        numbers = env.from_source(NumberSequenceSource(0, args.events - 1))
        keyed = numbers.key_by(lambda number: number * KEY_MULTIPLIER % keys, key_type=Types.LONG())
        if args.ask == "redis":
            redis_port = running.enter_context(redis_server())
            keyed.process(SumAndTell()).uid("sums").sink_to(Flush(redis_port))
        else:
            keyed.process(Sum()).uid("sums").sink_to(DiscardingSink())
        job = env.execute_async("sums")
        if args.ask == "redis":
            port = running.enter_context(front(redis_port))
            asking = ask(port, "/", keys, args.asking, args.rate)
        elif args.ask == "state":
            port = running.enter_context(server(str(directory)))
            first_epoch(port)
            asking = ask(port, PATH, keys, args.asking, args.rate)
        job.get_job_execution_result().result()
        answered = stop(asking) if asking is not None else {}
    count, seconds = steady(samples, args.warmup * args.events)
    emit(f"flintstream, asked by {args.ask}", count, seconds, vars(args), lookups=answered, epochs=len(samples))


def stop(asking: subprocess.Popen[str]) -> dict[str, Any]:
    """End the questions and return how they were answered."""
    asking.terminate()
    out, _ = asking.communicate()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return {key: json.loads(lines[-1])[key] for key in ("events_per_second", "latency", "missing")} if lines else {}


if __name__ == "__main__":
    main()
