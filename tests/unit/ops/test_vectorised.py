"""Vectorised functions: what they see, what becomes of what they return, and what is refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import CollectSink, MapFunction, Row, StreamExecutionEnvironment, Types, vectorized
from flintstream.errors import InvalidArgumentError, JobError, TypeMismatchError, UserFunctionError
from flintstream.model.functions_vectorised import FORMATS, Vectorized
from flintstream.ops.batch import Batch, Values
from flintstream.ops.operator import MAIN, OperatorContext
from flintstream.ops.vectorised import VectorisedFilter, VectorisedFlatMap, VectorisedMap
from flintstream.ops.vectorised_columns import from_format, to_arrow, to_format, to_values
from flintstream.state.backend import KeyedBackend
from tests.unit.values import law

OPERATORS = {"map": VectorisedMap, "filter": VectorisedFilter, "flat_map": VectorisedFlatMap}


@dataclass
class Point:
    x: int
    name: str


RECORDS: dict[str, list[Any]] = {
    "dict": [{"x": 1, "name": "a"}, {"x": 2, "name": "b"}],
    "tuple": [(1, "a"), (2, "b")],
    "row": [Row(x=1, name="a"), Row(x=2, name="b")],
    "row without names": [Row(1, "a"), Row(2, "b")],
    "dataclass": [Point(1, "a"), Point(2, "b")],
    "int": [1, 2],
    "float": [1.5, float("inf")],
    "text": ["a", "b"],
    "bool": [True, False],
    "bytes": [b"a", b"b"],
    "list": [[1, 2], []],
    "time": [dt.datetime(2026, 1, 2, 3, 4, 5, 6), dt.datetime(1960, 1, 1)],
    "date": [dt.date(2026, 1, 2), dt.date(1960, 1, 1)],
}


class Caught:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        assert tag == MAIN
        self.batches.append(batch)


def emitted(method: str, function: Any, rows: list[Any], declared: Any = None) -> list[Batch]:
    operator = OPERATORS[method](function, method, declared)
    operator.open(OperatorContext("uid", method, 0, 1, KeyedBackend(8, range(8))))
    numbers = np.arange(len(rows))
    out = Caught()
    operator.process(Batch(Values(rows), numbers + 100, [numbers * 2, numbers], numbers - 5), 0, out)
    operator.close()
    return out.batches


def result(method: str, function: Any, rows: list[Any], declared: Any = None) -> list[Any]:
    return [row for batch in emitted(method, function, rows, declared) for row in batch.values.rows()]


def places(batch: Batch) -> tuple[list[int], ...]:
    assert batch.watermarks is not None
    return (batch.timestamps.tolist(), batch.watermarks.tolist(), *(column.tolist() for column in batch.stamp))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", RECORDS)
def test_records_stay_what_they_are(kind, format):
    rows = RECORDS[kind]
    found = result("map", vectorized(format)(lambda columns: columns), rows)
    assert [(type(row), row) for row in found] == [(type(row), row) for row in rows]
    assert found == rows


SCALARS = [
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.booleans(),
    st.binary(max_size=3),
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(lambda time: time.replace(fold=0)),
    st.lists(st.integers(0, 9), max_size=3),
]


@law
@given(st.sampled_from(SCALARS).flatmap(lambda each: st.lists(st.none() | each, min_size=1, max_size=6)))
def test_none_survives_arrow_and_pandas(values):
    records = [{"v": value} for value in values]
    for format in ("arrow", "pandas"):
        found = from_format(to_format(to_arrow(Values(records))[0], format))
        assert to_values(found, ["dict", ["v"], []], None).rows() == records


@law
@given(
    st.sampled_from(SCALARS).flatmap(lambda each: st.lists(st.none() | each, min_size=2, max_size=6)),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_a_slice_is_what_it_shows(values, start, cut):
    """Arrow's slices share their memory with the whole, and must not be taken for it."""
    whole = Values([{"v": value, "all": [value]} for value in values])
    whole.column()
    stop = max(start, len(values) - cut)
    found, kind = to_arrow(Values(None, *whole.column()).slice(start, stop))
    assert to_values(from_format(found), kind, None).rows() == whole.rows()[start:stop]


def test_nan_is_a_number_and_none_is_nothing():
    rows = [1.0, float("nan"), None]
    for format in ("arrow", "pandas"):
        assert repr(result("map", vectorized(format)(lambda columns: columns), rows)) == "[1.0, nan, None]"
    plus = result("map", vectorized("pandas")(lambda column: column.to_numpy(float, na_value=np.nan) + 1), rows)
    assert repr(plus) == "[2.0, nan, nan]"


def test_a_column_is_of_one_type_whatever_else_is_in_the_batch():
    def types(rows: list[Any], format: Any, declared: Any = None) -> list[str]:
        seen: list[str] = []

        def look(frame: Any) -> Any:
            seen.extend(str(kind) for kind in (frame.schema.types if format == "arrow" else frame.dtypes))
            return frame

        result("map", vectorized(format, declared)(look), rows)
        return seen

    whole, one = {"n": 1, "b": True}, {"n": None, "b": None}
    declared = Types.DICT({"n": Types.LONG(), "b": Types.BOOLEAN()})
    for format, wanted in (("arrow", ["int64", "bool"]), ("pandas", ["Int64", "boolean"])):
        assert types([whole], format) == types([whole, one], format) == wanted
        assert types([one], format, declared) == types([one, whole], format, declared) == wanted


def test_a_known_type_of_the_stream_does_as_well():
    function = Vectorized(lambda column: pc.add(column, 1), "arrow", known=Types.LONG())
    assert result("map", function, [None]) == [None]
    typed = Vectorized(lambda column: pa.array([str(column.type)] * len(column)), "arrow", known=Types.LONG())
    assert result("map", typed, [None]) == ["int64"]


def test_the_order_of_a_dicts_keys_means_nothing():
    rows = [{"x": 1, "name": "a"}, {"name": "b", "x": 2}]
    assert result("map", vectorized("arrow")(lambda batch: batch), rows) == rows
    declared = Types.DICT({"name": Types.STRING(), "x": Types.LONG()})
    names = vectorized("arrow", declared)(lambda batch: pa.array([",".join(batch.schema.names)] * len(batch)))
    assert result("map", names, rows) == ["name,x", "name,x"]
    with pytest.raises(JobError, match="values of several types"):
        result("map", vectorized("arrow")(lambda batch: batch), [{"x": 1}, {"y": 2}])


def test_map_keeps_time_and_place():
    (batch,) = emitted("map", vectorized("numpy")(lambda column: column * 2), [1, 2, 3])
    assert places(batch) == ([100, 101, 102], [-5, -4, -3], [0, 2, 4], [0, 1, 2])
    assert batch.values.is_column


def test_filter_keeps_the_records_for_which_it_is_true():
    function = vectorized("arrow")(lambda column: pc.greater(column, 1))
    (batch,) = emitted("filter", function, [1, 2, None, 3])
    assert batch.values.rows() == [2, 3]
    assert places(batch) == ([101, 103], [-4, -2], [2, 6], [1, 3])
    assert emitted("filter", function, [0, None]) == []
    assert result("filter", function, [5, 6]) == [5, 6]


FLAT_MAPS = {
    "rows": vectorized("numpy")(lambda n: (np.repeat(n, n), np.repeat(np.arange(len(n)), n))),
    "lists": vectorized("arrow")(lambda n: pa.array([[each] * each for each in n.to_pylist()], pa.list_(pa.int64()))),
    "index": vectorized("pandas")(lambda n: n.repeat(n.to_numpy(int))),
    "in any order": vectorized("numpy")(lambda n: (np.repeat(n, n)[::-1], np.repeat(np.arange(len(n)), n)[::-1])),
    "rows as arrow": vectorized("arrow")(
        lambda n: (n.take(pa.array(np.repeat(np.arange(len(n)), n))), pa.array(np.repeat(np.arange(len(n)), n)))
    ),
}


@pytest.mark.parametrize("how", FLAT_MAPS)
def test_flat_map_says_which_row_each_result_is_of(how):
    (batch,) = emitted("flat_map", FLAT_MAPS[how], [2, 0, 1])
    assert batch.values.rows() == [2, 2, 1]
    assert places(batch) == ([100, 100, 102], [-5, -5, -3], [0, 0, 4], [0, 0, 2], [0, 1, 0])


def test_flat_map_of_lists_of_records_gives_records():
    function = vectorized("arrow")(lambda n: pa.array([[{"v": each}] * 2 for each in n.to_pylist()]))
    assert result("flat_map", function, [1, 2]) == [{"v": 1}, {"v": 1}, {"v": 2}, {"v": 2}]


def test_a_dataframe_that_was_doubled_gives_both_halves_by_record():
    double = vectorized("pandas")(lambda frame: pd.concat([frame, frame.assign(x=frame.x * 10)]))
    assert result("flat_map", double, RECORDS["dataclass"]) == [
        Point(1, "a"),
        Point(10, "a"),
        Point(2, "b"),
        Point(20, "b"),
    ]


def wrong_results() -> list[Any]:
    short = "got 2 rows and returned 1; return one value for each row"
    rows = RECORDS["dict"]
    return [
        ("map", "arrow", lambda batch: batch.slice(1), rows, f"map {short}, or use flat_map"),
        ("map", "pandas", lambda frame: frame.iloc[::-1], rows, "in another order"),
        ("map", "arrow", lambda batch: None, rows, "returned None; return a RecordBatch"),
        ("map", "arrow", lambda batch: 5, rows, "returned 5; return a RecordBatch"),
        ("map", "numpy", lambda batch: {"a": np.zeros(2), "b": np.zeros(1)}, rows, "different lengths: 1, 2"),
        ("map", "numpy", lambda batch: {}, rows, "different lengths: none"),
        ("map", "numpy", lambda batch: {1: np.zeros(2)}, rows, "column 1 is no column"),
        ("map", "numpy", lambda batch: np.zeros((2, 2)), rows, "array of 2 dimensions"),
        ("map", "numpy", lambda batch: np.array([1j, 2j]), rows, "returned complex128, which has no column"),
        ("map", "numpy", lambda n: n.astype(np.uint64) + np.uint64(1 << 63), [1, 2], "uint64, which has no column"),
        ("map", "pandas", lambda frame: pd.Series([object(), 1]), rows, "returned object, which has no column"),
        ("filter", "arrow", lambda batch: batch.column("x"), rows, "returned int64; return True or False"),
        ("filter", "arrow", lambda batch: batch, rows, "returned several columns"),
        ("filter", "numpy", lambda batch: np.array([True]), rows, f"filter {short}"),
        ("map", "pandas", lambda frame: frame.set_index("name"), rows, "or with another index"),
        ("map", "pandas", lambda frame: pd.concat([frame, frame], axis=1), rows, "two columns have one name"),
        ("map", "arrow", lambda batch: batch.append_column("x", batch.column(0)), rows, "two columns have one name"),
        ("flat_map", "arrow", lambda batch: batch, rows, "did not say which rows"),
        ("flat_map", "arrow", lambda batch: pa.array([[1]]), rows, f"flat_map {short}"),
        ("flat_map", "arrow", lambda batch: (batch,), rows, "returned a tuple"),
        ("flat_map", "arrow", lambda batch: (batch, [0]), rows, "returned 2 results and 1 row numbers"),
        ("flat_map", "arrow", lambda batch: (batch, [0, 2]), rows, "named row 2 of 2; number rows from 0"),
        ("flat_map", "arrow", lambda batch: (batch, [-1, 0]), rows, "number rows from 0"),
        ("flat_map", "arrow", lambda batch: (batch, [0.0, 1.0]), rows, "are no numbers of rows"),
        ("map", "arrow", lambda batch: batch.select(["x"]), RECORDS["dataclass"], "not those of the records' class"),
        ("map", "arrow", lambda batch: batch, [1, 2.5], "the records are values of several types"),
        ("map", "arrow", lambda batch: batch, [{"a": 1, "b": {2}}, {"a": 2, "b": {3}}], "field 'b' holds values"),
        ("map", "arrow", lambda batch: batch, [{"a": {"c": 1}}, {"a": {"c": "x"}}], r"field 'a\.c' holds values"),
        ("map", "arrow", lambda batch: batch, [{"a": 1}, None], "a record is None among records"),
        ("map", "numpy", lambda batch: batch, [1, None], "numpy's int64 has no value"),
        ("map", "numpy", lambda batch: batch, [{"a": True}, {"a": None}], "field 'a' is None, for which numpy's bool"),
    ]


@pytest.mark.parametrize(("method", "format", "function", "rows", "message"), wrong_results())
def test_what_cannot_be_taken_is_refused(method, format, function, rows, message):
    with pytest.raises(JobError, match=message):
        result(method, vectorized(format)(function), rows)


def test_a_declared_output_type_says_what_kind_of_record_it_is():
    add = vectorized("arrow")(lambda batch: batch.append_column("y", batch.column("x")))
    points = RECORDS["dataclass"]
    assert result("map", add, points, Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])) == [
        (1, "a", 1),
        (2, "b", 2),
    ]
    names = ["y", "x", "name"]
    rows = result("map", add, points, Types.ROW_NAMED(names, [Types.LONG(), Types.LONG(), Types.STRING()]))
    assert rows == [Row(y=1, x=1, name="a"), Row(y=2, x=2, name="b")]
    fields = {"x": Types.LONG(), "name": Types.STRING(), "y": Types.LONG()}
    assert result("map", add, points, Types.DICT(fields))[0] == {"x": 1, "name": "a", "y": 1}
    to_points = vectorized("arrow")(lambda column: {"x": column, "name": pc.cast(column, pa.string())})
    assert result("map", to_points, [1, 2], Types.DATACLASS(Point)) == [Point(1, "1"), Point(2, "2")]


def test_a_declared_input_type_converts_and_refuses():
    function = vectorized("numpy", input_type=float)(lambda column: column * 2)
    assert result("map", function, [1, 2.5]) == [2.0, 5.0]
    with pytest.raises(TypeMismatchError, match=r"'map' got 'x', .* DOUBLE; declare the type"):
        result("map", function, ["x"])


def test_a_batch_without_records_never_reaches_the_function():
    def never(columns: Any) -> Any:
        raise AssertionError

    assert emitted("map", vectorized("arrow")(never), []) == []


def test_an_object_with_open_and_close_may_be_vectorised():
    calls: list[str] = []

    class Scale(MapFunction):
        def open(self, runtime_context: Any) -> None:
            calls.append("open")
            self.factor = 3

        def map(self, value: Any) -> Any:
            return value * self.factor

        def close(self) -> None:
            calls.append("close")

    assert result("map", vectorized("numpy")(Scale()), [1, 2]) == [3, 6]
    assert calls == ["open", "close"]


def local() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(runtime="local")


def test_it_is_still_the_function_it_was():
    @vectorized("numpy")
    def double(column: Any) -> Any:
        """Double."""
        return column * 2

    assert double(np.array([1, 2])).tolist() == [2, 4]
    assert (double.__name__, double.__doc__) == ("double", "Double.")
    assert repr(double).startswith("vectorized('numpy')(")


def test_wrong_declarations_are_refused_where_they_stand():
    class Scale(MapFunction):
        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(InvalidArgumentError, match="there is no format 'polars'"):
        vectorized("polars")  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="5 is no function"):
        vectorized("arrow")(5)
    with pytest.raises(TypeMismatchError, match=r"is a class, not an object; .*; write vectorized\(...\)\(Scale\(\)\)"):
        vectorized("arrow")(Scale)
    stream = local().from_collection([1])
    with pytest.raises(TypeMismatchError, match=r"Scale has no method 'filter'; test_vectorised\.py:\d+; write"):
        stream.filter(vectorized("arrow")(Scale()))
    with pytest.raises(TypeMismatchError, match=r"is not a KeySelector; test_vectorised\.py:\d+"):
        stream.key_by(vectorized("arrow")(lambda column: column))


def test_failures_name_the_users_line():
    def boom(column: Any) -> Any:
        msg = "boom"
        raise ValueError(msg)

    with pytest.raises(UserFunctionError, match=r"ValueError: boom; .*test_vectorised\.py:\d+") as raised:
        list(local().from_collection([1]).map(vectorized("numpy")(boom)).execute_and_collect())
    assert raised.value.location is not None
    with pytest.raises(JobError, match=r"got 1 rows and returned 0; test_vectorised\.py:\d+; return one value"):
        list(local().from_collection([1]).map(vectorized("numpy")(lambda n: n[1:])).execute_and_collect())


def test_keyed_streams_and_chains_stay_on_columns():
    env = local()
    plus = vectorized("numpy")(lambda frame: {**frame, "v": frame["v"] + 1})
    odd = vectorized("pandas")(lambda frame: frame.v % 2 == 1)
    twice = vectorized("arrow")(lambda batch: (pa.concat_batches([batch, batch]), [*range(len(batch))] * 2))
    records = [{"k": "ab"[n % 2], "v": n} for n in range(6)]
    keyed = env.from_collection(records).key_by("k")
    found = keyed.map(plus).filter(odd).key_by("k").flat_map(twice).key_by("k").filter(odd)
    sink = CollectSink()
    found.sink_to(sink)
    explained = env.explain()
    env.execute("chain")
    assert sorted(record["v"] for record in sink.results) == [1, 1, 3, 3, 5, 5]
    assert "vectorised" in explained
    assert "per record" not in explained
