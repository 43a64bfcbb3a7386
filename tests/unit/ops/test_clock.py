"""The clock's closed form, against a simulation that plays every step and record one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import FIRST
from flintstream.ops.clock import END_POSITION, ChunkSteps, EventClock, LaneTime, LaneTrack, frontier, track_lane
from flintstream.ops.run import watermarks_before
from tests.unit.lanes import Advance, Lane, lane, operator_starts, simulate, some_lanes
from tests.unit.values import law


def clock_of(start: int, lanes: list[Lane]) -> EventClock:
    return EventClock(start, {each.number: each.start for each in lanes}, {each.number: each.track() for each in lanes})


def advances_of(clock: EventClock, stamp: list[Any]) -> list[Advance]:
    stamps = zip(*(column.tolist() for column in clock.stamp), strict=True)
    insertion = clock.insertion(stamp).tolist()
    return [Advance(*row) for row in zip(stamps, clock.watermarks.tolist(), insertion, strict=True)]


def columns_of(records: list[tuple[int, int, int]]) -> list[Any]:
    return [np.array([record[index] for record in records], np.int64) for index in range(3)]


@law
@given(some_lanes(), st.data())
def test_the_clock_is_the_simulation(lanes: list[Lane], data: st.DataObject) -> None:
    start = data.draw(operator_starts(lanes))
    everything = sorted(record for each in lanes for record in each.records())
    # A partition sees some of the records and all of the steps.
    mine = [record for record in everything if data.draw(st.booleans())]
    advances, befores = simulate(start, lanes, mine)
    clock = clock_of(start, lanes)
    stamp = columns_of(mine)
    assert advances_of(clock, stamp) == advances
    assert clock.end == (advances[-1].watermark if advances else start)
    assert watermarks_before(start, clock.watermarks, clock.insertion(stamp), len(mine)).tolist() == befores


@law
@given(some_lanes(), st.data())
def test_a_watermark_never_falls_and_never_passes_a_lane_that_is_there(lanes: list[Lane], data: st.DataObject) -> None:
    start = data.draw(operator_starts(lanes))
    clock = clock_of(start, lanes)
    assert (np.diff(np.append([start], clock.watermarks).astype(object)) > 0).all()
    active = [each for each in lanes if each.wanted or each.steps() or not each.start.idle]
    assert clock.end <= max(start, min((each.track().after for each in active), default=start))


@law
@given(lane(3), st.lists(st.integers(0, 8), max_size=6))
def test_a_lane_is_the_same_however_it_is_cut_into_chunks(whole: Lane, cuts: list[int]) -> None:
    one = replace(whole, cuts=()).track()
    cut = replace(whole, cuts=tuple(min(each, len(whole.wanted)) for each in cuts)).track()
    for name in ("positions", "before", "levels"):
        assert getattr(cut, name).tolist() == getattr(one, name).tolist()
    assert (cut.count, cut.after, cut.finished) == (one.count, one.after, one.finished)
    steps = list(zip(*(getattr(one, name).tolist() for name in ("before", "positions", "levels")), strict=True))
    assert steps == [(before, position, after) for before, _, position, after in whole.steps()]


@law
@given(lane(3), st.lists(st.integers(0, 8), max_size=4), st.randoms())
def test_chunks_stand_where_their_records_are(whole: Lane, cuts: list[int], random: Any) -> None:
    whole = replace(whole, cuts=tuple(min(each, len(whole.wanted)) for each in cuts))
    chunks = whole.chunks() if whole.wanted else []
    random.shuffle(chunks)
    track = track_lane(whole.start, chunks, whole.ends)
    befores = whole.befores()
    for chunk in chunks:
        (begin,) = chunk.order
        assert track.chunks[chunk.order] == (whole.start.count + begin, befores[begin])


@law
@given(lane(3), st.integers(0, 8))
def test_two_epochs_are_as_good_as_one(whole: Lane, cut: int) -> None:
    cut = min(cut, len(whole.wanted))
    first = replace(whole, wanted=whole.wanted[:cut], cuts=(), ends=False)
    track = first.track()
    between = LaneTime(track.after, track.count, finished=track.finished)
    second = Lane(whole.number, between, whole.wanted[cut:], (), whole.ends)
    assert first.steps() + second.steps() == whole.steps()
    assert second.track().after == whole.track().after


def test_a_chunk_that_says_so_ends_its_lane() -> None:
    steps = ChunkSteps(0, (0,), np.array([0]), np.array([5]), 1, finished=True)
    track = track_lane(LaneTime(), [steps], finish=False)
    assert track.finished
    assert track.after == MAX_TIMESTAMP
    assert track.positions.tolist() == [0, END_POSITION]
    assert track.levels.tolist() == [5, MAX_TIMESTAMP]
    assert track.before.tolist() == [MIN_TIMESTAMP, 5]


def test_a_lane_ends_once() -> None:
    track = track_lane(LaneTime(MAX_TIMESTAMP, 3, finished=True), [], finish=True)
    assert track.finished
    assert track.positions.tolist() == []


def test_the_minimum_waits_for_the_slowest_lane() -> None:
    fast = Lane(0, LaneTime(MIN_TIMESTAMP), (10, 20, 30), (), False)
    slow = Lane(1, LaneTime(MIN_TIMESTAMP), (15,), (), False)
    clock = clock_of(MIN_TIMESTAMP, [fast, slow])
    assert clock.watermarks.tolist() == [10, 15]


def test_time_goes_on_without_an_idle_lane() -> None:
    fast = Lane(0, LaneTime(40), (), (), False)
    idle = Lane(1, LaneTime(15, idle=True), (), (), False)
    clock = clock_of(15, [fast, idle])
    assert clock.watermarks.tolist() == [40]
    assert [column.tolist() for column in clock.stamp] == [[FIRST], [FIRST], [FIRST]]


def test_time_stands_still_if_all_lanes_are_idle() -> None:
    lanes = [Lane(0, LaneTime(40, idle=True), (), (), False), Lane(1, LaneTime(15, idle=True), (), (), False)]
    assert clock_of(15, lanes).watermarks.tolist() == []


def test_the_end_of_an_idle_lane_is_the_end_of_time() -> None:
    over = Lane(0, LaneTime(MAX_TIMESTAMP, finished=True), (), (), False)
    idle = Lane(1, LaneTime(15, idle=True), (), (), True)
    assert clock_of(15, [over, idle]).end == MAX_TIMESTAMP


def test_an_operator_without_lanes_stands_still() -> None:
    clock = EventClock(7, {}, {})
    assert clock.end == 7
    assert clock.insertion(columns_of([])).tolist() == []


@law
@given(some_lanes(), st.data())
def test_before_the_frontier_nothing_can_come_any_more(lanes: list[Lane], data: st.DataObject) -> None:
    tracks = {each.number: each.track() for each in lanes}
    bound = frontier(tracks)
    going_on = {number: track for number, track in tracks.items() if not track.finished}
    if bound is None:
        assert not going_on
        return
    for number, track in going_on.items():
        earliest = (track.after, number, track.count)
        # What the lowest lane brings next follows what it has brought; all others are beyond.
        assert earliest[:2] >= bound or bound == (track.after, number + 1)
    lowest = min((track.after, number) for number, track in going_on.items())
    assert bound == (lowest[0], lowest[1] + 1)


def test_a_lane_that_its_strategy_left_out_does_not_count_though_it_brings_records() -> None:
    fast, marked = LaneTrack(after=40), LaneTrack(after=15, is_marked=True)
    fast.chunks[0,] = marked.chunks[0,] = (0, 0)
    lanes = {0: LaneTime(40), 1: LaneTime(15, idle=True, is_marked=True)}
    assert EventClock(15, lanes, {0: fast, 1: marked}).end == 40
    marked.is_marked = False
    assert EventClock(15, lanes, {0: fast, 1: marked}).end == 15


def test_completeness_is_that_of_the_least_complete_lane_at_that_time() -> None:
    first = LaneTrack(after=40, estimates=((MIN_TIMESTAMP, 0.5), (10, 0.9), (30, 0.7)))
    second = LaneTrack(after=40, estimates=((20, 0.8),))
    lanes = {0: LaneTime(40), 1: LaneTime(40), 2: LaneTime(40)}
    clock = EventClock(0, lanes, {0: first, 1: second, 2: LaneTrack(after=40)})
    assert [clock.completeness(at) for at in (9, 10, 20, 30, MAX_TIMESTAMP)] == [0.5, 0.9, 0.8, 0.7, 1.0]
    assert EventClock(0, {2: LaneTime(40)}, {2: LaneTrack(after=40)}).completeness(MAX_TIMESTAMP) is None
