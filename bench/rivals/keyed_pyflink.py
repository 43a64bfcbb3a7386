"""Keyed running sum in PyFlink: a KeyedProcessFunction with a value state, one output per record.

The source and the sink are Java; only the key selector and the function are Python. `--mode thread` runs them inside
the JVM, `--mode process` in Python processes beside it, with bundles and a cache of the state as large as the keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import flink
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from report import KEY_MULTIPLIER, argument_parser, emit, scratch


class RunningSum(KeyedProcessFunction):
    """Adds up the values of a key and returns the sum after each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        total = (self.total.value() or 0) + value
        self.total.update(total)
        yield total


def main() -> None:
    parser = argument_parser(__doc__, events=2_000_000, keys=100_000)
    parser.add_argument("--mode", choices=("thread", "process"), default="thread", help="where Python runs")
    parser.add_argument("--state", choices=("hashmap", "rocksdb"), default="hashmap", help="state backend")
    args = parser.parse_args()
    keys = args.keys
    with scratch("keyed-pyflink") as directory:
        settings = flink.tuned(args.parallelism, args.state, directory)
        settings["python.execution-mode"] = args.mode
        if args.mode == "process":
            settings["python.fn-execution.bundle.size"] = "100000"
            settings["python.fn-execution.bundle.time"] = "1000"
            settings["python.state.cache-size"] = str(keys)
        env = StreamExecutionEnvironment.get_execution_environment(flink.configuration(settings))
        discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        source = NumberSequenceSource(0, args.events - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        keyed = numbers.key_by(lambda number: number * KEY_MULTIPLIER % keys, key_type=Types.LONG())
        keyed.process(RunningSum(), output_type=Types.LONG()).sink_to(Sink(discard))
        job = env.execute_async("running sum")
        count, seconds, seen = flink.run(job, settings, "KEYED_PROCESS", args.warmup * args.events)
    emit(f"pyflink {args.mode} mode", count, seconds, {**vars(args), **seen, "flink": settings})


if __name__ == "__main__":
    main()
