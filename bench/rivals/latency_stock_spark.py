"""Latency of stock Structured Streaming: from a record's receipt to the visible result of a native aggregation.

Records arrive at `--rate` a second, evenly; the query sums and counts per key, micro-batches run back to back, and a
result is visible when `foreachBatch` has collected it. Latency of a record: that moment minus its receipt. Which
records were in which micro-batch is read from the offsets in the query's progress. The warm-up's are left out.
"""

from __future__ import annotations

import json
import time

import stock
from arrivals import Arrivals
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from report import emit, scratch, spread


def main() -> None:
    parser = stock.spark_parser(__doc__, events=60_000, keys=1_000)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--state", choices=("memory", "rocksdb"), default="memory", help="state store provider")
    args = parser.parse_args()
    settings = stock.tuned(args, stock.ROCKSDB if args.state == "rocksdb" else stock.IN_MEMORY)
    spark = stock.session(settings)
    visible: dict[int, float] = {}
    counted: dict[int, int] = {}

    def show(batch: DataFrame, batch_id: int) -> None:
        counted.update((row["key"], row["count"]) for row in batch.collect())
        visible[batch_id] = time.time()

    with Arrivals(args.rate, args.events) as arrivals, scratch("latency-stock-spark") as directory:
        sums = arrivals.records(spark, args.keys).groupBy("key")
        sums = sums.agg(F.sum("value").alias("sum"), F.count("*").alias("count"))
        writer = sums.writeStream.outputMode("update").foreachBatch(show)
        query = writer.option("checkpointLocation", stock.checkpoint(directory)).start()
        while not arrivals.finished or sum(counted.copy().values()) < len(arrivals.sent) * arrivals.per_line:
            if not query.isActive:
                raise SystemExit(f"the query ended early; {query.exception()}")
            time.sleep(0.2)
        query.stop()
        progress = query.recentProgress
        spark.stop()
    latencies: list[float] = []
    warm = int(args.warmup * len(arrivals.sent))
    for report in progress:
        # A line's offset is its number; the offset before the first is reported as null.
        start, end = (json.loads(at) for at in (report.sources[0].startOffset, report.sources[0].endOffset))
        lines = range(max(0 if start is None else start + 1, warm), end + 1)
        latencies.extend(visible[report.batchId] - arrivals.sent[line] for line in lines)
    emit(
        "spark structured streaming latency",
        len(latencies) * arrivals.per_line,
        max(visible.values()) - arrivals.sent[warm],
        {**vars(args), "micro_batches": len(progress), "spark": settings},
        latency=spread(latencies),
    )


if __name__ == "__main__":
    main()
