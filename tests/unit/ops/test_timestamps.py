from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import DefinitionError
from flintstream.model.row import Row
from flintstream.model.time import MIN_TIMESTAMP, Instant
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.batch import NO_TIMESTAMP, Batch, Values
from flintstream.ops.clock import LaneTime, track_lane
from flintstream.ops.timestamps import ChunkTime, TimestampsOperator, untimed
from tests.unit.values import law

LANE = (2 << 40) | 5
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness("2 ms")
STRATEGIES = [BOUNDED, WatermarkStrategy.for_monotonous_timestamps(), WatermarkStrategy.no_watermarks()]


class Caught:
    """An output that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def emit(self, batch: Batch, tag: str = "") -> None:
        self.batches.append(batch)


def assign(strategy: WatermarkStrategy, chunk: ChunkTime, batches: list[Values]) -> list[Batch]:
    """Run batches of one chunk through the operator, as a source hands them over."""
    operator, out = TimestampsOperator(strategy), Caught()
    operator.chunk = chunk
    source = ChunkTime(0, chunk.order, MIN_TIMESTAMP)
    for values in batches:
        operator.process(untimed(values, source), 0, out)
    return out.batches


TIMES = st.lists(st.integers(-20, 20) | st.just(NO_TIMESTAMP), min_size=1, max_size=12)


@law
@given(
    TIMES,
    st.sets(st.integers(1, 11), max_size=3),
    st.sampled_from(STRATEGIES),
    st.just(MIN_TIMESTAMP) | st.integers(-9, 9),
)
def test_watermarks_are_those_of_one_record_at_a_time(
    times: list[int], cuts: set[int], strategy: WatermarkStrategy, carry: int
) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(times)), len(times)]
    batches = [Values(times[start:stop]) for start, stop in itertools.pairwise(bounds)]
    chunk = ChunkTime(LANE, (7,), carry)
    found = assign(strategy.with_timestamp_assigner(lambda value, _: value), chunk, batches)
    before, highest = [carry], MIN_TIMESTAMP
    for time in times:
        highest = max(highest, time)
        before.append(max(before[-1], strategy.watermark_after(highest)))
    assert [t for batch in found for t in batch.timestamps.tolist()] == times
    assert [w for batch in found for w in batch.stamp[0].tolist()] == before[:-1]
    assert [w for batch in found if batch.watermarks is not None for w in batch.watermarks.tolist()] == before[:-1]
    assert {lane for batch in found for lane in batch.stamp[1].tolist()} == {LANE}
    assert [p for batch in found for p in batch.stamp[2].tolist()] == list(range(len(times)))
    steps = chunk.steps()
    rises = [(index, after) for index, (b, after) in enumerate(itertools.pairwise(before)) if after > b]
    assert list(zip(steps.positions.tolist(), steps.watermarks.tolist(), strict=True)) == rises
    assert (steps.lane, steps.order, steps.count) == (LANE, (7,), len(times))


@law
@given(TIMES, st.integers(0, 12), st.just(MIN_TIMESTAMP) | st.integers(-9, 9))
def test_chunks_of_a_split_combine_to_the_whole(times: list[int], cut: int, carry: int) -> None:
    strategy = BOUNDED.with_timestamp_assigner(lambda value, _: value)

    def steps_of(*parts: list[int]) -> Any:
        chunks = [ChunkTime(LANE, (number,), carry) for number, _ in enumerate(parts)]
        for chunk, part in zip(chunks, parts, strict=True):
            assign(strategy, chunk, [Values(part)] if part else [])
        track = track_lane(LaneTime(carry), [chunk.steps() for chunk in chunks], finish=True)
        return [getattr(track, name).tolist() for name in ("before", "positions", "levels")], track.count, track.after

    assert steps_of(times[:cut], times[cut:]) == steps_of(times)


MOMENT = dt.datetime(2026, 1, 1, 0, 0, 0, 1999)
MILLIS = 1767225600001
SPELLINGS = [
    [MILLIS],
    [np.int64(MILLIS)],
    [MOMENT],
    [MOMENT.replace(tzinfo=dt.UTC)],
    [MOMENT.replace(hour=3, tzinfo=dt.timezone(dt.timedelta(hours=3)))],
    [Instant.of_epoch_milli(MILLIS)],
]


@pytest.mark.parametrize("values", SPELLINGS, ids=repr)
def test_a_timestamp_may_be_written_in_many_ways_and_is_rounded_down(values: list[Any]) -> None:
    by_function = BOUNDED.with_timestamp_assigner(lambda value, _: value["t"])
    by_name = BOUNDED.with_timestamp_column("t")
    rows = [{"t": value} for value in values]
    as_column = Values(rows)
    as_column.column()
    for strategy, records in ((by_function, Values(rows)), (by_name, Values(rows)), (by_name, as_column)):
        (batch,) = assign(strategy, ChunkTime(LANE, (), MIN_TIMESTAMP), [records])
        assert batch.timestamps.tolist() == [MILLIS]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_columns_of_any_unit_and_zone_are_points_in_time(unit: str, zone: str | None) -> None:
    per_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    ticks = [-1, 0, 1_767_225_600 * per_second + per_second // 3]
    times = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))
    records = Values(None, pa.StructArray.from_arrays([times], ["t"]), ["row", ["t"], ["any"]])
    (batch,) = assign(BOUNDED.with_timestamp_column("t"), ChunkTime(LANE, (), MIN_TIMESTAMP), [records])
    assert batch.timestamps.tolist() == [tick * 1000 // per_second for tick in ticks]


@pytest.mark.parametrize("value", [None, 1.5, "soon", dt.date(2026, 1, 1)], ids=repr)
def test_what_is_no_time_is_refused(value: Any) -> None:
    rows = [{"t": value}]
    as_column = Values(rows)
    as_column.column()
    for strategy, records in (
        (BOUNDED.with_timestamp_assigner(lambda row, _: row["t"]), Values(rows)),
        (BOUNDED.with_timestamp_column("t"), Values(rows)),
        (BOUNDED.with_timestamp_column("t"), as_column),
    ):
        with pytest.raises(DefinitionError, match="neither milliseconds nor a datetime"):
            assign(strategy, ChunkTime(LANE, (), MIN_TIMESTAMP), [records])


def test_a_null_among_times_is_refused_and_not_taken_for_a_number() -> None:
    times = pa.array([MOMENT, None], pa.timestamp("us"))
    records = Values(None, pa.StructArray.from_arrays([times], ["t"]), ["row", ["t"], ["datetime"]])
    with pytest.raises(DefinitionError, match="None"):
        assign(BOUNDED.with_timestamp_column("t"), ChunkTime(LANE, (), MIN_TIMESTAMP), [records])


def test_an_assigner_sees_the_timestamp_that_was_there() -> None:
    operator, out = (
        TimestampsOperator(BOUNDED.with_timestamp_assigner(lambda value, previous: previous + value)),
        Caught(),
    )
    operator.chunk = ChunkTime(LANE, (), MIN_TIMESTAMP)
    numbers = np.arange(2)
    operator.process(Batch(Values([1, 2]), numbers + 100, [numbers] * 3), 0, out)
    assert out.batches[0].timestamps.tolist() == [101, 103]


def test_without_an_assigner_the_timestamps_stay() -> None:
    operator, out = TimestampsOperator(BOUNDED), Caught()
    operator.chunk = ChunkTime(LANE, (), MIN_TIMESTAMP)
    numbers = np.arange(2)
    operator.process(Batch(Values([Row(1), Row(2)]), numbers + 100, [numbers] * 3), 0, out)
    assert out.batches[0].timestamps.tolist() == [100, 101]


def test_records_of_a_source_have_no_time_and_are_numbered_through_their_chunk() -> None:
    chunk = ChunkTime(LANE, (), 42)
    first, second = untimed(Values(["a", "b"]), chunk), untimed(Values(["c"]), chunk)
    assert first.timestamps.tolist() == [NO_TIMESTAMP, NO_TIMESTAMP]
    assert [column.tolist() for column in second.stamp] == [[42], [LANE], [2]]
    assert chunk.steps().count == 3
    assert chunk.steps().positions.tolist() == []
