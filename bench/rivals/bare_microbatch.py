"""The floor of a micro-batch: tiny input, one shuffle, two identity Python stages, and nothing else.

What any design of two Python stages on Structured Streaming pays: the offset and commit logs, planning, two stages of
tasks, two trips through Python workers, one `foreachBatch`. Micro-batches run back to back. Time of one: from a call of
`foreachBatch` to the next call, so that all of it is in it. Start-up is in the warm-up batches, which are left out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pyarrow as pa
import stock
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from report import emit, scratch, spread

SCHEMA = "part int, key bigint, value bigint"


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A Python stage that only looks at its input."""
    yield from batches


def main() -> None:
    parser = stock.spark_parser(__doc__, events=10, keys=10, warmup=False)
    parser.add_argument("--batches", type=int, default=100, help="micro-batches measured; each has --events events")
    parser.add_argument("--warmup-batches", type=int, default=20, help="micro-batches before these")
    args = parser.parse_args()
    settings = stock.tuned(args, stock.IN_MEMORY)
    # Adaptive execution plans a stage at a time, which costs more than tiny stages gain by it.
    settings["spark.sql.adaptive.enabled"] = "false"
    spark = stock.session(settings)
    rows = stock.events(spark, args.keys, args.parallelism, args.events)
    rows = rows.select((F.col("key") % args.parallelism).cast("int").alias("part"), "key", "value")
    calls: list[float] = []
    wanted = args.warmup_batches + args.batches + 1

    def run_batch(batch: DataFrame, _: int) -> None:
        calls.append(time.perf_counter())
        if len(calls) >= wanted:
            return
        exchanged = batch.mapInArrow(identity, SCHEMA).repartitionById(args.parallelism, "part")
        seen = len(exchanged.mapInArrow(identity, SCHEMA).collect())
        assert seen == args.events, seen

    with scratch("bare-microbatch") as directory:
        writer = rows.writeStream.foreachBatch(run_batch)
        query = writer.option("checkpointLocation", stock.checkpoint(directory)).start()
        while len(calls) < wanted:
            if not query.isActive:
                raise SystemExit(f"the query ended early; {query.exception()}")
            time.sleep(0.1)
        query.stop()
        spark.stop()
    measured = calls[args.warmup_batches : wanted]
    times = [after - before for before, after in itertools.pairwise(measured)]
    emit(
        "bare micro-batch",
        args.events * args.batches,
        measured[-1] - measured[0],
        {**vars(args), "spark": settings},
        seconds_per_micro_batch=spread(times),
    )


if __name__ == "__main__":
    main()
