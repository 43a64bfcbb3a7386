"""Vectorised and asynchronous functions obey the batching law, and give what functions of one record give.

Whatever way a run is cut, spread and interrupted, a vectorised function is handed the same rows, in the order of their
stream: it notes what it saw in its results.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    Groups,
    ProcessFunction,
    VectorizedAggregateFunction,
    bounded,
    computed_by,
    session,
    sliding,
    tumbling,
    vectorized,
)
from tests.laws.programs import Contents, Outputs, Timers, with_late
from tests.laws.runs import Input, Way, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, SPLITS, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)


class Tell(ProcessFunction):
    """Says of each record where it stands in time."""

    def process_element(self, value, ctx):
        yield value["key"], value["n"], ctx.timestamp(), ctx.timer_service().current_watermark()


@vectorized("pandas")
def shifted(frame: Any) -> Any:
    return frame.assign(n=frame.n * 10)


@vectorized("numpy")
def not_of_three(columns: Any) -> Any:
    return columns["n"] // 10 % 3 != 0


@vectorized("arrow")
def repeated(batch: pa.RecordBatch) -> Any:
    """Emit each record n // 10 % 4 times, numbered."""
    numbers = batch.column("n").to_numpy()
    times = numbers // 10 % 4
    rows = np.repeat(np.arange(len(numbers)), times)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    taken = batch.take(pa.array(rows))
    return {**dict(zip(taken.schema.names, taken.columns, strict=True)), "n": numbers[rows] + place}, rows


def one_by_one(record: Any) -> Any:
    """Do to one record what the three do."""
    shifted_n = record["n"] * 10
    if shifted_n // 10 % 3 != 0:
        for number in range(shifted_n // 10 % 4):
            yield {**record, "n": shifted_n + number}


def chain_on_columns(left: DataStream, right: DataStream) -> Outputs:
    found = left.map(shifted).filter(not_of_three).flat_map(repeated)
    behind = left.key_by("key").map(shifted).filter(not_of_three).flat_map(repeated)
    return {"main": found.process(Tell()), "keyed": behind.key_by("key").map(lambda r: r).process(Tell())}


def chain_by_record(left: DataStream, right: DataStream) -> Outputs:
    behind = left.key_by("key").flat_map(one_by_one)
    return {
        "main": left.flat_map(one_by_one).process(Tell()),
        "keyed": behind.key_by("key").map(lambda r: r).process(Tell()),
    }


class Later(AsyncFunction):
    """Gives what `one_by_one` gives, after more or less waiting."""

    async def async_invoke(self, value: Any) -> list[Any]:
        for _ in range(value["n"] * 7 % 5):
            await asyncio.sleep(0)
        return list(one_by_one(value))


def _waiting(call: Any, left: DataStream) -> Outputs:
    behind = call(left.key_by("key"), Later(), "1h", capacity=4)
    return {
        "main": call(left, Later(), "1h", capacity=3).process(Tell()),
        "keyed": behind.key_by("key").map(lambda r: r).process(Tell()),
    }


def calls_in_order(left: DataStream, right: DataStream) -> Outputs:
    return _waiting(AsyncDataStream.ordered_wait, left)


def calls_unordered(left: DataStream, right: DataStream) -> Outputs:
    return _waiting(AsyncDataStream.unordered_wait, left)


async def later(record: Any) -> Any:
    for _ in range(record["n"] * 5 % 7):
        await asyncio.sleep(0)
    return record


def _timed_anew(stream: DataStream) -> Outputs:
    """Assign event time again behind the calls, and put the results of a branch beside those of another."""
    timed = stream.assign_timestamps_and_watermarks(bounded("5ms", on="ts"))
    return with_late(timed.key_by("key").window(tumbling("10ms")), lambda windows: windows.process(Contents()))


def time_behind_calls(left: DataStream, right: DataStream) -> Outputs:
    both = left.map_async(later, capacity=4).union(left.filter(lambda record: record["n"] % 2 == 0))
    return {**_timed_anew(left.map_async(later, capacity=3)), "union": both.key_by("key").process(Timers())}


def time_behind_maps(left: DataStream, right: DataStream) -> Outputs:
    both = left.map(lambda record: record).union(left.filter(lambda record: record["n"] % 2 == 0))
    return {**_timed_anew(left.map(lambda record: record)), "union": both.key_by("key").process(Timers())}


@law(6)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways(), deterministic=st.booleans())
def test_event_time_goes_on_behind_calls_as_behind_a_map(split, bound, way, deterministic):
    records = Input(numbered([split]), bound=bound)
    wanted = results(time_behind_maps, records, PLAIN)
    assert results(time_behind_calls, records, Way(way.lives, deterministic)) == wanted


def results(program: Any, records: Input, way: Any) -> dict[str, Any]:
    return {name.partition(" ")[2]: found for name, found in run(program, records, way, local_env).items()}


@pytest.mark.parametrize("program", [chain_on_columns, calls_in_order, calls_unordered])
@law(6)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_one_split_gives_what_functions_of_one_record_give(program, split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert results(program, records, way) == results(chain_by_record, records, PLAIN)


class Median(VectorizedAggregateFunction):
    """Keeps all values."""

    def accumulate(self, values: pa.Array) -> Any:
        return {"all": self.listed(values)}

    def merge(self, columns: Any, groups: Groups) -> Any:
        return {"all": groups.joined(columns["all"])}

    def get_result(self, columns: Any) -> Any:
        return np.array([np.median(each) for each in columns["all"].to_pylist()])


def medians_of_tumbling(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(tumbling("10ms")), lambda w: w.agg(m=computed_by(Median(), "n")))


def medians_of_sliding(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(sliding("12ms", "4ms")), lambda w: w.agg(m=computed_by(Median(), "n")))


def medians_of_sessions(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(session("4ms")), lambda w: w.agg(m=computed_by(Median(), "n")))


@pytest.mark.parametrize("program", [medians_of_tumbling, medians_of_sliding, medians_of_sessions])
@law(5)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_aggregates_of_the_users_own_have_one_result(program, split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(program, records, way, local_env) == run(program, records, PLAIN, local_env)


@law(10)
@given(splits=SPLITS, way=ways())
def test_a_median_is_the_median_of_its_window(splits, way):
    records = Input(numbered(splits), bound=60)
    wanted: dict[Any, list[int]] = defaultdict(list)
    for record in (record for split in records.left for record in split):
        wanted[record["key"], record["ts"] // 10 * 10].append(record["n"])
    found = results(medians_of_tumbling, records, way)
    assert {(row.key, row.window_start): row.m for row in found["main"]} == {
        key: statistics.median(values) for key, values in wanted.items()
    }
