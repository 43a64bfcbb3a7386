"""Joins rows that Spark reads with a static table, inside Spark: by broadcast or by shuffle, as its optimiser decides.

A shuffle loses the order of rows, which a source read by ranges has; so its records get a place of their own before a
join, by which the epoch puts them in order again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from flintstream.graph.nodes import NativeStep
from flintstream.ops.join_static import FILTERING, check_columns
from flintstream.spark.order import quoted


def joins(steps: Sequence[NativeStep]) -> bool:
    """Whether any of the steps is a join."""
    return any(step.verb == "join" for step in steps)


def join_table(frame: DataFrame, step: NativeStep, hidden: Sequence[str]) -> DataFrame:
    """Return the rows joined with the step's table: their columns, the hidden ones too, then the table's others."""
    options = dict(step.named)
    on: list[str] = list(options["on"])
    table = table_in(frame.sparkSession, step.arguments[0])
    mine: list[str] = list(frame.columns)
    check_columns(tuple(name for name in mine if name not in hidden), list(table.columns), tuple(on), options["how"])
    joined = frame.join(table, on, options["how"])
    others = [] if options["how"] in FILTERING else [name for name in table.columns if name not in on]
    return joined.select(*map(quoted, [*mine, *others]))


def table_in(session: SparkSession, table: Any) -> DataFrame:
    """Return a table as a DataFrame; one that is a DataFrame already is read anew in every epoch."""
    return session.createDataFrame(table) if isinstance(table, pa.Table) else table
