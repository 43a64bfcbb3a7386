"""On Spark state is a DataFrame with the same rows, and a DataFrame is state."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import functions as F

from flintstream import (
    CollectSink,
    KeyedProcessFunction,
    MapStateDescriptor,
    SavepointWriter,
    ValueStateDescriptor,
    count,
    savepoint,
    tumbling,
)
from flintstream.errors import InvalidArgumentError
from tests.capabilities.support import Lists
from tests.state_tables.programs import Account, declare, expiring, savepoint_of, stopped
from tests.state_tables.test_reading import WATERMARKS

pytestmark = pytest.mark.spark


@pytest.fixture
def new_env(make_env: Any) -> Any:
    """Spark."""
    return lambda **settings: make_env("spark", **settings)


@pytest.fixture
def here(make_env: Any) -> Any:
    """The runtime in this process, where it does not matter who left the state."""
    return lambda **settings: make_env("local", **settings)


def rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a DataFrame or of an Arrow table."""
    found = table.to_pylist() if hasattr(table, "to_pylist") else table.toArrow().to_pylist()
    return sorted(found, key=str)


@pytest.fixture
def left(here: Any, tmp_path: Any) -> Any:
    """A checkpoint directory and a savepoint of the same state."""
    folder = stopped(here, tmp_path / "cp", epochs=2, records=2)
    return folder, savepoint_of(folder, tmp_path / "sp")


@pytest.mark.parametrize("form", [0, 1], ids=["checkpoint", "savepoint"])
def test_a_dataframe_has_the_rows_of_the_arrow_table(left, spark_session, form):
    found = savepoint(left[form], spark_session)
    for name in ("account", "by-number", "fresh"):
        frame, table = found.state("all", name), found.state("all", name, arrow=True)
        assert frame.columns == table.column_names
        assert rows(frame) == rows(table)
    exploded = found.state("all", "numbers", explode=True)
    assert rows(exploded) == rows(found.state("all", "numbers", explode=True, arrow=True))
    assert rows(found.timers("all")) == rows(found.timers("all", arrow=True))
    assert rows(found.positions()) == rows(found.positions(arrow=True))


def test_spark_reads_the_files_of_a_savepoint_itself(left, spark_session):
    frame = savepoint(left[1], spark_session).state("all", "account").where("balance > 2").select("key")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "owner" not in plan
    assert sorted(row.key for row in frame.collect()) == ["a", "c"]


def test_types_are_those_of_the_values(here, spark_session, tmp_path):
    data = {
        "x": (
            1,
            2.5,
            "t",
            b"b",
            True,
            dt.datetime(2026, 1, 2, 3),
            dt.date(2026, 1, 2),
            dt.time(4, 5),
            None,
            [1],
            (),
            {"a": 1},
        ),
    }
    path = (
        SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("v"), data.items()).write(tmp_path / "sp")
    )
    found = savepoint(path, spark_session)
    types = [field.dataType.simpleString() for field in found.state("op", "v").schema.fields]
    assert types[1:8] == ["bigint", "double", "string", "binary", "boolean", "timestamp_ntz", "date"]
    assert types[8].startswith("time")
    assert types[9:] == ["string", "array<bigint>", "boolean", "struct<a:bigint>"]
    assert rows(found.state("op", "v")) == rows(found.state("op", "v", arrow=True))


def test_windows_and_their_partial_results_are_dataframes(here, spark_session, tmp_path):
    def program(env: Any, sink: CollectSink) -> None:
        stream = env.from_source(Lists([("a", 1), ("b", 2), ("a", 11), ("a", 12), ("a", 50)]), watermark=WATERMARKS)
        stream.key_by(0).window(tumbling("10ms")).agg(n=count()).uid("w").sink_to(sink)

    path = savepoint_of(stopped(here, tmp_path / "cp", program), tmp_path / "sp")
    frame = savepoint(path, spark_session).state("w", "windows")
    total = frame.where("window_start = 10").groupBy("key").agg(F.sum("a0").alias("n")).collect()
    assert [(row.key, row.n) for row in total] == [("a", 2)]


def test_differences_are_the_same_as_without_spark(left, here, spark_session, tmp_path):
    other = stopped(here, tmp_path / "other", epochs=1, records=5)
    diff = savepoint(left[1], spark_session).diff(other)
    for each in (each for each in diff.summary() if each.name in ("account", "event-timers")):
        frame, table = diff.state(each.uid, each.name), diff.state(each.uid, each.name, arrow=True)
        assert frame.columns == table.column_names
        assert rows(frame) == rows(table)
        assert len(rows(table)) == each.only_here + each.only_there + each.different
    assert {row["change"] for row in diff.state("all", "count", arrow=True).to_pylist()} == {"different"}


class Total(KeyedProcessFunction):
    """Adds to what is known of a key."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", str, int))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value(), dict(self.seen.items())


def test_a_job_goes_on_from_a_batch_dataframe(new_env, spark_session, tmp_path):
    history = spark_session.range(1000).selectExpr("id % 10 AS customer", "id AS amount")
    totals = history.groupBy("customer").agg(F.sum("amount").alias("total"))
    seen = history.selectExpr("customer", "concat('k', cast(amount % 2 as string)) AS map_key", "amount AS value")
    seen = seen.groupBy("customer", "map_key").agg(F.max("value").alias("value"))
    path = (
        SavepointWriter.new_savepoint()
        .with_state("totals", ValueStateDescriptor("total", int), totals, key="customer")
        .with_state("totals", MapStateDescriptor("seen", str, int), seen, key="customer")
        .write(tmp_path / "sp")
    )
    sink, env = CollectSink(), new_env()
    stream = env.from_source(Lists([(3, 1), (99, 5), (3, 1)]))
    stream.key_by(0).process(Total()).uid("totals").sink_to(sink)
    env.start_from_savepoint(path)
    env.execute("goes on")
    before = sum(range(3, 1000, 10))
    assert [row for row in sink.results if row[0] == 3] == [(3, before + 1, {"k1": 993}), (3, before + 2, {"k1": 993})]
    assert (99, 5, {}) in sink.results


def test_state_is_repaired_by_a_dataframe(left, new_env, spark_session, tmp_path):
    accounts = savepoint(left[1], spark_session).state("all", "account")
    repaired = accounts.withColumn("balance", F.when(F.col("key") == "a", 1000).otherwise(F.col("balance")))
    fresh = savepoint(left[1], spark_session).state("all", "fresh")
    path = (
        SavepointWriter.from_existing_savepoint(left[1])
        .with_state("all", ValueStateDescriptor("account", Account), repaired)
        .with_state("all", expiring("fresh"), fresh, last_access="last_access")
        .write(tmp_path / "repaired")
    )
    sink, env = CollectSink(), new_env()
    declare(env, sink)
    env.start_from_savepoint(path)
    env.execute("repaired")
    assert sorted(row for row in sink.results if row[1] != "timer") == [("a", 3, 1006), ("b", 2, 7)]


def test_what_a_task_refuses_is_refused_to_the_user(spark_session, tmp_path):
    twice = spark_session.createDataFrame([("x", 1), ("x", 2)], "key string, value bigint")
    writer = SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("v", int), twice)
    with pytest.raises(InvalidArgumentError, match=r"two rows are about 'x'.*test_on_spark.py"):
        writer.write(tmp_path / "sp")
    stream = spark_session.readStream.format("rate").load()
    with pytest.raises(InvalidArgumentError, match="streaming DataFrame"):
        SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("v"), stream)
