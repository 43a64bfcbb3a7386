"""Rows of one width are not measured by Spark one by one; others are."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from flintstream import DiscardingSink, StreamExecutionEnvironment
from flintstream.spark.epochs import BYTES_PER_BATCH, STAMP_BYTES, epoch_settings
from flintstream.spark.sources import width_of

RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.mark.parametrize(
    ("schema", "width"),
    [
        ("a BIGINT, b DOUBLE, c INT", 24),
        ("a TIMESTAMP, b STRUCT<c: DATE, d: BOOLEAN>", 24),
        ("a DECIMAL(38, 2)", 16),
        ("a BIGINT, b STRING", None),
        ("a STRUCT<b: BINARY>", None),
        ("a ARRAY<INT>", None),
    ],
)
def test_a_row_has_one_width_if_all_its_fields_have(schema: str, width: int | None) -> None:
    assert width_of(StructType.fromDDL(schema)) == width


@pytest.mark.spark
def test_only_rows_of_unknown_width_are_measured(spark_session) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(runtime="spark")
    env.from_dataframe(spark_session.range(3)).sink_to(DiscardingSink())
    plan = env.compile("widths")
    measured, counted = epoch_settings(plan), epoch_settings(plan, 24)
    assert measured[BYTES] == str(BYTES_PER_BATCH)
    assert counted[BYTES] == str((1 << 31) - 1)
    # As many envelopes as a batch has rows, each of a whole batch, are no more than a batch may be.
    rows = int(counted[RECORDS])
    assert BYTES_PER_BATCH / 2 < rows * rows * (24 + STAMP_BYTES) <= BYTES_PER_BATCH
