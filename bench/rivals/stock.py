"""Stock Spark for the rivals: the session, the native source and the steady state read from the query's own progress.

A file of its own because five rivals run on the same well-tuned Spark, and a setting found for one holds for all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from report import KEY_MULTIPLIER, argument_parser, steady

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

STATE = "spark.sql.streaming.stateStore"
STATE_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = f"{STATE_PACKAGE}.RocksDBStateStoreProvider"
IN_MEMORY = f"{STATE_PACKAGE}.HDFSBackedStateStoreProvider"


def spark_parser(doc: str | None, *, events: int, keys: int, warmup: bool = True) -> argparse.ArgumentParser:
    """The rivals' arguments, and `--conf` for those who doubt a setting."""
    parser = argument_parser(doc, events=events, keys=keys, warmup=warmup)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="another Spark setting")
    return parser


def tuned(args: argparse.Namespace, provider: str) -> dict[str, str]:
    """The settings that make stock Structured Streaming quick on one small machine."""
    parallelism = args.parallelism
    return {
        "spark.master": f"local[{parallelism}]",
        "spark.driver.memory": "6g",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # The default of 200 would make 200 tasks and 200 state stores per micro-batch.
        "spark.sql.shuffle.partitions": str(parallelism),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        # Rename-based files halve the cost of the offset and commit logs on a local disk.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        f"{STATE}.providerClass": provider,
        # Uploads the changes of a micro-batch, not RocksDB's files.
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        # A state call of transformWithState is a round trip between Python and the JVM: cheaper without TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        **dict(setting.split("=", maxsplit=1) for setting in args.conf),
    }


def session(settings: dict[str, str]) -> SparkSession:
    """A new session with exactly these settings."""
    return SparkSession.builder.config(map=settings).getOrCreate()


def events(spark: SparkSession, keys: int, parallelism: int, batch_rows: int) -> DataFrame:
    """Native source: `batch_rows` numbered events per micro-batch, for ever, as (key, value)."""
    source = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=batch_rows, numPartitions=parallelism, advanceMillisPerBatch=1000, startTimestamp=0
    )
    return source.load().select((F.col("value") * KEY_MULTIPLIER % keys).alias("key"), "value")


def run(query: StreamingQuery, total: int, warmup: float) -> tuple[int, float, dict[str, Any]]:
    """Let the query read `total` events, stop it, and measure it after the warm-up.

    Steady state: from the start of the first micro-batch after the warm-up to the end of the last one, pauses between
    micro-batches included, by the clock of the query's progress reports.

    Returns:
        Events, seconds, and what was seen: micro-batches, their median time, rows kept in state.
    """
    while sum(p.numInputRows for p in query.recentProgress) < total:
        if not query.isActive:
            raise SystemExit(f"the query ended early; {query.exception()}")
        time.sleep(0.1)
    batches = [p for p in query.recentProgress if p.numInputRows > 0]
    query.stop()
    starts = [datetime.fromisoformat(p.timestamp).timestamp() for p in batches]
    samples, total_rows = [], 0
    for start, batch in zip(starts, batches, strict=True):
        samples.append((start, total_rows))
        total_rows += batch.numInputRows
    samples.append((starts[-1] + batches[-1].batchDuration / 1000, total_rows))
    count, seconds = steady(samples, warmup * total)
    durations = sorted(p.batchDuration / 1000 for p in batches[len(batches) // 2 :])
    operators = batches[-1].stateOperators
    seen = {
        "micro_batches": len(batches),
        "seconds_per_micro_batch": durations[len(durations) // 2],
        "state_rows": operators[0].numRowsTotal if operators else 0,
    }
    return count, seconds, seen


def checkpoint(directory: Path) -> str:
    """The query's checkpoint location."""
    return (directory / "checkpoint").as_uri()
