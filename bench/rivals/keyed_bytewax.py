"""Keyed running sum in Bytewax: `stateful_map`, one output per record.

As many workers as the parallelism: processes (no shared interpreter lock, records cross by TCP) or, with
`--workers threads`, threads of one process. Recovery on means SQLite partitions, one for each worker, and a snapshot
every second.

Steady state: every worker's sink notes the time and size of each batch that it drops; all notes together give the curve
of records put out, measured from the end of the warm-up to the last batch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

Record = tuple[str, int]
SNAPSHOT_INTERVAL = timedelta(seconds=1)


class Numbers(StatefulSourcePartition[Record, int]):
    """One worker's share of the events, in batches; its state is the next event."""

    def __init__(self, start: int, stop: int, keys: int, batch: int) -> None:
        self.next, self.stop, self.keys, self.batch = start, stop, keys, batch

    def next_batch(self) -> Iterable[Record]:
        if self.next >= self.stop:
            raise StopIteration
        first, self.next = self.next, min(self.next + self.batch, self.stop)
        keys = self.keys
        return [(str(number * KEY_MULTIPLIER % keys), number) for number in range(first, self.next)]

    def snapshot(self) -> int:
        return self.next


class NumberSource(FixedPartitionedSource[Record, int]):
    """All events, cut into one share for each worker."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(self.args.parallelism)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Numbers:
        args, part = self.args, int(for_part)
        start, stop = (args.events * share // args.parallelism for share in (part, part + 1))
        return Numbers(start if resume_state is None else resume_state, stop, args.keys, args.batch)


class Nowhere(StatelessSinkPartition[Any]):
    """Drops its input, but remembers when it came and how much it was."""

    def __init__(self, notes: Path) -> None:
        self.notes, self.samples = notes, list[tuple[float, int]]()

    def write_batch(self, items: list[Any]) -> None:
        # The monotonic clock is the same for all processes of a machine.
        self.samples.append((time.monotonic(), len(items)))

    def close(self) -> None:
        self.notes.write_text(json.dumps(self.samples))


class NowhereSink(DynamicSink[Any]):
    """One `Nowhere` for each worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Nowhere:
        return Nowhere(self.directory / f"notes-{worker_index}.json")


def running_sum(total: int | None, value: int) -> tuple[int, int]:
    """The new state of a key and its output, which are the same."""
    total = value if total is None else total + value
    return total, total


def work(args: argparse.Namespace, directory: Path) -> None:
    """Be one process of the cluster until the input ends."""
    flow = Dataflow("running_sum")
    records = op.input("numbers", flow, NumberSource(args))
    op.output("nowhere", op.stateful_map("sum", records, running_sum), NowhereSink(directory))
    recovery = RecoveryConfig(str(directory / "recovery")) if args.recovery == "on" else None
    cli_main(
        flow,
        workers_per_process=args.parallelism if args.workers == "threads" else 1,
        process_id=args.process,
        addresses=args.addresses,
        epoch_interval=SNAPSHOT_INTERVAL,
        recovery_config=recovery,
    )


def start(args: argparse.Namespace, directory: Path) -> None:
    """Run the cluster: this process for threads, otherwise one process for each worker."""
    if args.recovery == "on":
        (directory / "recovery").mkdir()
        init_db_dir(directory / "recovery", args.parallelism)
    if args.workers == "threads" or args.parallelism == 1:
        work(args, directory)
        return
    probes = [socket.create_server(("localhost", 0)) for _ in range(args.parallelism)]
    addresses = [f"localhost:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    processes: list[subprocess.Popen[bytes]] = []
    for process in range(args.parallelism):
        env = {**os.environ, "RIVAL_PROCESS": json.dumps([process, addresses, str(directory)])}
        processes.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(codes):
        raise SystemExit("a worker failed; see its error above")


def curve(directory: Path) -> list[tuple[float, int]]:
    """(time, records put out until then by all workers), from the sinks' notes."""
    notes = itertools.chain.from_iterable(json.loads(path.read_text()) for path in directory.glob("notes-*.json"))
    times, sizes = zip(*sorted(notes), strict=True)
    return list(zip(times, itertools.accumulate(sizes), strict=True))


def main() -> None:
    parser = argument_parser(__doc__, events=4_000_000, keys=100_000)
    parser.add_argument("--recovery", choices=("on", "off"), default="on", help="snapshots every second")
    parser.add_argument("--workers", choices=("processes", "threads"), default="processes", help="what a worker is")
    parser.add_argument("--batch", type=int, default=1_000, help="records per call of the source")
    args = parser.parse_args()
    settings = {**vars(args), "snapshot_interval": SNAPSHOT_INTERVAL.total_seconds()}
    args.process, args.addresses = None, None
    if "RIVAL_PROCESS" in os.environ:
        args.process, args.addresses, directory = json.loads(os.environ["RIVAL_PROCESS"])
        work(args, Path(directory))
        return
    with scratch("keyed-bytewax") as directory:
        start(args, directory)
        samples = curve(directory)
    if samples[-1][1] != args.events:
        raise SystemExit(f"put out {samples[-1][1]} records for {args.events} events")
    count, seconds = steady(samples, args.warmup * args.events)
    emit(f"bytewax stateful_map, recovery {args.recovery}", count, seconds, settings)


if __name__ == "__main__":
    main()
