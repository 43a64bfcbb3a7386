"""Interval join of two streams in PyFlink, whose DataStreams have none: a KeyedCoProcessFunction with state and timers.

What a PyFlink user writes after Flink's own operator: the records of each side in state, and a timer that removes them
when event time comes to the end of their interval. A key has few records at a time, so a value state with a list is
faster than the map states of Flink's operator (tried). Source and sink are Java; the functions are Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flink
from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from report import KEY_MULTIPLIER, argument_parser, emit, scratch

UPPER_MS = 3000


class IntervalJoin(KeyedCoProcessFunction):
    """Keeps the few records that a key has on each side as one list of (time, value)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.PICKLED_BYTE_ARRAY()))
        self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, value: int, ctx: Any) -> Iterator[int]:
        time = ctx.timestamp()
        self.left.update([*(self.left.value() or []), (time, value)])
        ctx.timer_service().register_event_time_timer(time + UPPER_MS)
        for other_time, other in self.right.value() or []:
            if time <= other_time <= time + UPPER_MS:
                yield other - value

    def process_element2(self, value: int, ctx: Any) -> Iterator[int]:
        time = ctx.timestamp()
        self.right.update([*(self.right.value() or []), (time, value)])
        ctx.timer_service().register_event_time_timer(time)
        for other_time, other in self.left.value() or []:
            if time - UPPER_MS <= other_time <= time:
                yield value - other

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        for state, until in ((self.left, timestamp - UPPER_MS), (self.right, timestamp)):
            held = state.value() or []
            rest = [entry for entry in held if entry[0] > until]
            if len(rest) < len(held):
                state.update(rest) if rest else state.clear()


class AtRate(TimestampAssigner):
    """Event time advances by one second in so many records of a stream."""

    def __init__(self, rate: int) -> None:
        self.rate = rate

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 1000 // self.rate


def side(env: StreamExecutionEnvironment, args: Any) -> DataStream:
    """One of the two streams."""
    source = NumberSequenceSource(0, args.events // 2 - 1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    return numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(AtRate(args.event_rate // 2)))


def main() -> None:
    parser = argument_parser(__doc__, events=1_000_000, keys=100_000)
    parser.add_argument("--mode", choices=("thread", "process"), default="thread", help="where Python runs")
    parser.add_argument("--state", choices=("hashmap", "rocksdb"), default="hashmap", help="state backend")
    parser.add_argument("--event-rate", type=int, default=100_000, help="records in a second of event time")
    args = parser.parse_args()
    keys = args.keys
    with scratch("interval-join-pyflink") as directory:
        settings = flink.tuned(args.parallelism, args.state, directory)
        settings["python.execution-mode"] = args.mode
        env = StreamExecutionEnvironment.get_execution_environment(flink.configuration(settings))
        discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        by_key = [
            side(env, args).key_by(lambda number: number * KEY_MULTIPLIER % keys, key_type=Types.LONG())
            for _ in range(2)
        ]
        joined = by_key[0].connect(by_key[1]).process(IntervalJoin(), output_type=Types.LONG())
        joined.sink_to(Sink(discard))
        job = env.execute_async("interval join")
        # Each record meets two, so that there are as many pairs as records.
        count, seconds, seen = flink.run(job, settings, "Keyed_Co-Process", args.warmup * args.events)
    emit(f"pyflink {args.mode} mode", count, seconds, {**vars(args), **seen, "flink": settings})


if __name__ == "__main__":
    main()
