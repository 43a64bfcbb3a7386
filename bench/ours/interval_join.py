"""Interval join of two streams in Flintstream: each left record meets the right ones of its key up to 3 s later.

Record i of either stream has key i * KEY_MULTIPLIER % keys, and event time advances by one second in `--event-rate`
records of both streams together, in order. So with 100,000 keys and as many records in a second of event time each
record meets two. `--function` hands every pair to a Python function instead of leaving pairs as columns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import Split, SplitSource, StreamExecutionEnvironment, monotonous
from flintstream.connectors.discard import DiscardingSink


class Events(SplitSource):
    """One of the two streams, each split every n-th of its records."""

    is_bounded = True

    def __init__(self, events: int, keys: int, event_rate: int) -> None:
        self.events, self.keys, self.event_rate, self.stride = events, keys, event_rate, 1

    def splits(self, parallelism: int) -> list[Split]:
        self.stride = parallelism
        return [Split(number, 0, self.events // parallelism) for number in range(parallelism)]

    def read(self, split: int, start: int, end: int) -> pa.Array:
        number = np.arange(start, end, dtype=np.int64) * self.stride + split
        key, at = number * KEY_MULTIPLIER % self.keys, number * 1000 // self.event_rate
        columns = {"key": key, "value": number, "time": at}
        return pa.StructArray.from_arrays([pa.array(each) for each in columns.values()], list(columns))


def difference(left: Any, right: Any) -> int:
    """Return how far apart the values of two records are."""
    return right["value"] - left["value"]


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=100_000)
    parser.add_argument("--event-rate", type=int, default=100_000, help="records in a second of event time")
    parser.add_argument("--how", default="inner", choices=("inner", "left", "right", "full"))
    parser.add_argument("--function", action="store_true", help="give pairs to a Python function")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []
    pairs = 0

    def sample(manifest, reports, seconds) -> None:
        nonlocal pairs
        counts = manifest.counters.get("join", {})
        samples.append((time.monotonic(), counts.get("in", 0)))
        pairs = counts.get("out", 0)

    with scratch("interval-join-flintstream") as directory:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        sides = [
            env.from_source(Events(args.events // 2, args.keys, args.event_rate // 2), monotonous(on="time"))
            for _ in range(2)
        ]
        left, right = (side.key_by("key") for side in sides)
        joined = left.interval_join(right, how=args.how).between(0, "3s")
        joined.process(difference if args.function else None).uid("join").sink_to(DiscardingSink())
        env.execute("interval join")
    number, seconds = steady(samples, args.warmup * args.events)
    emit("flintstream interval join", number, seconds, {**vars(args), "epochs": len(samples), "pairs": pairs})


if __name__ == "__main__":
    main()
