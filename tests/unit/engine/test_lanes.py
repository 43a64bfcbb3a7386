"""The split table: lanes from epoch to epoch, through manifests, idleness and other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.engine.lanes import LaneBook
from flintstream.engine.manifest import Manifest
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.clock import ChunkSteps, LaneTime
from flintstream.ops.timestamps import LANE_SHIFT, lane_of
from flintstream.planner.plan import Plan
from tests.unit.graphs import MONOTONOUS, Sketch, by_key
from tests.unit.values import law

IDLE = MONOTONOUS.with_idleness("5s")


def number(assigner: int, split: int = 0, source: int = 0) -> int:
    return lane_of(assigner, source, split)


def steps(lane: int, levels: Sequence[int], count: int | None = None, finished: bool = False) -> ChunkSteps:
    """A chunk whose every record raises the watermark."""
    size = len(levels) if count is None else count
    return ChunkSteps(lane, (0,), np.arange(len(levels)), np.array(levels, np.int64), size, finished)


def epoch(book: LaneBook, now: int, *chunks: ChunkSteps, finishing: frozenset[int] = frozenset()) -> Manifest:
    """Run an epoch whose tasks report these chunks; return its manifest."""
    context = EpochContext("job", "i", 1, now, book.at(now), finishing, {}, (), {})
    manifest = Manifest("job", "i", 1, now)
    reports = [TaskReport(0, index, 0, "", chunks=[chunk]) for index, chunk in enumerate(chunks)]
    book.advance(context, reports, manifest)
    return manifest


def timed_source(deterministic: bool = False) -> tuple[Plan, int]:
    """One source (assigner 0) with a strategy behind it (assigner 1)."""
    sketch = Sketch()
    source = sketch.source()
    sketch.sink(by_key(sketch.timestamps(source, strategy=MONOTONOUS if deterministic else IDLE)))
    return sketch.plan(deterministic=deterministic), source


def test_every_split_has_a_lane_for_its_source_and_each_strategy_it_passes() -> None:
    sketch = Sketch()
    first, second = sketch.source(), sketch.source()
    timed = sketch.timestamps(sketch.function(first))
    behind = sketch.timestamps(by_key(timed))
    sketch.sink(behind, second)
    book = LaneBook(sketch.plan(), {first: [0, 1], second: [7]})
    assert book.lanes_of(first, 1) == [number(0, 1), number(2, 1)]
    assert book.lanes_of(second, 7) == [number(1, 7, source=1)]
    # A strategy behind an exchange sees the stream in one piece: it has one lane.
    of_sources = {number(0), number(0, 1), number(1, 7, source=1), number(2), number(2, 1)}
    assert set(book.at(1)) == {*of_sources, 3 << LANE_SHIFT}
    assert book.unfinished() == set(book.at(1))


def test_splits_of_two_sources_before_one_strategy_are_two_lanes() -> None:
    sketch = Sketch()
    first, second = sketch.source(), sketch.source()
    sketch.sink(sketch.timestamps(first, second))
    book = LaneBook(sketch.plan(), {first: [0], second: [0]})
    assert set(book.lanes_of(first, 0)).isdisjoint(book.lanes_of(second, 0))


def test_lanes_go_on_where_the_last_epoch_left_them() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0]})
    epoch(book, 1000, steps(number(1), [5, 9], count=4))
    manifest = epoch(book, 2000, steps(number(1), [7, 12], count=3))
    assert manifest.lanes[number(1)] == LaneTime(12, 7, active_at=2000)
    assert manifest.lanes[number(0)] == LaneTime(MIN_TIMESTAMP, 0, active_at=1000)
    assert manifest.lane_owners == {0: "source-1", 1: "timestamps-1"}


def test_a_lane_that_ends_is_over_for_good() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0, 1]})
    epoch(book, 1000, steps(number(1, 0), [5], finished=True))
    assert number(1, 0) not in book.unfinished()
    assert number(1, 1) in book.unfinished()
    manifest = epoch(book, 2000, finishing=book.unfinished())
    assert {time.watermark for time in manifest.lanes.values()} == {MAX_TIMESTAMP}
    assert book.unfinished() == frozenset()


def test_a_lane_is_idle_after_its_timeout_without_records() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0, 1]})
    assert book.follows_clock
    epoch(book, 1000, steps(number(1, 0), [5]), steps(number(1, 1), [6]))
    epoch(book, 4000, steps(number(1, 0), [8]))
    assert not book.at(5999)[number(1, 1)].idle
    assert book.at(6000)[number(1, 1)].idle
    assert not book.at(6000)[number(1, 0)].idle
    # Records that do not raise the watermark are a sign of life as well.
    epoch(book, 6500, steps(number(1, 1), [], count=2))
    assert not book.at(11_000)[number(1, 1)].idle


def test_lanes_without_a_timeout_are_never_idle() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0]})
    assert not book.at(10**15)[number(0)].idle
    sketch = Sketch()
    sketch.sink(sketch.source())
    assert not LaneBook(sketch.plan(), {}).follows_clock


def test_idleness_is_not_written_into_the_manifest() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0]})
    epoch(book, 1000, steps(number(1), [5]))
    assert book.at(99_000)[number(1)].idle
    assert not any(time.idle for time in epoch(book, 99_000).lanes.values())


def test_a_restored_lane_waits_for_its_timeout_anew() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0]})
    manifest = epoch(book, 1000, steps(number(1), [5]))
    other = LaneBook(plan, {source: [0]})
    other.restore(manifest)
    assert not other.at(99_000)[number(1)].idle
    assert other.at(104_000)[number(1)].idle
    assert other.at(99_000)[number(1)].watermark == 5


def test_lanes_follow_their_operators_uid_into_another_program() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0]})
    manifest = epoch(book, 1000, steps(number(1), [5]), steps(number(0), [], count=3))
    sketch = Sketch()
    new = sketch.source(uid="new")
    kept = sketch.source(uid="source-1")
    timed = sketch.timestamps(kept, uid="timestamps-1")
    sketch.sink(new, timed)
    other = LaneBook(sketch.plan(), {new: [0], kept: [0]})
    other.restore(manifest)
    lanes = other.at(2000)
    assert set(lanes) == {number(0), number(1, source=1), number(2, source=1)}
    assert [time.count for time in lanes.values()] == [0, 3, 1]
    assert lanes[number(2, source=1)].watermark == 5


def test_the_lane_of_a_strategy_behind_an_exchange_is_restored_too() -> None:
    def book_of(*before: str) -> LaneBook:
        sketch = Sketch()
        sources = [sketch.source(uid=uid) for uid in (*before, "source")]
        sketch.sink(sketch.timestamps(by_key(sources[-1]), uid="late"), *sources)
        return LaneBook(sketch.plan(), {source: [0] for source in sources})

    manifest = epoch(book_of(), 1000, steps(1 << LANE_SHIFT, [5]))
    other = book_of("another")
    other.restore(manifest)
    assert other.at(2000)[2 << LANE_SHIFT].watermark == 5


def test_a_source_that_is_gone_takes_its_lanes_with_it() -> None:
    sketch = Sketch()
    sources = [sketch.source(uid=uid) for uid in ("kept", "gone")]
    sketch.sink(sketch.timestamps(*sources, uid="timed"))
    book = LaneBook(sketch.plan(), {source: [0] for source in sources})
    manifest = epoch(book, 1000, steps(number(2, source=0), [5]), steps(number(2, source=1), [3]))
    sketch = Sketch()
    source = sketch.source(uid="kept")
    sketch.sink(sketch.timestamps(source, uid="timed"))
    other = LaneBook(sketch.plan(), {source: [0]})
    other.restore(manifest)
    assert {lane: time.watermark for lane, time in other.at(2000).items()} == {
        number(0): MIN_TIMESTAMP,
        number(1): 5,
    }


@law
@given(st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=2, max_size=2), st.integers(0, 4), st.integers(0, 4))
def test_deterministic_order_keeps_the_steps_it_has_not_passed(levels: list[list[int]], one: int, two: int) -> None:
    rising = [sorted(set(each)) for each in levels]
    plan, source = timed_source(deterministic=True)
    whole, cut = LaneBook(plan, {source: [0, 1]}), LaneBook(plan, {source: [0, 1]})
    epoch(whole, 1000, *(steps(number(1, split), each) for split, each in enumerate(rising)))
    for part in (0, 1):
        pieces = [each[:at] if part == 0 else each[at:] for each, at in zip(rising, (one, two), strict=True)]
        epoch(cut, 1000, *(steps(number(1, split), each) for split, each in enumerate(pieces)))
    assert cut.at(1000) == whole.at(1000)
    lanes = [whole.at(1000)[number(1, split)] for split in (0, 1)]
    assert [lane.newest for lane in lanes] == [each[-1] if each else MIN_TIMESTAMP for each in rising]
    lowest = min((lane.newest, split) for split, lane in enumerate(lanes))
    for split, (lane, each) in enumerate(zip(lanes, rising, strict=True)):
        # A step is passed if it begins no higher than the lowest lane stands, which may bring more from there on.
        passed = sum((before, split) <= lowest for before in [MIN_TIMESTAMP, *each[:-1]][: len(each)])
        assert lane.watermark == (each[passed - 1] if passed else MIN_TIMESTAMP)
        assert lane.pending == (tuple(range(passed, len(each))), tuple(each[passed:]))


def test_without_deterministic_order_nothing_is_pending() -> None:
    plan, source = timed_source()
    book = LaneBook(plan, {source: [0, 1]})
    manifest = epoch(book, 1000, steps(number(1, 0), [5, 9]))
    assert manifest.lanes[number(1, 0)] == replace(LaneTime(9, 2), active_at=1000)
