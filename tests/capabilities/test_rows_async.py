"""Rows 15, 18 and 55: calls that wait, vectorised functions, aggregates of the user's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flintstream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CollectSink,
    DataStream,
    Groups,
    MapFunction,
    OutputTag,
    Row,
    VectorizedAggregateFunction,
    bounded,
    computed_by,
    tumbling,
    vectorized,
)
from flintstream.errors import (
    DefinitionError,
    InvalidArgumentError,
    TypeMismatchError,
    UnknownTagError,
    UnserialisableFunctionError,
    UserFunctionError,
)
from tests.capabilities.support import Lists, collect, run, run_with_stops

RETRY = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: isinstance(error, ConnectionError))


class Lookup(AsyncFunction):
    """A service of many clients: says of each call how many were under way when it began."""

    def open(self, runtime_context: Any) -> None:
        self._room = asyncio.Event()
        self._under_way = 0

    async def async_invoke(self, value: int) -> list[tuple[int, int]]:
        self._under_way += 1
        begun = self._under_way
        if begun == 20:
            self._room.set()
        # Nobody is answered before 20 wait at a time: with less capacity this would never end.
        await self._room.wait()
        self._under_way -= 1
        return [(value, begun)]


@pytest.mark.row(15)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_twenty_of_a_hundred_lookups_wait_at_a_time(env, ordered):
    call = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    found = collect(call(env.from_collection(range(100)), Lookup(), "10min", capacity=20))
    assert [value for value, _ in found] == list(range(100))
    assert max(begun for _, begun in found) == 20


class Flaky(AsyncFunction):
    """Needs two attempts for odd numbers, and never answers for 7."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    async def async_invoke(self, value: int) -> list[str]:
        if value == 7:
            await asyncio.Event().wait()
        if value % 2 and value not in self._seen:
            self._seen.add(value)
            raise ConnectionError
        return [f"{value} found"]

    def timeout(self, value: int) -> list[str]:
        return [f"{value} unknown"]


@pytest.mark.row(15)
def test_what_fails_is_tried_again_and_what_hangs_is_given_up(env):
    numbers = env.from_collection(range(9))
    found = collect(AsyncDataStream.unordered_wait_with_retry(numbers, Flaky(), "1s", RETRY))
    assert found == [f"{n} unknown" if n == 7 else f"{n} found" for n in range(9)]


class Noted(MapFunction):
    """Fails at a number once; a file remembers that it did."""

    def __init__(self, folder: Path, at: int) -> None:
        self._burnt = folder / "burnt"
        self._at = at

    def map(self, value: Any) -> Any:
        if value["n"] == self._at and not self._burnt.exists():
            self._burnt.touch()
            raise RuntimeError
        return value


def looked_up(folder: Path, fails_at: int) -> Any:
    async def price(record: Any) -> Any:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{record['n']}\n")
        await asyncio.sleep(0)
        return {**record, "price": record["n"] % 3}

    def declare(env: Any, sink: CollectSink) -> None:
        records = [{"n": n, "key": "ab"[n % 2]} for n in range(40)]
        priced = env.from_source(Lists(records)).map_async(price, capacity=5).map(Noted(folder, fails_at))
        priced.key_by("key").map_with_state(
            lambda record, total: ((record["n"], (total or 0) + record["price"]), (total or 0) + record["price"])
        ).sink_to(sink)

    return declare


@pytest.mark.row(15)
def test_a_crash_repeats_calls_but_results_count_once(new_env, tmp_path):
    sink = CollectSink()

    def env() -> Any:
        return new_env(max_records=10, checkpoint_dir=tmp_path / "checkpoint")

    declare = looked_up(tmp_path, fails_at=25)
    with pytest.raises(UserFunctionError):
        run(env(), sink, declare)
    run(env(), sink, declare)
    totals = {"a": 0, "b": 0}
    wanted: list[tuple[int, int]] = []
    for n in range(40):
        totals["ab"[n % 2]] += n % 3
        wanted.append((n, totals["ab"[n % 2]]))
    assert sorted(sink.results) == wanted
    calls = [int(line) for line in (tmp_path / "calls").read_text().split()]
    assert sorted(calls) == sorted([*range(40), *range(20, 30)])


@pytest.mark.row(15)
def test_what_a_call_raises_ends_the_job_with_the_users_line(env):
    async def look_up(value: int) -> int:
        if value == 3:
            msg = "no such key"
            raise KeyError(msg)
        await asyncio.Event().wait()
        return value

    with pytest.raises(UserFunctionError, match=r"KeyError: 'no such key'; .*test_rows_async\.py:\d+") as raised:
        collect(env.from_collection(range(10)).map_async(look_up))
    assert raised.value.error_type == "KeyError"


@pytest.mark.row(15)
def test_wrong_calls_are_refused_where_they_are_declared(make_env):
    stream = make_env("local").from_collection([1])

    async def fine(value: int) -> int:
        return value

    class Plain(AsyncFunction):
        def async_invoke(self, value: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return [value]

    wrong: list[tuple[Any, Any, str]] = [
        (TypeMismatchError, lambda: stream.map_async(lambda value: value), "is no `async def` function"),
        (TypeMismatchError, lambda: stream.map_async(Lookup()), "is no `async def` function"),
        (TypeMismatchError, lambda: stream.map(fine), "must be waited for; .*; use map_async"),
        (TypeMismatchError, lambda: stream.filter(fine), "must be waited for"),
        (TypeMismatchError, lambda: AsyncDataStream.ordered_wait(stream, fine, 1), "is not an AsyncFunction"),
        (TypeMismatchError, lambda: AsyncDataStream.ordered_wait([1], Lookup(), 1), "is not a stream"),
        (TypeMismatchError, lambda: AsyncDataStream.ordered_wait(stream, Lookup, 1), "Lookup is a class"),
        (TypeMismatchError, lambda: AsyncDataStream.ordered_wait(stream, Plain(), 1), "is no `async def`"),
        (InvalidArgumentError, lambda: stream.map_async(fine, capacity=0), "capacity is 0"),
        (InvalidArgumentError, lambda: stream.map_async(fine, timeout=-1), "timeout is -1"),
        (InvalidArgumentError, lambda: stream.map_async(fine, timeout="soon"), "cannot be read as a length of time"),
        (InvalidArgumentError, lambda: stream.map_async(fine, retry=RETRY), "need a time limit"),
        (TypeMismatchError, lambda: stream.map_async(fine, retry=3, timeout=1), "is not an async retry strategy"),
        (InvalidArgumentError, lambda: stream.map_async(fine, ordered="no"), "ordered is 'no'"),
        (UnknownTagError, lambda: stream.map_async(fine).get_side_output(OutputTag("x")), "never emits"),
    ]
    for kind, declare, message in wrong:
        with pytest.raises(kind, match=message) as raised:
            declare()
        assert isinstance(raised.value, DefinitionError)
        assert "test_rows_async.py:" in str(raised.value)


@pytest.mark.row(15)
def test_a_client_that_cannot_be_sent_is_named(make_env):
    class Holds(AsyncFunction):
        def __init__(self) -> None:
            self.client = (value for value in ())

        async def async_invoke(self, value: int) -> list[int]:
            return [value]

    stream = AsyncDataStream.ordered_wait(make_env("local").from_collection([1]), Holds(), 0)
    with pytest.raises(UnserialisableFunctionError, match=r"attribute 'client' is a builtins\.generator"):
        collect(stream)


class Mean(AggregateFunction):
    """Row 18's associative aggregate, record by record."""

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Any, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value["v"], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Median(VectorizedAggregateFunction):
    """Row 18's holistic aggregate, on columns."""

    def accumulate(self, values: pa.Array) -> Any:
        return {"all": self.listed(values)}

    def merge(self, columns: Any, groups: Groups) -> Any:
        return {"all": groups.joined(columns["all"])}

    def get_result(self, columns: Any) -> Any:
        return np.array([np.median(each) for each in columns["all"].to_pylist()])


def readings(env: Any, count: int = 1000) -> DataStream:
    records = [{"id": n % 7, "ts": n, "v": float(n * 7919 % 1009)} for n in range(count)]
    return env.from_source(Lists(records), bounded("20ms", on="ts"))


def by_window(function: Any) -> dict[tuple[int, int], float]:
    wanted: dict[tuple[int, int], list[float]] = {}
    for n in range(1000):
        wanted.setdefault((n % 7, n // 100 * 100), []).append(float(n * 7919 % 1009))
    return {key: function(values) for key, values in wanted.items()}


@pytest.mark.row(18)
def test_a_mean_and_a_median_of_the_users_own_over_windows(new_env):
    env = new_env(max_records=300)
    windows = readings(env).key_by("id").window(tumbling("100ms"))
    medians, means = CollectSink(), CollectSink()
    windows.agg(m=computed_by(Median(), "v")).sink_to(medians)
    readings(env).key_by("id").window(tumbling("100ms")).aggregate(Mean()).sink_to(means)
    env.execute("own aggregates")
    assert {(row.id, row.window_start): row.m for row in medians.results} == by_window(np.median)
    assert sorted(means.results) == sorted(by_window(np.mean).values())


@vectorized("pandas")
def fahrenheit(frame: Any) -> Any:
    return frame.assign(v=frame.v * 1.8 + 32)


@vectorized("arrow")
def twice(batch: pa.RecordBatch) -> Any:
    rows = np.repeat(np.arange(batch.num_rows), 2)
    return batch.take(pa.array(rows)), rows


@vectorized("numpy")
def is_even(columns: Any) -> Any:
    return columns["id"] % 2 == 0


@pytest.mark.row(55)
def test_vectorised_functions_do_not_depend_on_batches(new_env, tmp_path):
    def declare(env: Any, sink: CollectSink) -> None:
        chain = readings(env).map(fahrenheit).filter(is_even).flat_map(twice)
        chain.key_by("id").map(lambda record: (record["id"], record["ts"], record["v"])).sink_to(sink)

    wanted = [(n % 7, n, float(n * 7919 % 1009) * 1.8 + 32) for n in range(1000) if n % 7 % 2 == 0 for _ in range(2)]
    for max_records, stops in ((0, []), (150, [2, 3])):
        folder = tmp_path / str(max_records)

        def env(max_records: int = max_records, folder: Path = folder) -> Any:
            return new_env(max_records=max_records, checkpoint_dir=folder)

        assert sorted(run_with_stops(env, declare, stops)) == sorted(wanted)


@pytest.mark.spark
@pytest.mark.row(55)
def test_rows_of_a_dataframe_come_as_their_columns(make_env, spark_session):
    frame = spark_session.sql("SELECT id, id * 2.5D AS x, CASE WHEN id > 1 THEN 'b' END AS name FROM range(4)")
    seen = vectorized("arrow")(lambda batch: pa.array([", ".join(map(str, batch.schema.types))] * len(batch)))
    half = vectorized("pandas")(lambda frame: frame.assign(x=frame.x / 2))
    env = make_env("spark")
    rows, types = CollectSink(), CollectSink()
    records = env.from_dataframe(frame)
    records.map(half).sink_to(rows)
    records.map(seen).sink_to(types)
    env.execute("columns")
    assert set(types.results) == {"int64, double, string"}
    wanted = [Row(id=n, x=n * 1.25, name="b" if n > 1 else None) for n in range(4)]
    assert sorted(rows.results, key=lambda row: row.id) == wanted
