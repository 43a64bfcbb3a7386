"""Tumbling 10 s event-time window, sum and count per key, in Flintstream: on columns from end to end.

The records are those of the rivals: event i has key i * KEY_MULTIPLIER % keys, value i, and event time advances by one
second in `--event-rate` events, in order.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import Split, SplitSource, StreamExecutionEnvironment, count, monotonous, sum_of, tumbling
from flintstream.connectors.discard import DiscardingSink


class Events(SplitSource):
    """The rivals' records, each split every n-th of them."""

    is_bounded = True

    def __init__(self, events: int, keys: int, event_rate: int) -> None:
        self.events, self.keys, self.event_rate, self.stride = events, keys, event_rate, 1

    def splits(self, parallelism: int) -> list[Split]:
        self.stride = parallelism
        return [Split(number, 0, self.events // parallelism) for number in range(parallelism)]

    def read(self, split: int, start: int, end: int) -> pa.Array:
        number = np.arange(start, end, dtype=np.int64) * self.stride + split
        columns = [
            pa.array(number * KEY_MULTIPLIER % self.keys),
            pa.array(number),
            pa.array(number * 1000 // self.event_rate),
        ]
        return pa.StructArray.from_arrays(columns, ["key", "value", "time"])


def main() -> None:
    parser = argument_parser(__doc__, events=200_000_000, keys=1_000)
    parser.add_argument("--event-rate", type=int, default=1_000_000, help="events in a second of event time")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []

    def sample(manifest, reports, seconds) -> None:
        samples.append((time.monotonic(), max(c.get("in", 0) for c in manifest.counters.values())))

    with scratch("window-flintstream") as directory:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        events = env.from_source(Events(args.events, args.keys, args.event_rate), monotonous(on="time"))
        windows = events.key_by("key").window(tumbling("10s")).agg(total=sum_of("value"), records=count())
        windows.sink_to(DiscardingSink())
        env.execute("windows")
    number, seconds = steady(samples, args.warmup * args.events)
    emit("flintstream window", number, seconds, vars(args))


if __name__ == "__main__":
    main()
