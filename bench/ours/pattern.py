"""A pattern of three steps within 10 s of event time, per key, in Flintstream; or the same written by hand.

Event i has key i * KEY_MULTIPLIER % keys, and event time advances by one second in `--event-rate` events, in order. One
event in ten can begin a match, one can continue it, one can complete it, the others are noise. `--by columns` has its
conditions as pyarrow expressions instead of Python functions. `--by hand` is what a user writes without patterns: a
keyed process function with a list of open attempts as its state and a timer for each; it expects events in order.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    Split,
    SplitSource,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    monotonous,
)
from flintstream.cep import CEP, Pattern
from flintstream.connectors.discard import DiscardingSink

WITHIN_MS = 10_000
KINDS = 10
FIRST, SECOND, THIRD = range(3)


class Events(SplitSource):
    """The records, each split every n-th of them."""

    is_bounded = True

    def __init__(self, events: int, keys: int, event_rate: int) -> None:
        self.events, self.keys, self.event_rate, self.stride = events, keys, event_rate, 1

    def splits(self, parallelism: int) -> list[Split]:
        self.stride = parallelism
        return [Split(number, 0, self.events // parallelism) for number in range(parallelism)]

    def read(self, split: int, start: int, end: int) -> pa.Array:
        number = np.arange(start, end, dtype=np.int64) * self.stride + split
        key, at = number * KEY_MULTIPLIER % self.keys, number * 1000 // self.event_rate
        kind = (mixed(number) % np.uint64(KINDS)).astype(np.int64)
        columns = {"key": key, "kind": kind, "number": number, "time": at}
        return pa.StructArray.from_arrays([pa.array(each) for each in columns.values()], list(columns))


def mixed(number: np.ndarray) -> np.ndarray:
    """Return numbers that say nothing about each other: a key's events come by even steps, their kinds must not."""
    bits = number.astype(np.uint64)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def by_pattern(events: DataStream, is_kind: Callable[[int], Any]) -> DataStream:
    """Return the matches, found by a pattern with these conditions."""
    pattern = (
        Pattern.begin("first").where(is_kind(FIRST))
        .followed_by("second").where(is_kind(SECOND))
        .followed_by("third").where(is_kind(THIRD))
        .within("10s")
    )  # fmt: skip
    matches = CEP.pattern(events.key_by("key"), pattern)
    return matches.select(lambda match: (match["first"][0]["number"], match["third"][0]["number"]), NUMBERS)


def in_python(kind: int) -> Callable[[Any], bool]:
    """Return the condition that an event is of a kind, as a function."""
    return lambda event: event["kind"] == kind


def in_columns(kind: int) -> pc.Expression:
    """Return the condition that an event is of a kind, as an expression."""
    return pc.field("kind") == kind


NUMBERS = Types.TUPLE([Types.LONG(), Types.LONG()])


class ByHand(KeyedProcessFunction):
    """The same by state and timers: attempts are [time, number, whether the second event came]."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.attempts = runtime_context.get_state(ValueStateDescriptor("attempts"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        kind, at = value["kind"], value["time"]
        attempts = self.attempts.value() or []
        if kind == FIRST:
            self.attempts.update([*attempts, (at, value["number"], False)])
            ctx.timer_service().register_event_time_timer(at + WITHIN_MS)
        elif kind == SECOND and attempts:
            self.attempts.update([(begun, number, True) for begun, number, _ in attempts])
        elif kind == THIRD and attempts:
            for begun, number, seen in attempts:
                if seen and at - begun < WITHIN_MS:
                    yield number, value["number"]
            left = [attempt for attempt in attempts if not attempt[2]]
            self.attempts.update(left) if left else self.attempts.clear()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        attempts = self.attempts.value() or []
        left = [attempt for attempt in attempts if attempt[0] + WITHIN_MS > timestamp]
        self.attempts.update(left) if left else self.attempts.clear()


def by_hand(events: DataStream) -> DataStream:
    """Return the matches, found by a process function."""
    return events.key_by("key").process(ByHand(), NUMBERS)


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=100_000)
    parser.add_argument("--event-rate", type=int, default=100_000, help="events in a second of event time")
    parser.add_argument("--runtime", default="spark")
    parser.add_argument("--by", default="pattern", choices=("pattern", "columns", "hand"))
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []

    def sample(manifest, reports, seconds) -> None:
        samples.append((time.monotonic(), max(c.get("in", 0) for c in manifest.counters.values())))

    with scratch("pattern-flintstream") as directory:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        events = env.from_source(Events(args.events, args.keys, args.event_rate), monotonous(on="time"))
        if args.by == "hand":
            found = by_hand(events)
        else:
            found = by_pattern(events, in_columns if args.by == "columns" else in_python)
        found.sink_to(DiscardingSink())
        env.execute("three steps")
    number, seconds = steady(samples, args.warmup * args.events)
    emit(f"flintstream pattern by {args.by}", number, seconds, vars(args))


if __name__ == "__main__":
    main()
