from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.watermark_options import LearnedBound
from flintstream.ops.batch import NO_TIMESTAMP, Values
from flintstream.ops.watermark_learned import BLOCK, UPPER, LearnedMemory

NOTHING = Values([])


def times(size: int, late: int, seed: int = 1) -> npt.NDArray[np.int64]:
    chance = np.random.default_rng(seed)
    return np.arange(size) * 10 - chance.integers(0, late, size)


def lags(learning: LearnedBound, stamps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how far the watermark is behind the greatest timestamp at each record."""
    return np.maximum.accumulate(stamps) - LearnedMemory(learning, "").advance(NOTHING, stamps)


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(1, 999), max_size=6))
def test_what_is_learned_does_not_depend_on_cuts_and_restarts(cuts: set[int]) -> None:
    stamps, learning = times(1000, 500), LearnedBound(0.95, half_life=300)
    whole = LearnedMemory(learning, "")
    expected = whole.advance(NOTHING, stamps).tolist()
    text, levels, estimates = "", list[int](), list[tuple[int, float]]()
    for part in np.split(stamps, sorted(cuts)):
        memory = LearnedMemory(learning, text)
        levels += memory.advance(NOTHING, part).tolist()
        estimates += memory.estimates
        text = memory.dump()
    assert levels == expected
    assert estimates == whole.estimates


@pytest.mark.parametrize("target", [0.5, 0.9, 0.99])
def test_the_target_share_is_on_time(target: float) -> None:
    stamps = times(20_000, 1000)
    levels = LearnedMemory(LearnedBound(target), "").advance(NOTHING, stamps)
    before = np.concatenate([[MIN_TIMESTAMP], levels[:-1]])
    assert target - 0.02 <= float((stamps > before)[BLOCK:].mean()) <= min(1, target + 0.06)


def test_the_bound_follows_when_lateness_doubles() -> None:
    stamps = np.concatenate([times(4000, 1000), 40_000 + times(4000, 2000)])
    found = lags(LearnedBound(0.999, half_life=500), stamps)
    assert 950 < found[3999] < 1100
    assert 1900 < found[7999] < 2200


def test_nothing_is_said_before_the_first_block_is_there() -> None:
    levels = LearnedMemory(LearnedBound(), "").advance(NOTHING, times(BLOCK + 1, 5))
    assert set(levels[:BLOCK].tolist()) == {MIN_TIMESTAMP}
    assert levels[BLOCK] > 1000


def test_a_bound_that_may_not_grow_believes_in_less() -> None:
    memory = LearnedMemory(LearnedBound(0.999, most_ms=250), "")
    memory.advance(NOTHING, times(4000, 1000))
    assert 0.2 < memory.estimates[-1][1] < 0.4
    assert (lags(LearnedBound(0.999, most_ms=250), times(4000, 1000))[BLOCK:] <= 251).all()


def test_records_without_a_timestamp_teach_nothing() -> None:
    stamps = np.full(3 * BLOCK, NO_TIMESTAMP)
    memory = LearnedMemory(LearnedBound(), "")
    assert set(memory.advance(NOTHING, stamps).tolist()) == {MIN_TIMESTAMP}
    assert memory.estimates == []


def test_buckets_ascend_and_are_an_eighth_of_an_octave_wide() -> None:
    assert (np.diff(UPPER) > 0).all()
    assert (UPPER[18:] / UPPER[17:-1] < 1.16).all()
    assert UPPER[-1] > 100 * 365 * 86_400_000
