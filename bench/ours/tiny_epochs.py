"""Epoch time on tiny input: the stream of rivals/bare_microbatch.py through a keyed function, checkpointed each epoch.

`--source stream` reads it from Spark inside foreachBatch, as the rival does; `--source ranges` reads our own numbers.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
import stock
from keyed import RunningSum
from report import emit, scratch, spread

from flintstream import Configuration, NumberSequenceSource, StreamExecutionEnvironment
from flintstream.connectors.discard import DiscardingSink


def main() -> None:
    parser = stock.spark_parser(__doc__, events=10, keys=10)
    parser.set_defaults(warmup=20)
    parser.add_argument("--batches", type=int, default=100, help="epochs measured, after --warmup many")
    parser.add_argument("--source", choices=("stream", "ranges"), default="stream")
    args = parser.parse_args()
    wanted = int(args.warmup) + args.batches + 1
    moments: list[float] = []
    enough = threading.Event()

    def sample(manifest, reports, seconds) -> None:
        moments.append(time.perf_counter())
        if len(moments) >= wanted:
            enough.set()

    with scratch("tiny-epochs") as directory:
        if args.source == "stream":
            spark = stock.session(stock.tuned(args, stock.IN_MEMORY))
            env = StreamExecutionEnvironment.get_execution_environment(spark=spark)
            rows = env.from_dataframe(stock.events(spark, args.keys, args.parallelism, args.events))
            keyed = rows.key_by("key").process(ValueSum())
        else:
            settings = Configuration().set_integer("flintstream.epoch.max-records", args.events)
            env = StreamExecutionEnvironment.get_execution_environment(settings)
            numbers = env.from_source(NumberSequenceSource(0, 10**9))
            keyed = numbers.key_by(lambda number: number % 10).process(RunningSum())
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory / "job"))
        env.add_listener(sample)
        keyed.sink_to(DiscardingSink())
        job = env.execute_async("tiny epochs")
        enough.wait(1200)
        job.cancel().result()
    measured = moments[int(args.warmup) : wanted]
    times = [after - before for before, after in itertools.pairwise(measured)]
    settings = {"source": args.source, "parallelism": args.parallelism}
    emit(
        "flintstream tiny epochs", args.events * len(times), sum(times), settings, seconds_per_micro_batch=spread(times)
    )


class ValueSum(RunningSum):
    """The running sum of a row's field."""

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        """Add one row."""
        return super().process_element(value[1], ctx)


if __name__ == "__main__":
    main()
