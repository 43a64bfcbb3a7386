"""Tumbling 10 s event-time window, sum and count per key, in stock Structured Streaming.

Native from end to end, no Python per record. Event time advances by one second in `--event-rate` events, in order.
Spark checkpoints with every micro-batch: `--batch-rows` is set so that one takes about a second.
"""

from __future__ import annotations

import stock
from pyspark.sql import functions as F
from report import emit, scratch

WINDOW = "10 seconds"


def main() -> None:
    parser = stock.spark_parser(__doc__, events=100_000_000, keys=1_000)
    parser.add_argument("--batch-rows", type=int, default=8_000_000, help="records per micro-batch")
    parser.add_argument("--event-rate", type=int, default=1_000_000, help="events in a second of event time")
    parser.add_argument("--state", choices=("memory", "rocksdb"), default="memory", help="state store provider")
    args = parser.parse_args()
    settings = stock.tuned(args, stock.ROCKSDB if args.state == "rocksdb" else stock.IN_MEMORY)
    spark = stock.session(settings)
    micros = F.col("value") * 1_000_000 / F.lit(args.event_rate)
    windows = (
        stock.events(spark, args.keys, args.parallelism, args.batch_rows)
        .withColumn("time", F.timestamp_micros(micros.cast("long")))
        .withWatermark("time", "0 seconds")
        .groupBy(F.window("time", WINDOW), "key")
        .agg(F.sum("value"), F.count("*"))
    )
    with scratch("window-stock-spark") as directory:
        writer = windows.writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", stock.checkpoint(directory)).start()
        count, seconds, seen = stock.run(query, args.events, args.warmup)
        spark.stop()
    emit("spark structured streaming window", count, seconds, {**vars(args), **seen, "spark": settings})


if __name__ == "__main__":
    main()
