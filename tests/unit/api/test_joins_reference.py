"""What joins with reference data refuse, with the user's line, while the program is declared."""

from __future__ import annotations

import re

import pandas as pd
import pyarrow as pa
import pytest

from flintstream import (
    CollectSink,
    JoinFunction,
    LookupCache,
    LookupFunction,
    MapFunction,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    bounded,
)
from flintstream.errors import (
    DefinitionError,
    FlintstreamError,
    InvalidArgumentError,
    JobError,
    TypeMismatchError,
    UnknownTagError,
)

TABLE = pa.table({"id": [1], "name": ["Ada"]})
TAG = OutputTag("late")


class Batches(LookupFunction):
    def lookup(self, key):
        return key

    def lookup_many(self, keys):
        return keys


class NoJoin(MapFunction):
    def map(self, value):
        return value


def rows(env, *records):
    return env.from_collection(records or [{"id": 1}])


def keyed(env):
    return rows(env).key_by("id")


WRONG = {
    "temporal join without keys": (
        lambda env: rows(env).temporal_join(keyed(env)),
        DefinitionError, "temporal_join(...) works per key, and this stream has none"),
    "the other stream without keys": (
        lambda env: keyed(env).temporal_join(rows(env)), TypeMismatchError, "is not a keyed stream"),
    "another environment": (
        lambda env: keyed(env).regular_join(
            keyed(StreamExecutionEnvironment.get_execution_environment(runtime="local")), ttl=1),
        TypeMismatchError, "two streams of different environments cannot meet"),
    "an unknown kind": (
        lambda env: keyed(env).temporal_join(keyed(env), how="full"), InvalidArgumentError, "how is 'full'"),
    "an unknown clock": (
        lambda env: keyed(env).temporal_join(keyed(env), as_of="now"), InvalidArgumentError, "as_of is 'now'"),
    "no condition": (
        lambda env: keyed(env).temporal_join(keyed(env)).ends_when("x"), TypeMismatchError, "'x' is not a condition"),
    "late by the clock": (
        lambda env: keyed(env).temporal_join(keyed(env), as_of="processing").side_output_left_late_data(TAG),
        DefinitionError, "nothing is late in a join as_of"),
    "no tag": (
        lambda env: keyed(env).temporal_join(keyed(env)).side_output_right_late_data("late"),
        TypeMismatchError, "'late' is not an OutputTag"),
    "an unknown tag": (
        lambda env: keyed(env).temporal_join(keyed(env)).apply().get_side_output(TAG), UnknownTagError,
        "'Temporal Join' never emits to side output 'late'"),
    "unmatched records that are results": (
        lambda env: keyed(env).temporal_join(keyed(env), how="left").side_output_left_unmatched(TAG), DefinitionError,
        "of a left join, left records that met nothing are results already"),
    "unmatched records for ever": (
        lambda env: keyed(env).regular_join(keyed(env), ttl=None).side_output_right_unmatched(TAG).apply(),
        DefinitionError, "never knows that one has met nothing"),
    "no function": (
        lambda env: keyed(env).temporal_join(keyed(env)).apply(3), TypeMismatchError, "3 is not a JoinFunction"),
    "another function": (
        lambda env: keyed(env).regular_join(keyed(env), ttl=1).apply(NoJoin()), TypeMismatchError,
        "is not a JoinFunction"),
    "no length of time": (
        lambda env: keyed(env).regular_join(keyed(env), ttl=0), InvalidArgumentError, "ttl is 0"),
    "an outer join for ever": (
        lambda env: keyed(env).regular_join(keyed(env), ttl=None, how="left").apply(), DefinitionError,
        "never knows that one has met nothing"),
    "an unknown time": (
        lambda env: keyed(env).regular_join(keyed(env), ttl=1, ttl_time="ingestion"), InvalidArgumentError,
        "ttl_time is 'ingestion'"),
    "no lookup": (
        lambda env: rows(env).lookup_join({1: 2}, on="id"), TypeMismatchError, "looks nothing up"),
    "a class": (
        lambda env: rows(env).lookup_join(Batches, on="id"), TypeMismatchError, "pass Batches(...)"),
    "a right lookup": (
        lambda env: rows(env).lookup_join(Batches(), on="id", how="right"), InvalidArgumentError, "how is 'right'"),
    "no key": (lambda env: rows(env).lookup_join(Batches(), on=None), TypeMismatchError, "None cannot be a key"),
    "no cache": (
        lambda env: rows(env).lookup_join(Batches(), on="id").with_cache(1000), TypeMismatchError,
        "1000 is not a LookupCache"),
    "fewer than no retries": (
        lambda env: rows(env).lookup_join(Batches(), on="id").with_retries(-1), InvalidArgumentError, "retries"),
    "a delay before": (
        lambda env: rows(env).lookup_join(Batches(), on="id").with_retries(1, delay="-1s"), InvalidArgumentError,
        "delay is '-1s'"),
    "no capacity": (
        lambda env: rows(env).lookup_join(str, on="id").with_capacity(0), InvalidArgumentError, "capacity"),
    "capacity for one call": (
        lambda env: rows(env).lookup_join(Batches(), on="id").with_capacity(2), DefinitionError,
        "capacity would change nothing"),
    "no table": (
        lambda env: rows(env).join_static([1], on="id"), TypeMismatchError, "a list is not a table"),
    "no such column": (
        lambda env: rows(env).join_static(TABLE, on="key"), InvalidArgumentError,
        "on= names 'key', and the table has id, name"),
    "a right static join": (
        lambda env: rows(env).join_static(TABLE, on="id", how="right"), InvalidArgumentError, "how is 'right'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused_with_the_users_line(name, env):
    declare, kind, message = WRONG[name]
    with pytest.raises(kind, match=re.escape(message)) as caught:
        declare(env)
    assert re.search(r"test_joins_reference\.py:\d+", str(caught.value))


@pytest.mark.parametrize("arguments", [{"max_rows": 0}, {"expire_after_write": 0}, {"expire_after_access": "-1s"}])
def test_a_cache_that_keeps_nothing_is_refused(arguments):
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        LookupCache(**arguments)


def failure(stream) -> str:
    with pytest.raises(FlintstreamError) as caught:
        list(stream.execute_and_collect())
    assert isinstance(caught.value, JobError)
    return str(caught.value)


def test_records_that_do_not_fit_the_table_are_told_of(env):
    assert "records have no field 'id', but 'key'" in failure(rows(env, {"key": 1}).join_static(TABLE, on="id"))
    both = rows(env, {"id": 1, "name": "x"}).join_static(TABLE, on="id")
    assert "records and table both have 'name'; test_joins_reference.py" in failure(both)
    assert "is string, and the table has int64" in failure(rows(env, {"id": "x"}).join_static(TABLE, on="id"))
    mixed = rows(env, {"id": 1}, {"other": 2}).join_static(TABLE, on="id")
    assert "without the same named fields" in failure(mixed)


def test_a_join_by_event_time_needs_timestamps(env):
    assert "a record has no timestamp" in failure(keyed(env).temporal_join(keyed(env)).apply())
    assert "a record has no timestamp" in failure(keyed(env).regular_join(keyed(env), ttl="1s").apply())


def test_tables_of_pandas_with_categories_and_batches_of_arrow(env):
    frame = pd.DataFrame({"id": pd.Categorical(["a", "b"]), "n": [1, 2]}, index=[7, 8])
    joined = rows(env, {"id": "b"}).join_static(frame, on="id")
    assert [row.as_dict() for row in joined.execute_and_collect()] == [{"id": "b", "n": 2}]
    batch = TABLE.to_batches()[0]
    assert [row.name for row in rows(env).join_static(batch, on="id").execute_and_collect()] == ["Ada"]


def test_numbers_of_another_width_are_the_same_key(env):
    small = pa.table({"id": pa.array([1, 2], pa.int16()), "name": ["Ada", "Bob"]})
    assert [row.name for row in rows(env, {"id": 2}).join_static(small, on="id").execute_and_collect()] == ["Bob"]


def test_fields_that_are_no_columns_come_through(env):
    joined = rows(env, {"id": 1, "tags": {"x"}, "inner": {"a": [1, None]}}).join_static(TABLE, on="id")
    (row,) = joined.execute_and_collect()
    assert row.as_dict() == {"id": 1, "tags": {"x"}, "inner": {"a": [1, None]}, "name": "Ada"}


def test_an_empty_table(env):
    empty = TABLE.slice(0, 0)
    assert list(rows(env).join_static(empty, on="id").execute_and_collect()) == []
    (row,) = rows(env).join_static(empty, on="id", how="left").execute_and_collect()
    assert row.as_dict() == {"id": 1, "name": None}


def test_late_records_without_a_side_output_are_told_of(env):
    records = [
        {"id": 1, "ts": 1, "of": "prices"},
        {"id": 1, "ts": 50, "of": "orders"},
        {"id": 1, "ts": 2, "of": "orders"},
    ]
    stream = env.from_collection(records).assign_timestamps_and_watermarks(bounded(0, on="ts"))
    orders, prices = (stream.filter(lambda row, of=of: row["of"] == of).key_by("id") for of in ("orders", "prices"))
    orders.temporal_join(prices).apply().uid("join").print()
    assert "1 late records in 'join'" in str(env.execute())


class Named(JoinFunction):
    """Knows its task from `open` on."""

    def open(self, runtime_context):
        self.name = runtime_context.get_task_name()

    def join(self, first, second):
        return self.name, first["id"], second


@pytest.mark.parametrize("kind", ["temporal", "latest", "regular", "lookup"])
def test_a_join_function_is_opened_before_the_first_pair(kind, env):
    stream = env.from_collection([{"id": 1, "ts": 1}]).assign_timestamps_and_watermarks(bounded(0, on="ts"))
    keyed = stream.key_by("id")
    joined = {
        "temporal": lambda: keyed.temporal_join(keyed),
        "latest": lambda: keyed.temporal_join(keyed, how="left", as_of="processing"),
        "regular": lambda: keyed.regular_join(keyed, ttl="1s"),
        "lookup": lambda: stream.lookup_join(lambda key: {"id": key, "ts": key}, on="id"),
    }[kind]()
    (found,) = joined.apply(Named()).name("mine").execute_and_collect()
    # Of a record that is on both sides, the left one comes first.
    assert found == ("mine", 1, None if kind == "latest" else {"id": 1, "ts": 1})


def test_a_join_function_may_use_side_outputs(env):
    stream = env.from_collection([1, 2, 3])
    joined = stream.lookup_join(lambda key: key, on=lambda n: n).apply(lambda n, _: (TAG, n) if n == 2 else n)
    joined.get_side_output(TAG).sink_to(side := CollectSink())
    assert list(joined.execute_and_collect()) == [1, 3]
    assert side.results == [2]


def test_records_without_rows_go_to_their_side_output(env):
    joined = env.from_collection([1, None, 3]).lookup_join({1: "a"}.get, on=lambda n: n).side_output_left_unmatched(TAG)
    results = joined.apply()
    results.get_side_output(TAG).sink_to(side := CollectSink())
    assert list(results.execute_and_collect()) == [(1, "a")]
    assert side.results == [None, 3]


def test_in_batch_mode_results_are_the_same(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    prices = [{"id": 1, "ts": 10, "p": 1}, {"id": 1, "ts": 20, "p": 2}]
    orders = [{"id": 1, "ts": 25}, {"id": 1, "ts": 5}, {"id": 1, "ts": 15}]
    time = bounded(0, on="ts")
    left, right = (env.from_collection(each).assign_timestamps_and_watermarks(time) for each in (orders, prices))
    joined = left.key_by("id").temporal_join(right.key_by("id"), how="left")
    found = joined.apply(lambda order, price: (order["ts"], price and price["p"])).execute_and_collect()
    assert list(found) == [(5, None), (15, 1), (25, 2)]


def test_the_plan_says_how_a_join_runs(env):
    rows(env).join_static(TABLE, on="id").print()
    keyed(env).temporal_join(keyed(env)).apply().print()
    paths = {op.node.name: op.path for op in env.compile().operators}
    assert (paths["Static Join"], paths["Temporal Join"]) == ("vectorised", "per record")
