"""Keyed running sum in Flintstream: the program of rivals/keyed_pyflink.py with other imports.

`--state off` keeps no checkpoint directory (state still crosses epochs, in a directory that ends with the job).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import (
    KeyedProcessFunction,
    NumberSequenceSource,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flintstream.connectors.discard import DiscardingSink


class RunningSum(KeyedProcessFunction):
    """Adds up the values of a key and returns the sum after each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        total = (self.total.value() or 0) + value
        self.total.update(total)
        yield total


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=100_000)
    parser.add_argument("--checkpoint", choices=("on", "off"), default="on", help="durable checkpoints each epoch")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    keys = args.keys
    samples: list[tuple[float, int]] = []

    def sample(manifest, reports, seconds) -> None:
        samples.append((time.monotonic(), max(c.get("in", 0) for c in manifest.counters.values())))

    with scratch("keyed-flintstream") as directory:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
        env.set_parallelism(args.parallelism)
        if args.checkpoint == "on":
            env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        numbers = env.from_source(
            NumberSequenceSource(0, args.events - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        keyed = numbers.key_by(lambda number: number * KEY_MULTIPLIER % keys, key_type=Types.LONG())
        keyed.process(RunningSum(), output_type=Types.LONG()).sink_to(DiscardingSink())
        env.execute("running sum")
    count, seconds = steady(samples, args.warmup * args.events)
    emit("flintstream keyed process function", count, seconds, vars(args))


if __name__ == "__main__":
    main()
