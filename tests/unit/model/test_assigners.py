"""Which windows a record belongs to, at the borders."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import InvalidArgumentError, JobError
from flintstream.model.assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    session,
    sliding,
    tumbling,
)
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flintstream.model.serializers import TimeWindowSerializer
from flintstream.model.time import MIN_TIMESTAMP, Duration, Time
from flintstream.model.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow


class OneValue:
    def __init__(self) -> None:
        self.held: int | None = None

    def value(self) -> int | None:
        return self.held

    def update(self, value: int) -> None:
        self.held = value


class FakeContext(WindowAssigner.WindowAssignerContext):
    """Stands at one processing time, and keeps one value per descriptor name."""

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self.states: dict[str, OneValue] = {}

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> Any:
        return self

    def get_state(self, descriptor: Any) -> OneValue:
        return self.states.setdefault(descriptor.name, OneValue())


def windows(assigner: Any, timestamp: int = 0, now: int = 0, element: Any = None) -> list[tuple[int, int]]:
    return [(w.start, w.end) for w in assigner.assign_windows(element, timestamp, FakeContext(now))]


@pytest.mark.parametrize(
    ("timestamp", "offset", "expected"),
    [
        (0, 0, (0, 10)),
        (9, 0, (0, 10)),
        (10, 0, (10, 20)),
        (-1, 0, (-10, 0)),
        (-10, 0, (-10, 0)),
        (-11, 0, (-20, -10)),
        (2, 3, (-7, 3)),
        (3, 3, (3, 13)),
        (-3, -3, (-3, 7)),
        (-4, -3, (-13, -3)),
        (6, -3, (-3, 7)),
        (7, -3, (7, 17)),
    ],
)
def test_tumbling_windows_hold_their_start_and_not_their_end(
    timestamp: int, offset: int, expected: tuple[int, int]
) -> None:
    assert windows(TumblingEventTimeWindows(10, offset), timestamp) == [expected]
    assert windows(TumblingProcessingTimeWindows(10, offset), 999, now=timestamp) == [expected]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, [(0, 10), (-5, 5)]),
        (4, [(0, 10), (-5, 5)]),
        (5, [(5, 15), (0, 10)]),
        (-1, [(-5, 5), (-10, 0)]),
        (-5, [(-5, 5), (-10, 0)]),
    ],
)
def test_sliding_windows_overlap(timestamp: int, expected: list[tuple[int, int]]) -> None:
    assert windows(SlidingEventTimeWindows(10, 5), timestamp) == expected
    assert windows(SlidingProcessingTimeWindows(10, 5), 999, now=timestamp) == expected


def test_sliding_windows_with_a_slide_above_their_size_leave_gaps() -> None:
    assigner = SlidingEventTimeWindows(3, 10)
    assert windows(assigner, 2) == [(0, 3)]
    assert windows(assigner, 3) == []


@given(st.integers(-(10**6), 10**6), st.integers(1, 200), st.integers(1, 200), st.integers(-200, 200))
def test_sliding_windows_are_exactly_those_of_the_grid_that_hold_the_timestamp(
    timestamp: int, size: int, slide: int, offset: int
) -> None:
    if abs(offset) >= slide:
        return
    found = windows(SlidingEventTimeWindows(size, slide, offset), timestamp)
    first = (timestamp - size - offset) // slide - 1
    grid = [offset + i * slide for i in range(first, (timestamp - offset) // slide + 2)]
    assert sorted(found) == [(start, start + size) for start in grid if start <= timestamp < start + size]


def test_sessions_begin_with_the_record_and_last_for_the_gap() -> None:
    assert windows(EventTimeSessionWindows(5), -7) == [(-7, -2)]
    assert windows(ProcessingTimeSessionWindows(5), 999, now=3) == [(3, 8)]


class GapOf(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element


@pytest.mark.parametrize("extractor", [GapOf(), int])
def test_dynamic_sessions_last_as_long_as_the_record_says(extractor: Any) -> None:
    assert windows(EventTimeSessionWindows.with_dynamic_gap(extractor), 10, element=4) == [(10, 14)]
    assert windows(ProcessingTimeSessionWindows.with_dynamic_gap(extractor), 999, 10, element=4) == [(10, 14)]
    with pytest.raises(JobError, match="gap of 0 is 0 ms"):
        windows(DynamicEventTimeSessionWindows.with_dynamic_gap(extractor), 10, element=0)
    with pytest.raises(JobError, match="gap of -1 is -1 ms"):
        windows(DynamicProcessingTimeSessionWindows.with_dynamic_gap(extractor), 10, element=-1)


def test_sessions_merge_their_windows() -> None:
    merges: list[tuple[list[TimeWindow], TimeWindow]] = []

    class Callback(MergingWindowAssigner.MergeCallback[TimeWindow]):
        def merge(self, to_be_merged: Any, merge_result: TimeWindow) -> None:
            merges.append((list(to_be_merged), merge_result))

    pair = [TimeWindow(0, 5), TimeWindow(5, 8)]
    for assigner in (EventTimeSessionWindows(5), DynamicProcessingTimeSessionWindows(int)):
        assigner.merge_windows(pair, Callback())
    assert merges == [(pair, TimeWindow(0, 8))] * 2


@pytest.mark.parametrize(
    "assigner",
    [tumbling("5s"), sliding("10s", "5s"), session("5s"), EventTimeSessionWindows.with_dynamic_gap(int)],
)
@pytest.mark.parametrize("timestamp", [MIN_TIMESTAMP, None])
def test_event_time_windows_refuse_a_record_without_timestamp(assigner: Any, timestamp: Any) -> None:
    with pytest.raises(JobError, match="assign_timestamps_and_watermarks"):
        assigner.assign_windows(1, timestamp, FakeContext())


@pytest.mark.parametrize(
    "build",
    [
        lambda: TumblingEventTimeWindows(0),
        lambda: TumblingEventTimeWindows(-5),
        lambda: TumblingEventTimeWindows(5, 5),
        lambda: TumblingProcessingTimeWindows(5, -5),
        lambda: SlidingEventTimeWindows(0, 5),
        lambda: SlidingEventTimeWindows(5, 0),
        lambda: SlidingProcessingTimeWindows(5, 2, -2),
        lambda: EventTimeSessionWindows(0),
        lambda: ProcessingTimeSessionWindows(-1),
        lambda: tumbling("5s", ""),
        lambda: CountTumblingWindowAssigner(0),
        lambda: CountSlidingWindowAssigner(5, 0),
    ],
)
def test_impossible_sizes_are_refused(build: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        build()


def test_every_way_to_write_a_duration_gives_the_same_windows() -> None:
    same = [
        tumbling("5s"),
        TumblingEventTimeWindows.of(Time.seconds(5)),
        TumblingEventTimeWindows.of(Duration.of_seconds(5)),
    ]
    assert set(same) == {TumblingEventTimeWindows(5_000, 0)}
    assert tumbling("1d", offset="-8h") == TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    assert sliding("1m", "30s", "1s") == SlidingEventTimeWindows.of(Time.minutes(1), Time.seconds(30), Time.seconds(1))
    assert session("5m") == EventTimeSessionWindows.with_gap(Time.minutes(5))
    assert TumblingProcessingTimeWindows.of("5s", "1s") == TumblingProcessingTimeWindows(5_000, 1_000)
    assert SlidingProcessingTimeWindows.of("5s", "2s", "1s") == SlidingProcessingTimeWindows(5_000, 2_000, 1_000)
    assert ProcessingTimeSessionWindows.with_gap("5s") == ProcessingTimeSessionWindows(5_000)


def test_default_triggers_and_time() -> None:
    for assigner in (tumbling(5), sliding(5, 2), session(5), EventTimeSessionWindows.with_dynamic_gap(int)):
        assert assigner.get_default_trigger() == assigner.get_default_trigger(env=object()) == EventTimeTrigger()
        assert assigner.is_event_time()
    for other in (
        TumblingProcessingTimeWindows(5),
        SlidingProcessingTimeWindows(5, 2),
        ProcessingTimeSessionWindows(5),
        DynamicProcessingTimeSessionWindows(int),
    ):
        assert other.get_default_trigger() == ProcessingTimeTrigger()
        assert not other.is_event_time()
    assert GlobalWindows.create().get_default_trigger() == NeverTrigger()
    assert not GlobalWindows().is_event_time()
    assert list(GlobalWindows().assign_windows(1, MIN_TIMESTAMP, FakeContext())) == [GlobalWindow.get()]
    assert CountSlidingWindowAssigner(5, 2).get_default_trigger() == PurgingTrigger.of(CountTrigger(5))
    assert not CountTumblingWindowAssigner(5).is_event_time()


def test_assigners_print_their_sizes_in_words() -> None:
    assert str(tumbling("1d", "-8h")) == "TumblingEventTimeWindows(1d, offset -8h)"
    assert str(sliding("1m", "30s")) == "SlidingEventTimeWindows(1m, 30s)"
    assert str(session("5m")) == "EventTimeSessionWindows(5m)"


def count_ids(assigner: Any, records: int) -> list[list[int]]:
    context = FakeContext()
    return [[window.id for window in assigner.assign_windows(None, 0, context)] for _ in range(records)]


def test_count_windows_tumble() -> None:
    assert count_ids(CountTumblingWindowAssigner.of(3), 7) == [[0], [0], [0], [1], [1], [1], [2]]
    assert list(CountTumblingWindowAssigner(2).assign_windows(None, 0, FakeContext())) == [CountWindow(0)]


def test_count_windows_slide() -> None:
    assert count_ids(CountSlidingWindowAssigner.of(3, 2), 6) == [[0], [0], [1, 0], [1], [2, 1], [2]]
    assert count_ids(CountSlidingWindowAssigner(1, 2), 4) == [[0], [], [1], []]


def test_a_user_assigner_may_define_a_window_serializer() -> None:
    class Mine(WindowAssigner[Any, TimeWindow]):
        def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
            return [TimeWindow(timestamp, timestamp + 1)]

        def get_default_trigger(self, env: Any = None) -> Any:
            return EventTimeTrigger.create()

        def get_window_serializer(self) -> TimeWindowSerializer:
            return TimeWindowSerializer()

        def is_event_time(self) -> bool:
            return True

    assert windows(Mine(), 5) == [(5, 6)]
