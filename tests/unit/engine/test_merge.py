"""Merging: wherever an operator's input is cut into runs, it is the same input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.merge import RunMerger, empty_batch, place_in_lane, tracks_of
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.ops.batch import FIRST, LAST, Batch, Values
from flintstream.ops.clock import EventClock, LaneTime
from flintstream.ops.run import Run
from tests.unit.lanes import Lane, lane, operator_starts, simulate, some_lanes
from tests.unit.values import law

WIDTH = 5


class Arrival(NamedTuple):
    """A record as an operator sees it."""

    value: str
    port: int
    stamp: tuple[int, ...]
    timestamp: int
    watermark: int


class Input(NamedTuple):
    """What reaches an operator: sorted batches by port, and its clock."""

    lanes: list[Lane]
    start: int
    parts: list[tuple[int, Batch]]

    def merger(self, ports: int = 2) -> RunMerger:
        lanes = {each.number: each.start for each in self.lanes}
        clock = EventClock(self.start, lanes, {each.number: each.track() for each in self.lanes})
        return RunMerger(clock, WIDTH, ports, now=99)


def batch_of(stamps: list[tuple[int, ...]]) -> Batch:
    columns = [np.array(column, np.int64) for column in zip(*stamps, strict=True)]
    names = [str(stamp) for stamp in stamps]
    return Batch(Values(names), np.arange(len(stamps)) + columns[2], columns, None, Values([n[-2] for n in names]))


@st.composite
def inputs(draw: st.DrawFn) -> Input:
    """Records of some lanes, dealt out to blobs: some as level 0 sends them, some with stamps that grew on the way."""
    lanes = draw(some_lanes())
    records = sorted(record for each in lanes for record in each.records())
    blobs = draw(st.integers(1, 4))
    dealt: list[list[tuple[int, ...]]] = [[] for _ in range(blobs)]
    for record in records:
        dealt[draw(st.integers(0, blobs - 1))].append(record)
    parts: list[tuple[int, Batch]] = []
    for stamps in dealt:
        if stamps:
            grown = draw(st.booleans())
            longer = [(*stamp, 4, number) for number, stamp in enumerate(stamps)] if grown else stamps
            parts.append((draw(st.integers(0, 1)), batch_of(longer)))
    return Input(lanes, draw(operator_starts(lanes)), parts)


def replay(runs: list[Run | None]) -> tuple[list[Arrival], list[tuple[int, int, tuple[int, ...]]]]:
    """Return all records, and all advances as (watermark, records before it, stamp), of successive runs."""
    arrivals: list[Arrival] = []
    advances: list[tuple[int, int, tuple[int, ...]]] = []
    end: int | None = None
    for run in runs:
        if run is None:
            continue
        assert end is None or run.start == end
        assert run.now == 99
        end = run.end
        places = [len(arrivals) + place for place in run.insertion.tolist()]
        stamps = zip(*(column.tolist() for column in run.stamp), strict=True)
        advances += zip(run.watermarks.tolist(), places, stamps, strict=True)
        batch = run.batch
        assert batch.watermarks is not None
        rows = zip(
            batch.values.rows(),
            [0] * len(batch) if run.inputs is None else run.inputs.tolist(),
            zip(*(column.tolist() for column in batch.stamp), strict=True),
            batch.timestamps.tolist(),
            batch.watermarks.tolist(),
            strict=True,
        )
        arrivals += [Arrival(*row) for row in rows]
        assert batch.keys is not None
        assert batch.keys.rows() == [value[-2] for value in batch.values.rows()]
    return arrivals, advances


def all_at_once(made: Input) -> tuple[list[Arrival], Any]:
    merger = made.merger()
    for port, batch in made.parts:
        merger.add(port, batch)
    return replay([merger.cut(None)])


@law
@given(inputs())
def test_one_cut_gives_everything_in_the_order_of_the_stamps(made: Input) -> None:
    arrivals, advances = all_at_once(made)
    stamps = [arrival.stamp for arrival in arrivals]
    assert stamps == sorted(stamps)
    sent = sorted((value, port) for port, batch in made.parts for value in batch.values.rows())
    assert sorted((arrival.value, arrival.port) for arrival in arrivals) == sent
    wanted, befores = simulate(made.start, made.lanes, sorted(stamp[:3] for stamp in stamps))
    assert [arrival.watermark for arrival in arrivals] == befores
    assert advances == [(each.watermark, each.insertion, (*each.stamp, LAST, LAST)) for each in wanted]


BOUNDS = st.lists(
    st.tuples(st.integers(-4, 13) | st.just(FIRST), st.sampled_from([0, 1, 1 << 40]), st.integers(0, 9)), max_size=4
)


@law
@given(inputs(), BOUNDS, st.booleans())
def test_any_cuts_give_the_same_records_watermarks_and_advances(made: Input, bounds: list[Any], short: bool) -> None:
    merger = made.merger()
    for port, batch in made.parts:
        merger.add(port, batch)
    runs = [merger.cut(bound[:2] if short else bound) for bound in sorted(bounds)]
    runs.append(merger.cut(None))
    assert replay(runs) == all_at_once(made)
    assert merger.rest() == []
    assert merger.cut(None) is None


@law
@given(inputs(), st.data())
def test_blobs_can_be_processed_up_to_the_first_stamp_of_the_next(made: Input, data: st.DataObject) -> None:
    merger = made.merger()
    runs: list[Run | None] = []
    for port, batch in sorted(made.parts, key=lambda part: tuple(int(column[0]) for column in part[1].stamp[:3])):
        if data.draw(st.booleans()):
            runs.append(merger.cut([int(column[0]) for column in batch.stamp[:3]]))
        merger.add(port, batch)
    runs.append(merger.cut(None))
    assert replay(runs) == all_at_once(made)


@law
@given(inputs(), BOUNDS)
def test_what_is_held_back_can_be_given_again_in_the_next_epoch(made: Input, bounds: list[Any]) -> None:
    merger, again = made.merger(), made.merger()
    for port, batch in made.parts:
        merger.add(port, batch)
    first = merger.cut(max(bounds, default=(FIRST, 0, 0)))
    for port, batch in merger.rest():
        again.add(port, batch)
    assert merger.rest() == []
    later = again.cut(None)
    seen = replay([first])[0] + [arrival for run in [later] if run is not None for arrival in replay([run])[0]]
    assert [arrival[:4] for arrival in seen] == [arrival[:4] for arrival in all_at_once(made)[0]]


def test_with_one_input_nobody_asks_which() -> None:
    only = Lane(0, LaneTime(), (5,), (), False)
    made = Input([only], FIRST, [(0, batch_of(only.records()))])
    merger = made.merger(ports=1)
    merger.add(*made.parts[0])
    run = merger.cut(None)
    assert run is not None
    assert run.inputs is None
    assert merger.watermark == 5


def test_time_advances_without_any_record() -> None:
    merger = Input([Lane(0, LaneTime(3), (), (), True)], 3, []).merger()
    run = merger.cut(None)
    assert run is not None
    assert (len(run.batch), run.end, merger.watermark) == (0, MAX_TIMESTAMP, MAX_TIMESTAMP)


def test_an_empty_batch_has_all_its_columns() -> None:
    batch = empty_batch(4)
    assert (len(batch), len(batch.stamp), batch.values.rows()) == (0, 4, [])


@law
@given(lane(7))
def test_stamps_of_chunks_become_stamps_of_their_lane(whole: Lane) -> None:
    track = whole.track()
    placed: list[tuple[int, ...]] = []
    for chunk in whole.chunks() if whole.wanted else []:
        (begin,) = chunk.order
        own, before = [], whole.start.newest
        for level in whole.wanted[begin : begin + chunk.count]:
            own.append(before)
            before = max(before, level)
        columns = [np.array(own, np.int64), np.full(chunk.count, 7), np.arange(chunk.count), np.zeros(chunk.count)]
        batch = place_in_lane(Batch(Values(own), columns[2], columns), track, chunk.order)
        placed += zip(*(column.tolist() for column in batch.stamp[:3]), strict=True)
    assert placed == whole.records()


def test_lanes_are_found_by_their_assigner() -> None:
    tracks = {number: Lane(number, LaneTime(), (), (), False).track() for number in (1, (2 << 40) | 7, 3 << 40)}
    assert set(tracks_of(tracks, frozenset([0, 3]), 40)) == {1, 3 << 40}
