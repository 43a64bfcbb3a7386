"""The order of DataFrames whose user named columns for it: which split a row is of, and its place there.

Spark moves the rows of a split into one task and sorts them, inside the epoch, where a micro-batch is a plain
DataFrame. It is one step for the rows of all sources together: to take out those of one would read everything again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from flintstream.connectors.frames import FrameSource
from flintstream.ops.timestamps import NO_SPLIT, SOURCE_SHIFT

_NAMED = 1 << SOURCE_SHIFT - 1
"""Numbers from here on are of splits that have names; those below are of splits that are numbers."""


def quoted(name: str) -> Any:
    """Return a column by its whole name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


def split_number(source: FrameSource) -> Any:
    """Return a row's split as a number that is the same in every epoch.

    A small number stands for itself. Anything else is hashed into so many bits that two of ten thousand splits have
    the same with a chance of one in ten thousand; those would be one split, with one watermark.
    """
    if not source.split_by:
        return F.lit(0).cast("bigint")
    columns = [quoted(name) for name in source.split_by]
    number = F.pmod(F.xxhash64(*columns), F.lit(NO_SPLIT - _NAMED)) + F.lit(_NAMED)
    if len(columns) == 1 and isinstance(source.frame.schema[source.split_by[0]].dataType, IntegralType):
        return F.when(columns[0].between(0, _NAMED - 1), columns[0].cast("bigint")).otherwise(number)
    return number


def in_order(frame: DataFrame, ordered: Collection[int], width: int) -> DataFrame:
    """Return an epoch's rows with each split of the `ordered` sources in one task and in order; others stay together.

    Columns `place_<source>` hold what orders the rows of a source.
    """
    if not ordered:
        return frame
    arrival = F.monotonically_increasing_id()
    target = F.when(F.col("source").isin(*ordered), F.xxhash64("source", "split")).otherwise(F.spark_partition_id())
    placed = frame.withColumns({"arrival": arrival, "target": target}).repartition(width, "target")
    return placed.sortWithinPartitions("source", "split", *(f"place_{source}" for source in ordered), "arrival")
