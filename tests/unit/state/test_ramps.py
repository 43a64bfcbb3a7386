"""Columns of even steps are told by two numbers, and no others are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.state.ramps import ramp_of, unrolled

NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.integers(-(2**62), 2**62), st.integers(-(2**40), 2**40), st.integers(1, 50))
def test_a_column_of_even_steps_comes_back(first: int, step: int, count: int) -> None:
    column = np.array([first + step * number for number in range(count)], np.int64)
    ramp = ramp_of(column)
    assert ramp is not None
    assert unrolled(ramp, count).tolist() == column.tolist()


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_whatever_is_told_by_two_numbers_comes_back(numbers: list[int]) -> None:
    ramp = ramp_of(np.array(numbers, np.int64))
    assert ramp is None or unrolled(ramp, len(numbers)).tolist() == numbers
