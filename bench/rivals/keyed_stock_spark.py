"""Keyed running sum in stock PySpark: transformWithState with a value state, one output per record.

The row API, not the slower pandas one; RocksDB because transformWithState accepts no other store.
Spark checkpoints with every micro-batch, and reads and writes a key's state once per micro-batch however many records
it has there: so `--batch-rows` decides both the checkpoint interval and the speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import stock
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from report import emit, scratch

OUTPUT = Row("key", "total")


class RunningSum(StatefulProcessor):
    """Adds up the values of a key and returns the sum after each."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        state = self.total.get()
        total = 0 if state is None else state[0]
        for row in rows:
            total += row[1]
            yield OUTPUT(key[0], total)
        self.total.update((total,))

    def close(self) -> None:
        pass


def main() -> None:
    parser = stock.spark_parser(__doc__, events=3_000_000, keys=100_000)
    parser.add_argument("--batch-rows", type=int, default=200_000, help="records per micro-batch")
    args = parser.parse_args()
    settings = stock.tuned(args, stock.ROCKSDB)
    spark = stock.session(settings)
    sums = (
        stock.events(spark, args.keys, args.parallelism, args.batch_rows)
        .groupBy("key")
        .transformWithState(RunningSum(), "key bigint, total bigint", outputMode="append", timeMode="none")
    )
    with scratch("keyed-stock-spark") as directory:
        writer = sums.writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", stock.checkpoint(directory)).start()
        count, seconds, seen = stock.run(query, args.events, args.warmup)
        spark.stop()
    emit("spark transformWithState", count, seconds, {**vars(args), **seen, "spark": settings})


if __name__ == "__main__":
    main()
