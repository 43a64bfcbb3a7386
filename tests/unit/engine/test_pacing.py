"""Pacing: whatever an epoch's share, in the end every split was read once, in order, to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.epoch import ReadRange
from flintstream.engine.pacing import Pacer
from flintstream.engine.pacing_size import FIRST_RECORDS
from flintstream.model.connect import Split, SplitSource
from tests.unit.graphs import Sketch
from tests.unit.values import law


class Splits(SplitSource):
    """A source of given splits; `read` is never called here."""

    def __init__(self, splits: Sequence[Split], rate: float | None = None) -> None:
        self._splits = splits
        self._rate = rate

    @property
    def is_bounded(self) -> bool:
        return all(split.end is not None for split in self._splits)

    def splits(self, parallelism: int) -> Sequence[Split]:
        return self._splits

    def read(self, split: int, start: int, end: int) -> Any:
        raise NotImplementedError

    def rate(self) -> float | None:
        return self._rate


class Pace:
    """A pacer with the positions that its driver would keep."""

    def __init__(self, *sources: Splits, max_records: int = 0, target_ms: int = 1000, batch_mode: bool = False) -> None:
        sketch = Sketch()
        self.splits = {sketch.source(source): list(source.splits(1)) for source in sources}
        sketch.sink(*self.splits)
        self.positions = {node: {split.number: split.start for split in each} for node, each in self.splits.items()}
        self.pacer = Pacer(sketch.plan(batch_mode=batch_mode), self.splits, max_records, target_ms)

    def epoch(self, now: int = 0) -> list[ReadRange]:
        ranges = self.pacer.next_ranges(self.positions, now)
        for piece in ranges:
            assert self.positions[piece.source][piece.split] == piece.start
            self.positions[piece.source][piece.split] = piece.end
        return ranges


SPLITS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=1, max_size=4).map(
    lambda pairs: [Split(number, start, start + length) for number, (start, length) in enumerate(pairs)]
)


@law
@given(st.lists(SPLITS, min_size=1, max_size=2), st.integers(0, 12))
def test_every_split_is_read_to_its_end_and_ends_once(sources: list[list[Split]], max_records: int) -> None:
    pace = Pace(*map(Splits, sources), max_records=max_records)
    ended: list[tuple[int, int]] = []
    for _ in range(400):
        ranges = pace.epoch()
        if not ranges:
            break
        size = sum(piece.end - piece.start for piece in ranges)
        assert size <= max_records or not max_records
        assert all(piece.end > piece.start or piece.last for piece in ranges)
        ended += [(piece.source, piece.split) for piece in ranges if piece.last]
    every = [(node, split.number) for node, each in pace.splits.items() for split in each]
    assert sorted(ended) == every
    assert all(pace.positions[node][split.number] == split.end for node, each in pace.splits.items() for split in each)


@law
@given(st.integers(1, 6), st.integers(1, 10))
def test_endless_splits_share_an_epoch_evenly_over_time(count: int, max_records: int) -> None:
    pace = Pace(Splits([Split(number) for number in range(count)]), max_records=max_records)
    for _ in range(3 * count):
        assert sum(piece.end - piece.start for piece in pace.epoch()) == max_records
    (positions,) = pace.positions.values()
    assert max(positions.values()) - min(positions.values()) <= 3 * count
    assert min(positions.values()) > 0


def test_an_empty_split_ends_with_the_first_epoch() -> None:
    pace = Pace(Splits([Split(0, 4, 4), Split(1, 0, 3)]), max_records=1)
    first, *_ = pace.epoch()
    assert (first.split, first.start, first.end, first.last) == (0, 4, 4, True)
    assert [piece.split for _ in range(4) for piece in pace.epoch()] == [1, 1]


def test_batch_mode_reads_everything_at_once() -> None:
    pace = Pace(Splits([Split(0, 0, 10**9), Split(1, 0, 5)]), max_records=3, batch_mode=True)
    assert [(piece.end, piece.last) for piece in pace.epoch()] == [(10**9, True), (5, True)]
    assert pace.epoch() == []


def test_a_source_with_a_rate_gives_what_is_due() -> None:
    pace = Pace(Splits([Split(0), Split(1, 0, 7)], rate=10))
    assert pace.epoch(now=1_000_000) == []
    assert [piece.end - piece.start for piece in pace.epoch(now=1_000_500)] == [2, 2]
    assert pace.epoch(now=1_000_500) == []
    assert [(piece.end - piece.start, piece.last) for piece in pace.epoch(now=1_002_000)] == [(8, False), (5, True)]
    assert [piece.end - piece.start for piece in pace.epoch(now=1_003_000)] == [5]


def test_a_rate_goes_on_from_where_a_restart_begins() -> None:
    pace = Pace(Splits([Split(0)], rate=10))
    pace.positions[1][0] = 1000
    assert pace.epoch(now=5000) == []
    assert [(piece.start, piece.end) for piece in pace.epoch(now=6000)] == [(1000, 1010)]


def read(pace: Pace) -> int:
    return sum(piece.end - piece.start for piece in pace.epoch())


def test_epochs_grow_while_they_are_short_and_shrink_when_they_are_long() -> None:
    pace = Pace(Splits([Split(0)]), target_ms=1000)
    assert read(pace) == FIRST_RECORDS
    pace.pacer.took(FIRST_RECORDS, 0.1)
    grown = read(pace)
    assert grown > FIRST_RECORDS
    pace.pacer.took(grown, 100.0)
    assert read(pace) < grown / 50


def test_an_epoch_with_little_to_read_says_nothing_about_speed() -> None:
    pace = Pace(Splits([Split(0)]))
    pace.pacer.took(10, 0.001)
    assert read(pace) == FIRST_RECORDS


def test_a_record_is_due_when_its_rate_says_so() -> None:
    pace = Pace(Splits([Split(0), Split(1)], rate=10))
    assert pace.pacer.due_ms(1, 0, 0) is None
    pace.epoch(now=1_000_000)
    for position in range(5):
        due = pace.pacer.due_ms(1, 0, position)
        assert due == 1_000_000 + 200 * (position + 1)
        assert pace.pacer.waiting(1, 0, position, None, int(due) - 1) == 0
        assert pace.pacer.waiting(1, 0, position, None, int(due)) == 1


def test_what_waits_is_what_could_be_read_now() -> None:
    pace = Pace(Splits([Split(0), Split(1, 0, 7)]))
    pace.epoch()
    assert pace.pacer.waiting(1, 0, 5, None, 0) is None
    assert pace.pacer.waiting(1, 0, 5, 12, 0) == 7
    assert pace.pacer.waiting(1, 1, 5, None, 0) == 2
    assert pace.pacer.waiting(1, 1, 5, 6, 0) == 1
    assert pace.pacer.waiting(1, 1, 7, 6, 0) == 0


@pytest.mark.parametrize("seconds", [0.001, 100.0])
def test_a_bound_given_by_the_user_holds(seconds: float) -> None:
    pace = Pace(Splits([Split(0), Split(1)]), max_records=11)
    pace.pacer.took(11, seconds)
    assert sorted(piece.end - piece.start for piece in pace.epoch()) == [5, 6]
