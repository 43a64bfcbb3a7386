"""The algebra of windows."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow


@st.composite
def time_windows(draw: st.DrawFn) -> TimeWindow:
    start = draw(st.integers(-50, 50))
    return TimeWindow(start, start + draw(st.integers(1, 20)))


class Recorder:
    def __init__(self) -> None:
        self.merges: list[tuple[list[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
        self.merges.append((list(to_be_merged), merge_result))


def merged(*windows: TimeWindow) -> list[tuple[list[TimeWindow], TimeWindow]]:
    recorder = Recorder()
    TimeWindow.merge_windows(windows, recorder)
    return recorder.merges


def test_the_last_timestamp_is_one_before_the_end() -> None:
    assert TimeWindow(0, 10).max_timestamp() == 9
    assert CountWindow(3).max_timestamp() == MAX_TIMESTAMP
    assert GlobalWindow.get().max_timestamp() == MAX_TIMESTAMP


def test_windows_that_touch_intersect() -> None:
    assert TimeWindow(0, 10).intersects(TimeWindow(10, 20))
    assert TimeWindow(10, 20).intersects(TimeWindow(0, 10))
    assert not TimeWindow(0, 10).intersects(TimeWindow(11, 20))
    assert TimeWindow(0, 10).intersects(TimeWindow(3, 4))


@given(time_windows(), time_windows())
def test_cover_is_the_smallest_window_that_holds_both(a: TimeWindow, b: TimeWindow) -> None:
    cover = a.cover(b)
    assert cover == b.cover(a)
    assert (cover.start, cover.end) == (min(a.start, b.start), max(a.end, b.end))
    assert a.intersects(b) == b.intersects(a)
    assert a.intersects(b) == (cover.end - cover.start <= (a.end - a.start) + (b.end - b.start))


@given(time_windows(), time_windows())
def test_windows_are_ordered_by_start_then_end(a: TimeWindow, b: TimeWindow) -> None:
    assert (a < b) == ((a.start, a.end) < (b.start, b.end))
    assert (a <= b) == (a < b or a == b)
    assert (a > b) == (b < a)
    if a == b:
        assert hash(a) == hash(b)


@given(st.integers(-(2**62), 2**62), st.integers(1, 10**9), st.integers(-(10**9), 10**9))
def test_a_window_start_is_on_the_grid_and_at_most_a_size_before(timestamp: int, size: int, offset: int) -> None:
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


def test_merging_reports_each_group_once_and_leaves_single_windows_alone() -> None:
    assert merged() == []
    assert merged(TimeWindow(0, 5)) == []
    assert merged(TimeWindow(0, 5), TimeWindow(6, 9)) == []
    assert merged(TimeWindow(0, 5), TimeWindow(0, 5)) == []
    assert merged(TimeWindow(20, 25), TimeWindow(3, 8), TimeWindow(0, 5), TimeWindow(8, 9), TimeWindow(23, 30)) == [
        ([TimeWindow(0, 5), TimeWindow(3, 8), TimeWindow(8, 9)], TimeWindow(0, 9)),
        ([TimeWindow(20, 25), TimeWindow(23, 30)], TimeWindow(20, 30)),
    ]


@given(st.lists(time_windows(), max_size=8), st.randoms())
def test_merging_does_not_depend_on_order_and_leaves_nothing_to_merge(
    windows: list[TimeWindow], random: object
) -> None:
    shuffled = list(windows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    groups = merged(*windows)
    assert merged(*shuffled) == groups
    absorbed = {window for group, _ in groups for window in group}
    left = (set(windows) - absorbed) | {result for _, result in groups}
    assert not any(a.intersects(b) for a in left for b in left if a != b)


def test_windows_of_different_kinds_are_never_equal() -> None:
    assert TimeWindow(0, 1) != CountWindow(0)
    assert GlobalWindow.get() != CountWindow(0)
    assert len({TimeWindow(0, 1), TimeWindow(0, 1), CountWindow(0), GlobalWindow()}) == 3


def test_there_is_one_global_window() -> None:
    assert GlobalWindow() == GlobalWindow.get()
    assert hash(GlobalWindow()) == hash(GlobalWindow.get())
    assert pickle.loads(pickle.dumps(GlobalWindow())) is GlobalWindow.get()
    assert not GlobalWindow() < GlobalWindow()
    assert GlobalWindow() <= GlobalWindow()


def test_count_windows_are_ordered_by_id() -> None:
    assert sorted([CountWindow(2), CountWindow(1)]) == [CountWindow(1), CountWindow(2)]
    assert CountWindow(1) <= CountWindow(1)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (TimeWindow(0, 5), "TimeWindow(start=0, end=5)"),
        (CountWindow(3), "CountWindow(id=3)"),
        (GlobalWindow(), "GlobalWindow"),
    ],
)
def test_windows_print_as_in_pyflink(window: object, text: str) -> None:
    assert repr(window) == text
    assert pickle.loads(pickle.dumps(window)) == window
