from __future__ import annotations

from flintstream.engine.restraint import Restraint, order_bound
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.watermarks import WatermarkStrategy, monotonous
from flintstream.ops.clock import LaneTime, LaneTrack
from flintstream.ops.timestamps import LANE_SHIFT, lane_of
from flintstream.planner.plan import Plan
from tests.unit.graphs import Sketch, by_key

RANGE = monotonous().between(0, 10)


def aligned(group: str, drift: int) -> WatermarkStrategy:
    return monotonous().with_watermark_alignment(group, drift)


def two_sources(first: WatermarkStrategy, second: WatermarkStrategy) -> tuple[Plan, list[tuple[int, int]]]:
    """Return a plan of two sources with a strategy each (assigners 2 and 3), and the only split of each source."""
    sketch = Sketch()
    sources = [sketch.source(), sketch.source()]
    timed = [sketch.timestamps(source, strategy=each) for source, each in zip(sources, (first, second), strict=True)]
    sketch.sink(*map(by_key, timed))
    return sketch.plan(), [(source, 0) for source in sources]


def lanes(first: LaneTime, second: LaneTime) -> dict[int, LaneTime]:
    return {lane_of(2, 0, 0): first, lane_of(3, 1, 0): second}


def test_a_split_beyond_the_drift_waits_for_the_slowest_of_its_group() -> None:
    plan, (fast, slow) = two_sources(aligned("g", 10), aligned("g", 10))
    restraint = Restraint(plan)
    assert restraint.paused(lanes(LaneTime(21), LaneTime(10)), [fast, slow]) == {fast}
    assert restraint.paused(lanes(LaneTime(20), LaneTime(10)), [fast, slow]) == frozenset()
    assert restraint.paused(lanes(LaneTime(5), LaneTime(MIN_TIMESTAMP)), [fast, slow]) == {fast}


def test_steps_that_are_still_to_be_passed_count() -> None:
    plan, (fast, slow) = two_sources(aligned("g", 10), aligned("g", 10))
    ahead = LaneTime(10, pending=((3,), (21,)))
    assert Restraint(plan).paused(lanes(ahead, LaneTime(10)), [fast, slow]) == {fast}


def test_lanes_that_ended_or_are_idle_hold_nobody_back() -> None:
    plan, (fast, slow) = two_sources(aligned("g", 10), aligned("g", 10))
    for gone in (LaneTime(0, finished=True), LaneTime(0, idle=True)):
        assert Restraint(plan).paused(lanes(LaneTime(99), gone), [fast, slow]) == frozenset()


def test_groups_are_apart() -> None:
    plan, (fast, slow) = two_sources(aligned("g", 10), aligned("h", 10))
    assert Restraint(plan).paused(lanes(LaneTime(99), LaneTime(0)), [fast, slow]) == frozenset()


def test_never_all_of_them_wait() -> None:
    """What the fast one waits for has been read to its end, though its lane has not ended."""
    plan, (fast, _) = two_sources(aligned("g", 10), aligned("g", 10))
    assert Restraint(plan).paused(lanes(LaneTime(99), LaneTime(0)), [fast]) == frozenset()


def test_a_split_is_closed_when_its_range_is_over() -> None:
    plan, (first, second) = two_sources(RANGE, RANGE)
    over, running = LaneTime(9, finished=True), LaneTime(3)
    assert Restraint(plan).closed(lanes(over, running), [first, second]) == {first}
    assert Restraint(plan).closed(lanes(running, running), [first, second]) == frozenset()


def test_a_split_without_a_range_is_never_closed() -> None:
    plan, (first, second) = two_sources(monotonous(), RANGE)
    over = LaneTime(9, finished=True)
    assert Restraint(plan).closed(lanes(over, over), [first, second]) == {second}


def test_a_split_that_somebody_else_reads_is_not_closed() -> None:
    sketch = Sketch()
    source = sketch.source()
    sketch.sink(by_key(sketch.timestamps(source, strategy=RANGE)), source)
    over = {lane_of(1, 0, 0): LaneTime(9, finished=True)}
    assert Restraint(sketch.plan()).closed(over, [(source, 0)]) == frozenset()


def test_a_range_behind_an_exchange_closes_all_splits_before_it() -> None:
    sketch = Sketch()
    source = sketch.source()
    sketch.sink(sketch.timestamps(by_key(source), strategy=RANGE))
    over = {1 << LANE_SHIFT: LaneTime(9, finished=True)}
    assert Restraint(sketch.plan()).closed(over, [(source, 0), (source, 1)]) == {(source, 0), (source, 1)}


def test_records_wait_from_the_drift_on() -> None:
    plan, _ = two_sources(aligned("g", 10), aligned("g", 5))
    tracks = {lane_of(2, 0, 0): LaneTrack(after=50), lane_of(3, 1, 0): LaneTrack(after=20)}
    start = lanes(LaneTime(), LaneTime())
    assert order_bound(plan, frozenset([2]), start, tracks) == (26, 0)
    tracks[lane_of(3, 1, 0)].finished = True
    assert order_bound(plan, frozenset([2]), start, tracks) == (56, 0)
    tracks[lane_of(2, 0, 0)].finished = True
    assert order_bound(plan, frozenset([2]), start, tracks) is None


def test_a_lane_that_is_idle_lets_records_pass_unless_it_brings_some() -> None:
    plan, _ = two_sources(aligned("g", 10), aligned("g", 10))
    tracks = {lane_of(2, 0, 0): LaneTrack(after=50), lane_of(3, 1, 0): LaneTrack(after=20)}
    start = lanes(LaneTime(), LaneTime(idle=True))
    assert order_bound(plan, frozenset([2]), start, tracks) == (61, 0)
    tracks[lane_of(3, 1, 0)].chunks[0,] = (0, 20)
    assert order_bound(plan, frozenset([2]), start, tracks) == (31, 0)
