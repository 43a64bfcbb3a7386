"""Interval join of two streams in stock Structured Streaming: the stream-stream join, native from end to end.

Each left record meets the right ones of its key up to 3 s later; event time advances by one second in `--event-rate`
records of both streams together, in order. Spark checkpoints with every micro-batch, hence `--batch-rows`.
"""

from __future__ import annotations

import stock
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from report import emit, scratch


def side(spark: object, name: str, args: object) -> DataFrame:
    """One of the two streams, its columns with a prefix."""
    micros = F.col("value") * 2_000_000 / F.lit(args.event_rate)
    events = stock.events(spark, args.keys, args.parallelism, args.batch_rows // 2)
    timed = events.withColumn("time", F.timestamp_micros(micros.cast("long"))).withWatermark("time", "0 seconds")
    return timed.select(*(F.col(column).alias(f"{name}_{column}") for column in ("key", "value", "time")))


def main() -> None:
    parser = stock.spark_parser(__doc__, events=10_000_000, keys=100_000)
    parser.add_argument("--batch-rows", type=int, default=1_000_000, help="records per micro-batch, of both streams")
    parser.add_argument("--event-rate", type=int, default=100_000, help="records in a second of event time")
    parser.add_argument("--how", default="inner", choices=("inner", "left", "right", "full"))
    parser.add_argument("--state", choices=("memory", "rocksdb"), default="memory", help="state store provider")
    args = parser.parse_args()
    settings = stock.tuned(args, stock.ROCKSDB if args.state == "rocksdb" else stock.IN_MEMORY)
    spark = stock.session(settings)
    within = F.expr("left_key = right_key and right_time >= left_time and right_time <= left_time + interval 3 seconds")
    joined = side(spark, "left", args).join(side(spark, "right", args), within, args.how)
    with scratch("interval-join-stock-spark") as directory:
        writer = joined.writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", stock.checkpoint(directory)).start()
        count, seconds, seen = stock.run(query, args.events, args.warmup)
        spark.stop()
    emit("spark stream-stream join", count, seconds, {**vars(args), **seen, "spark": settings})


if __name__ == "__main__":
    main()
