"""What durable checkpoints cost: the same program with the same epochs, by where its state is kept.

`--state durable` keeps it in a checkpoint directory: every file, folder and manifest is on the disk before an epoch
counts. `temporary` is a job without a checkpoint directory: state crosses epochs in a directory that ends with the job,
and nothing waits for the disk. `memory` is the same with that directory in memory, so that no disk is there at all.
Epochs have a fixed number of records, about a second's, so that all checkpoint equally often.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from cpu import cpu_per_million, cpu_seconds
from keyed import RunningSum
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady
from window import SHAPES, Events

from flintstream import (
    Configuration,
    DataStream,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
    count,
    monotonous,
    sum_of,
)
from flintstream.connectors.discard import DiscardingSink

IN_MEMORY = "/dev/shm"


def keyed(env: StreamExecutionEnvironment, events: int, keys: int) -> DataStream:
    """A running sum per key: all keys change in every epoch, so a checkpoint is as large as it gets."""
    source = NumberSequenceSource(0, events - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    by_key = numbers.key_by(lambda number: number * KEY_MULTIPLIER % keys, key_type=Types.LONG())
    return by_key.process(RunningSum(), output_type=Types.LONG())


def window(env: StreamExecutionEnvironment, events: int, keys: int) -> DataStream:
    """Sum and count per key in windows of 10 s, on columns."""
    records = env.from_source(Events(events, keys, 1_000_000, False), monotonous(on="time"))
    return records.key_by("key").window(SHAPES["tumbling"]).agg(total=sum_of("value"), records=count())


PROGRAMS = {"keyed": keyed, "window": window}


def main() -> None:
    parser = argument_parser(__doc__, events=30_000_000, keys=100_000)
    parser.add_argument("--program", choices=tuple(PROGRAMS), default="keyed")
    parser.add_argument("--state", choices=("durable", "temporary", "memory"), default="durable")
    parser.add_argument("--epoch-records", type=int, default=1_000_000, help="records of an epoch")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    if args.state == "memory":
        os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY
    samples: list[tuple[float, int]] = []
    used: list[tuple[int, float]] = []

    def sample(manifest: Any, reports: Any, seconds: float) -> None:
        done = max(c.get("in", 0) for c in manifest.counters.values())
        samples.append((time.monotonic(), done))
        used.append((done, cpu_seconds()))

    with scratch("checkpointing") as directory:
        settings = Configuration().set_integer("flintstream.epoch.max-records", args.epoch_records)
        env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=args.runtime)
        env.set_parallelism(args.parallelism).add_listener(sample)
        if args.state == "durable":
            env.set_checkpoint_dir(str(directory))
        PROGRAMS[args.program](env, args.events, args.keys).sink_to(DiscardingSink())
        env.execute("checkpointing")
    number, seconds = steady(samples, args.warmup * args.events)
    more = {
        "seconds_per_epoch": round(seconds / max(1, number // args.epoch_records), 3),
        "cpu_seconds_per_million": cpu_per_million(used, args.warmup * args.events),
    }
    emit(f"flintstream {args.program}, state {args.state}", number, seconds, vars(args), **more)


if __name__ == "__main__":
    main()
