"""Aggregates of the user's own on columns: the same as record by record, and what is refused."""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    Configuration,
    Groups,
    StreamExecutionEnvironment,
    VectorizedAggregateFunction,
    WindowFunction,
    bounded,
    computed_by,
    count,
    median,
    session,
    sliding,
    tumbling,
)
from flintstream.errors import JobError, TypeMismatchError, UnserialisableFunctionError
from flintstream.ops.aggregates import column_aggregate
from tests.unit.values import law


class Median(VectorizedAggregateFunction):
    """Keeps all values."""

    def accumulate(self, values: pa.Array) -> Any:
        return {"all": self.listed(values)}

    def merge(self, columns: Any, groups: Groups) -> Any:
        return {"all": groups.joined(columns["all"])}

    def get_result(self, columns: Any) -> Any:
        lists = columns["all"].to_pylist()
        return pa.array([float(np.median(each)) if each else None for each in lists], pa.float64())


class Spread(VectorizedAggregateFunction):
    """The greatest minus the least `v` of records, on numbers alone."""

    def accumulate(self, values: pa.RecordBatch) -> Any:
        numbers = values.column("v")
        return {"low": numbers, "high": numbers}

    def merge(self, columns: Any, groups: Groups) -> Any:
        low, high = np.full(groups.count, 1 << 62), np.full(groups.count, -(1 << 62))
        np.minimum.at(low, groups.codes, columns["low"].to_numpy())
        np.maximum.at(high, groups.codes, columns["high"].to_numpy())
        return {"low": low, "high": high}

    def get_result(self, columns: Any) -> Any:
        return columns["high"].to_numpy() - columns["low"].to_numpy()


def stream(records: list[Any], max_records: int = 0, parallelism: int = 1) -> Any:
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": str(max_records)})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")
    env.set_parallelism(parallelism)
    return env.from_collection(records).assign_timestamps_and_watermarks(bounded("50ms", on="t"))


RECORDS = st.lists(
    st.fixed_dictionaries({"k": st.sampled_from("abc"), "t": st.integers(0, 40), "v": st.integers(-9, 9)}),
    min_size=1,
    max_size=30,
)
WINDOWS = {"tumbling": tumbling("10ms"), "sliding": sliding("12ms", "4ms"), "session": session("5ms")}


@pytest.mark.parametrize("window", WINDOWS)
@law
@given(records=RECORDS, max_records=st.integers(1, 10), parallelism=st.integers(1, 3))
def test_columns_and_records_give_the_same_however_they_are_cut(window, records, max_records, parallelism):
    def results(lateness: int, *cut: int) -> list[Any]:
        windows = stream(records, *cut).key_by("k").window(WINDOWS[window]).allowed_lateness(lateness)
        found = windows.agg(m=computed_by(Median(), "v"), s=computed_by(Spread()), q=median("v"), n=count())
        return sorted(map(str, found.execute_and_collect()))

    on_columns = results(0, max_records, parallelism)
    assert on_columns == results(0) == results(1)


@law
@given(records=RECORDS, max_records=st.integers(1, 10))
def test_a_median_is_the_median(records, max_records):
    wanted: dict[Any, list[int]] = defaultdict(list)
    for record in records:
        wanted[record["k"], record["t"] // 10 * 10].append(record["v"])
    windows = stream(records, max_records).key_by("k").window(tumbling("10ms"))
    found = {
        (row.k, row.window_start): row.m for row in windows.agg(m=computed_by(Median(), "v")).execute_and_collect()
    }
    assert found == {key: statistics.median(values) for key, values in wanted.items()}


TIMED = [{"k": "a", "t": t, "v": v} for t, v in enumerate([3, 1, 2, 8])]


@pytest.mark.parametrize("lateness", [0, 1])
def test_aggregate_emits_results_alone(lateness):
    def windows() -> Any:
        return stream(TIMED).key_by("k").window(tumbling("100ms")).allowed_lateness(lateness)

    assert list(windows().aggregate(computed_by(Median(), "v")).execute_and_collect()) == [2.5]
    assert list(windows().aggregate(Spread()).execute_and_collect()) == [7]
    assert list(windows().aggregate(median("v")).execute_and_collect()) == [2.5]
    found = stream(TIMED).window_all(tumbling("100ms")).allowed_lateness(lateness).aggregate(Spread())
    assert list(found.execute_and_collect()) == [7]


def test_a_window_function_gets_the_result():
    class Show(WindowFunction):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            yield key, window.end, list(inputs)

    found = stream(TIMED).key_by("k").window(tumbling("100ms")).aggregate(computed_by(Median(), "v"), Show())
    assert list(found.execute_and_collect()) == [("a", 100, [2.5])]


@pytest.mark.parametrize("lateness", [0, 1])
@pytest.mark.parametrize("max_records", [0, 1, 2])
def test_none_and_numbers_of_two_kinds_need_a_declared_type(max_records, lateness):
    def result(values: list[Any], type: Any) -> list[Any]:
        records = [{"k": "a", "t": t, "v": v} for t, v in enumerate(values)]
        windows = stream(records, max_records).key_by("k").window(tumbling("100ms")).allowed_lateness(lateness)
        return list(windows.aggregate(computed_by(Median(), "v", type)).execute_and_collect())

    assert result([None, 1, 2.5, None], float) == [1.75]
    assert result([None, None], float) == [None]
    with pytest.raises(
        TypeMismatchError, match=r"'Median' got 'x', but its declared type is DOUBLE; test_agg\w+\.py:\d+; declare"
    ):
        result(["x"], float)
    if max_records == 0:
        with pytest.raises(JobError, match="values of several types"):
            result([1, 2.5], None)


def wrong_steps() -> list[Any]:
    return [
        (
            {"accumulate": lambda self, values: {"all": values.slice(1)}},
            "accumulate of Wrong returned 3 rows for 4 values",
        ),
        ({"accumulate": lambda self, values: values}, "accumulate of Wrong returned"),
        ({"accumulate": lambda self, values: {}}, r"accumulate of Wrong returned \{\}; .*; return a dict of columns"),
        ({"merge": lambda self, columns, groups: columns}, "merge of Wrong returned 4 rows for 1 groups"),
        ({"get_result": lambda self, columns: pa.array([1, 2])}, "get_result of Wrong returned 2 rows for 1 rows"),
        ({"get_result": lambda self, columns: 5}, r"returned 5; .*; return a RecordBatch"),
    ]


@pytest.mark.parametrize("lateness", [0, 1])
@pytest.mark.parametrize(("steps", "message"), wrong_steps())
def test_steps_that_return_something_else_are_refused(steps, message, lateness):
    wrong = type("Wrong", (Median,), steps)()
    windows = stream(TIMED).key_by("k").window(tumbling("100ms")).allowed_lateness(lateness)
    with pytest.raises(JobError, match=message) as raised:
        list(windows.agg(x=computed_by(wrong, "v")).execute_and_collect())
    assert raised.value.location is not None


def test_wrong_declarations_are_refused_where_they_stand():
    windows = stream(TIMED).key_by("k").window(tumbling("100ms"))
    with pytest.raises(TypeMismatchError, match=r"Median is a class.*; test_aggregates_vectorised\.py:\d+"):
        computed_by(Median)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match=r"is not a VectorizedAggregateFunction; test_agg\w+\.py:\d+; pass"):
        computed_by(lambda column: column)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match=r"x=Median is not .*computed_by\(...\)"):
        windows.agg(x=Median())  # type: ignore[arg-type]


def test_an_aggregate_that_cannot_be_sent_is_named():
    class Holds(Median):
        def __init__(self) -> None:
            self.handle = threading.Lock()

    found = stream(TIMED).key_by("k").window(tumbling("100ms")).agg(x=computed_by(Holds(), "v"))
    with pytest.raises(UnserialisableFunctionError, match=r"the aggregate of .* attribute 'handle'"):
        list(found.execute_and_collect())


def test_groups_join_lists_in_the_order_of_their_rows():
    groups = Groups(np.array([1, 0, 1, 2]), 4)
    joined = groups.joined(pa.array([[1], [2, 3], None, [4]], pa.large_list(pa.int64())))
    assert joined.to_pylist() == [[2, 3], [1], [4], []]
    assert groups.sizes().tolist() == [1, 2, 1, 0]
    assert Median.listed(pa.array([1, None, 3])).to_pylist() == [[1], [], [3]]


def test_it_shows_as_what_it_is():
    aggregate = computed_by(Median(), "v", float)
    assert str(aggregate) == "computed_by(v, Median, DOUBLE)"
    assert column_aggregate(aggregate, "a0.").is_ordered is False
