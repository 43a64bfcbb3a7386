"""Properties of windows, on random records, watermarks, cuts and restarts.

`reference` is the definition of windows in the fewest words: it keeps every record for ever and has neither timers nor
state, so it can share no mistake with the operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flintstream.model.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.model.functions import as_reduce_function
from flintstream.model.triggers import ContinuousEventTimeTrigger, CountTrigger, PurgingTrigger
from flintstream.model.windows import TimeWindow
from flintstream.ops.operator import MAIN
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_aligned import AlignedWindowOperator, is_aligned
from flintstream.state.timers import order_of
from tests.unit.ops.window_harness import END, Describe, Record, Step, Total, Watermark, WindowHarness, play

Build = Callable[[], WindowOperator]

records = st.builds(Record, st.sampled_from(["a", "b", "c", 7]), st.integers(-5, 5), st.integers(-10, 60))
scripts = st.lists(st.one_of(records, records, st.builds(Watermark, st.integers(-12, 70))), max_size=40)
assigners = st.one_of(
    st.builds(TumblingEventTimeWindows, st.integers(2, 20), st.integers(-1, 1)),
    st.builds(SlidingEventTimeWindows, st.integers(1, 20), st.integers(2, 10), st.integers(-1, 1)),
)
latenesses = st.sampled_from([0, 0, 1, 7, 100])
cuts = st.lists(st.integers(0, 40), max_size=6)


def windows_at(assigner: Any, timestamp: int) -> list[TimeWindow]:
    return list(assigner.assign_windows(None, timestamp, None))


def reference(assigner: Any, lateness: int, script: Sequence[Step]) -> tuple[list[Any], int]:
    """Return the results `(key, start, end, elements)` in the order of their causes, and the number of late records."""
    watermark = -(2**63)
    taken: dict[tuple[Any, TimeWindow], list[Any]] = {}
    results: list[Any] = []
    late = 0
    for step in script:
        if isinstance(step, Record):
            windows = windows_at(assigner, step.timestamp)
            alive = [w for w in windows if w.max_timestamp() + lateness > watermark]
            late += not alive and (bool(windows) or step.timestamp + lateness <= watermark)
            for window in alive:
                elements = taken.setdefault((step.key, window), [])
                elements.append(step.value)
                if window.max_timestamp() <= watermark:
                    results.append((step.key, window.start, window.end, list(elements)))
        elif step.time > watermark:
            ended = [pair for pair in taken if watermark < pair[1].max_timestamp() <= step.time]
            for key, window in sorted(ended, key=lambda pair: (pair[1].end, order_of(pair[0]))):
                results.append((key, window.start, window.end, list(taken[key, window])))
            watermark = step.time
    return results, late


def both_ways(assigner: Any, lateness: int, **rest: Any) -> list[Build]:
    rest = {"allowed_lateness_ms": lateness, "late_tag": "late", **rest}
    ways: list[Build] = [lambda: WindowOperator(assigner, None, **rest)]
    if is_aligned(assigner, None):
        ways.append(lambda: AlignedWindowOperator(assigner, **rest))
    return ways


def by_output(harness: WindowHarness) -> dict[str, list[Any]]:
    """Return the emissions of each output; between outputs there is no order."""
    return {tag: [e for e in harness.emitted if e.tag == tag] for tag in (MAIN, "late")}


@settings(max_examples=200, deadline=None)
@given(assigners, latenesses, scripts, cuts)
@example(SlidingEventTimeWindows(10, 5), 0, [Record("a", 1, 7), Watermark(9), Record("a", 2, 7)], [])
def test_windows_are_what_their_definition_says(
    assigner: Any, lateness: int, script: list[Step], cuts: list[int]
) -> None:
    script = [*script, END]
    expected, late = reference(assigner, lateness, script)
    for build in both_ways(assigner, lateness, apply=Describe()):
        harness = play(build, script, [cut for cut in cuts if cut < len(script)])
        assert harness.values() == expected
        assert harness.late == late == len(harness.values("late"))
        assert harness.entries() == {}


@settings(deadline=None)
@given(assigners, latenesses, scripts)
def test_no_record_is_lost(assigner: Any, lateness: int, script: list[Step]) -> None:
    """In = counted + late, for windows that do not overlap; a window's last result counts all its records."""
    tumbling = TumblingEventTimeWindows(assigner.size_ms + 1)
    for build in both_ways(tumbling, lateness, aggregate=Total(), apply=Describe()):
        harness = play(build, [*script, END])
        counts: dict[Any, int] = {}
        for key, start, _, [(_, count)] in harness.values():
            counts[key, start] = count
        assert sum(counts.values()) + harness.late == sum(isinstance(step, Record) for step in script)


@settings(deadline=None)
@given(st.lists(records, max_size=25), st.randoms(use_true_random=False))
def test_sessions_do_not_depend_on_the_order_of_arrival(arrivals: list[Record], random: Any) -> None:
    def build() -> WindowOperator:
        return WindowOperator(EventTimeSessionWindows(5), aggregate=Total(), apply=Describe())

    expected: list[Any] = []
    for key in {record.key for record in arrivals}:
        mine = sorted(record.timestamp for record in arrivals if record.key == key)
        starts = [t for i, t in enumerate(mine) if i == 0 or t - mine[i - 1] > 5]
        for start, following in zip(starts, [*starts[1:], 10**9], strict=True):
            inside = [r for r in arrivals if r.key == key and start <= r.timestamp < following]
            end = max(r.timestamp for r in inside) + 5
            expected.append((key, start, end, [(sum(r.value for r in inside), len(inside))]))
    shuffled = list(arrivals)
    random.shuffle(shuffled)
    for order in (arrivals, shuffled):
        harness = play(build, [*order, END])
        assert sorted(harness.values(), key=repr) == sorted(expected, key=repr)
        assert harness.entries() == {}


KINDS: list[Build] = [
    lambda: AlignedWindowOperator(TumblingEventTimeWindows(10), 7, "late", aggregate=Total()),
    lambda: AlignedWindowOperator(SlidingEventTimeWindows(12, 4), 0, "late", apply=Describe()),
    lambda: AlignedWindowOperator(SlidingEventTimeWindows(12, 4), 9, "late", reduce=as_reduce_function(max)),
    lambda: WindowOperator(SlidingEventTimeWindows(10, 3), None, 3, "late", aggregate=Total()),
    lambda: WindowOperator(TumblingEventTimeWindows(10), CountTrigger(2), 3, "late", apply=Describe()),
    lambda: WindowOperator(TumblingEventTimeWindows(15), ContinuousEventTimeTrigger(4), 3, "late", apply=Describe()),
    lambda: WindowOperator(SlidingEventTimeWindows(12, 4), ContinuousEventTimeTrigger(2), 3, "late", apply=Describe()),
    lambda: WindowOperator(EventTimeSessionWindows(6), None, 3, "late", aggregate=Total(), apply=Describe()),
    lambda: WindowOperator(EventTimeSessionWindows(6), PurgingTrigger.of(CountTrigger(3)), 0, "late", apply=Describe()),
]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(KINDS), scripts, cuts, cuts)
def test_cuts_and_restarts_are_invisible(
    build: Build, script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    whole = play(build, [*script, END])
    inside = range(1, len(script) + 1)
    pieces = play(build, [*script, END], [c for c in cuts if c in inside], [c for c in restarts if c in inside])
    assert by_output(pieces) == by_output(whole)
    assert pieces.late == whole.late
    assert pieces.entries() == whole.entries() == {}


@settings(deadline=None)
@given(st.sampled_from(KINDS), scripts, cuts)
def test_contents_may_leave_memory_between_runs(build: Build, script: list[Step], cuts: list[int]) -> None:
    whole = play(build, [*script, END])
    harness = WindowHarness(build)
    bounds = sorted({0, len(script), *(cut for cut in cuts if cut < len(script))})
    for start, stop in pairwise([*bounds, len(script)]):
        harness.feed(*script[start:stop])
        harness.spill()
    harness.feed(END)
    harness.spill()
    assert by_output(harness) == by_output(whole)
    assert harness.entries() == {}
    assert {name for name, store in harness.spilled.items() if any(v is not None for v in store.values())} == set()


@settings(deadline=None)
@given(st.sampled_from(KINDS), scripts)
def test_no_two_outputs_have_the_same_stamp(build: Build, script: list[Step]) -> None:
    for emissions in by_output(play(build, [*script, END])).values():
        assert len({e.stamp for e in emissions}) == len(emissions)


@settings(deadline=None)
@given(st.sampled_from(KINDS), scripts)
def test_one_record_per_run_is_no_different(build: Build, script: list[Step]) -> None:
    whole = play(build, [*script, END])
    assert by_output(play(build, [*script, END], range(len(script) + 1))) == by_output(whole)


@settings(deadline=None)
@given(assigners, latenesses, scripts, cuts, cuts)
def test_the_short_way_gives_the_same_results_in_the_same_order(
    assigner: Any, lateness: int, script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    if isinstance(assigner, SlidingEventTimeWindows):
        assigner = SlidingEventTimeWindows(assigner.slide_ms * (1 + assigner.size_ms % 4), assigner.slide_ms)
    inside = range(1, len(script) + 1)
    general, aligned = (
        play(build, [*script, END], [c for c in cuts if c in inside], [c for c in restarts if c in inside])
        for build in both_ways(assigner, lateness, aggregate=Total())
    )
    for ours, theirs in zip(by_output(aligned).values(), by_output(general).values(), strict=True):
        # All but the last column of a stamp, the number among emissions that are otherwise alike.
        assert [(e.value, e.timestamp, e.stamp[:-1]) for e in ours] == [
            (e.value, e.timestamp, e.stamp[:-1]) for e in theirs
        ]
    assert aligned.late == general.late


@settings(deadline=None)
@given(scripts)
def test_what_is_kept_is_only_what_is_open(script: list[Step]) -> None:
    """After every step there are contents and timers exactly for the pairs whose window has not been cleaned up."""
    lateness = 3
    for build in both_ways(SLIDING := SlidingEventTimeWindows(12, 4), lateness, aggregate=Total()):
        harness = WindowHarness(build)
        watermark, pairs = -(2**63), Counter[Any]()
        for step in script:
            harness.feed(step)
            if isinstance(step, Record):
                pairs.update(
                    (step.key, w) for w in windows_at(SLIDING, step.timestamp) if w.end - 1 + lateness > watermark
                )
            else:
                watermark = max(watermark, step.time)
                pairs = Counter({pair: n for pair, n in pairs.items() if pair[1].end - 1 + lateness > watermark})
            timers = len(pairs) + sum(window.end - 1 > watermark for _, window in pairs)
            expected = {"#window-contents": len(pairs), "#event-timers": timers}
            assert harness.entries() == {name: rows for name, rows in expected.items() if rows}
