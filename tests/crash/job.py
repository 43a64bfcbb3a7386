"""The job that the crash tests kill: it counts generated events into two exactly-once file sinks.

Running counts by key (Python state, an output for every record, one timer per key) go to Parquet files; counts by group
in event-time windows (vectorised state) to JSON lines. Every number that comes out is known beforehand, so a record
lost, doubled, or counted on top of a lost state shows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from flintstream import (
    Configuration,
    FileSink,
    FileSource,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    bounded,
    count,
    integers,
    sum_of,
    timestamps,
    tumbling,
)

KEYS = 20_000
GROUPS = 50
SPLITS = 4
PARALLELISM = 2
SEED = 11
WINDOW_MS = 10_000
FIELDS = {
    "key": integers(0, KEYS),
    "group": integers(0, GROUPS),
    "value": integers(1, 1_000),
    "ts": timestamps(0, step_ms=1, jitter_ms=500),
}
END_OF_TIME = 10**12
"""Event time that only the end of the input reaches."""


class RunningCount(KeyedProcessFunction):
    """Emits (key, count so far, sum so far) for every record, and (key, -count, sum) when the input has ended."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", pair))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int, int]]:
        seen = self._seen.value()
        if seen is None:
            ctx.timer_service().register_event_time_timer(END_OF_TIME)
            seen = (0, 0)
        seen = (seen[0] + 1, seen[1] + value["value"])
        self._seen.update(seen)
        yield (ctx.get_current_key(), *seen)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[int, int, int]]:
        seen = self._seen.value()
        self._seen.clear()
        yield (ctx.get_current_key(), -seen[0], seen[1])


def declare(env: StreamExecutionEnvironment, events: int, output: str, files: str | None = None) -> None:
    timed = bounded("1s", on="ts")
    if files is None:
        stream = env.generate(FIELDS, count=events, seed=SEED, splits=SPLITS, watermark=timed)
    else:
        stream = env.from_source(FileSource.parquet(files, files_per_epoch=1), timed)
    counts = stream.key_by("key").process(RunningCount()).uid("running")
    counts.sink_to(FileSink.parquet(f"{output}/running")).uid("running-files")
    windows = stream.key_by("group").window(tumbling(f"{WINDOW_MS}ms")).agg(n=count(), total=sum_of("value"))
    windows.sink_to(FileSink.json(f"{output}/windows")).uid("window-files")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--files", help="read the events from here instead of making them")
    parser.add_argument("--runtime", default="spark")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    configuration = Configuration()
    for setting in args.set:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime=args.runtime)
    env.set_parallelism(PARALLELISM).set_checkpoint_dir(args.checkpoints)
    declare(env, args.events, args.output, args.files)
    env.execute("crash test")


if __name__ == "__main__":
    main()
