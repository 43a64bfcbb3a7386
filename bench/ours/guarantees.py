"""What a guarantee costs: the same program with `--guarantee exactly-once | at-least-once | at-most-once` for its sink.

Running sums per key into files of JSON lines; only the guarantee of the job differs. State is exactly once in each.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from checkpointing import keyed
from cpu import cpu_per_million, cpu_seconds
from report import argument_parser, emit, scratch, steady

from flintstream import Configuration, FileSink, StreamExecutionEnvironment

GUARANTEES = ("exactly-once", "at-least-once", "at-most-once")


def main() -> None:
    parser = argument_parser(__doc__, events=6_000_000, keys=1_000)
    parser.add_argument("--guarantee", choices=GUARANTEES, default="exactly-once")
    parser.add_argument("--epoch-records", type=int, default=200_000, help="records of an epoch")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []
    used: list[tuple[int, float]] = []

    def sample(manifest: Any, reports: Any, seconds: float) -> None:
        done = max(c.get("in", 0) for c in manifest.counters.values())
        samples.append((time.monotonic(), done))
        used.append((done, cpu_seconds()))

    with scratch("guarantees") as directory:
        settings = Configuration().set_integer("flintstream.epoch.max-records", args.epoch_records)
        env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=args.runtime)
        env.set_parallelism(args.parallelism).add_listener(sample).set_checkpoint_dir(str(directory / "checkpoints"))
        env.set_guarantee(args.guarantee)
        keyed(env, args.events, args.keys).sink_to(FileSink.json(str(directory / "out")))
        env.execute("guarantees")
    number, seconds = steady(samples, args.warmup * args.events)
    more = {"cpu_seconds_per_million": cpu_per_million(used, args.warmup * args.events)}
    emit(f"flintstream files, {args.guarantee}", number, seconds, vars(args), **more)


if __name__ == "__main__":
    main()
