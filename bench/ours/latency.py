"""Latency of Flintstream: from a record's receipt to its visible result, beside rivals/latency_stock_spark.py.

The same records arrive in the same way; a keyed function sums and counts per key and gives a result for every record; a
result is visible when the epoch's commit has handed it to the driver.
"""

from __future__ import annotations

import sys
import threading
import time
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
import stock
from arrivals import Arrivals
from report import emit, scratch, spread

from flintstream import (
    CollectSink,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class SumAndCount(KeyedProcessFunction):
    """Sums and counts per key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held"))

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        """Add one record."""
        key, number, received = value[0], value[1], value[2]
        total, count = self.held.value() or (0, 0)
        self.held.update((total + number, count + 1))
        yield key, total + number, count + 1, received


def main() -> None:
    parser = stock.spark_parser(__doc__, events=60_000, keys=1_000)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    args = parser.parse_args()
    spark = stock.session(stock.tuned(args, stock.IN_MEMORY))
    seen: list[tuple[float, array[float]]] = []
    done = threading.Event()

    with Arrivals(args.rate, args.events) as arrivals, scratch("latency-flintstream") as directory:
        wanted = args.events // arrivals.per_line * arrivals.per_line
        total = 0

        def visible(epoch: int, rows: list) -> None:
            nonlocal total
            # Not a list: Python would go through millions of numbers when it looks for garbage.
            seen.append((time.time(), array("d", [row[3] for row in rows])))
            total += len(rows)
            if total >= wanted:
                done.set()

        env = StreamExecutionEnvironment.get_execution_environment(spark=spark)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        records = env.from_dataframe(arrivals.records(spark, args.keys))
        records.key_by("key").process(SumAndCount()).sink_to(CollectSink(visible))
        job = env.execute_async("latency")
        ended = job.get_job_execution_result()
        while not done.wait(0.2):
            if ended.done():
                ended.result()
        job.cancel().result()
        warm = arrivals.sent[int(args.warmup * len(arrivals.sent))]
    latencies = [moment - received for moment, rows in seen for received in rows if received >= warm]
    spent = seen[-1][0] - warm
    emit(
        "flintstream latency",
        len(latencies),
        spent,
        {"rate": args.rate, "epochs": len(seen)},
        latency=spread(latencies),
    )


if __name__ == "__main__":
    main()
