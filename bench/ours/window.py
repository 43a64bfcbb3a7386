"""Event-time windows, sum and count per key, in Flintstream: on columns from end to end.

The records are those of the rivals: event i has key i * KEY_MULTIPLIER % keys, value i, and event time advances by one
second in `--event-rate` events, in order. With `--bursts` each half of the keys is silent for 10 s in turn, so that
sessions end; the number of keys and of events is the same.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import (
    Split,
    SplitSource,
    StreamExecutionEnvironment,
    count,
    monotonous,
    session,
    sliding,
    sum_of,
    tumbling,
)
from flintstream.connectors.discard import DiscardingSink

SHAPES = {"tumbling": tumbling("10s"), "sliding": sliding("1min", "1s"), "session": session("5s")}
BURST_MS = 10_000


class Events(SplitSource):
    """The rivals' records, each split every n-th of them."""

    is_bounded = True

    def __init__(self, events: int, keys: int, event_rate: int, bursts: bool) -> None:
        self.events, self.keys, self.event_rate, self.bursts, self.stride = events, keys, event_rate, bursts, 1

    def splits(self, parallelism: int) -> list[Split]:
        self.stride = parallelism
        return [Split(number, 0, self.events // parallelism) for number in range(parallelism)]

    def read(self, split: int, start: int, end: int) -> pa.Array:
        number = np.arange(start, end, dtype=np.int64) * self.stride + split
        key, time = number * KEY_MULTIPLIER % self.keys, number * 1000 // self.event_rate
        if self.bursts:
            key = key // 2 * 2 + time // BURST_MS % 2
        return pa.StructArray.from_arrays([pa.array(key), pa.array(number), pa.array(time)], ["key", "value", "time"])


def main() -> None:
    parser = argument_parser(__doc__, events=200_000_000, keys=1_000)
    parser.add_argument("--event-rate", type=int, default=1_000_000, help="events in a second of event time")
    parser.add_argument("--runtime", default="spark")
    parser.add_argument("--shape", default="tumbling", choices=SHAPES)
    parser.add_argument("--bursts", action="store_true", help="let keys be silent now and then")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []

    def sample(manifest, reports, seconds) -> None:
        samples.append((time.monotonic(), max(c.get("in", 0) for c in manifest.counters.values())))

    with scratch("window-flintstream") as directory:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        events = env.from_source(Events(args.events, args.keys, args.event_rate, args.bursts), monotonous(on="time"))
        windows = events.key_by("key").window(SHAPES[args.shape]).agg(total=sum_of("value"), records=count())
        windows.sink_to(DiscardingSink())
        env.execute("windows")
    number, seconds = steady(samples, args.warmup * args.events)
    emit(f"flintstream {args.shape} window", number, seconds, vars(args))


if __name__ == "__main__":
    main()
