"""Exact sums, against rational arithmetic."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.ops.exact_sum import BITS, HIGHEST, LOWEST, digits, total
from tests.unit.values import law

GRID = 2.0 ** (BITS * LOWEST)


@st.composite
def in_range(draw: st.DrawFn) -> float:
    """A float of the grid: any 53 bits between 2^-128 and 2^63."""
    exponent = draw(st.integers(BITS * LOWEST, 63 - 53))
    return math.ldexp(draw(st.integers(-(2**53) + 1, 2**53 - 1)), exponent)


FRIENDLY = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
NUMBERS = in_range() | FRIENDLY | st.sampled_from([0.1, -0.1, 1.0, -1.0, 2.0**-53, 2.0**-128, -(2.0**62), 0.0])


def summed(parts: list[list[float]]) -> tuple[dict[int, Any], Any]:
    """Fold each part by itself and add the partial results up, as windows do."""
    sums: dict[int, Any] = {}
    rest: Any = None
    for part in parts:
        found, beyond = digits(np.array(part))
        for exponent, column in found.items():
            sums[exponent] = sums.get(exponent, np.zeros(1, np.int64)) + column.sum()
        if beyond is not None:
            rest = (0.0 if rest is None else rest) + np.array([beyond.sum()])
    return sums, rest


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


@st.composite
def parted(draw: st.DrawFn) -> tuple[list[float], list[list[float]]]:
    """Numbers, and the same numbers shuffled and cut into parts."""
    numbers = draw(st.lists(NUMBERS, min_size=1, max_size=12))
    shuffled = draw(st.permutations(numbers))
    cuts = sorted(draw(st.lists(st.integers(0, len(numbers)), max_size=3)))
    bounds = [0, *cuts, len(numbers)]
    return numbers, [shuffled[start:stop] for start, stop in itertools.pairwise(bounds)]


@law
@given(parted())
def test_a_sum_is_the_exact_sum_rounded_once_in_any_order_and_any_parts(pair: tuple[list[float], Any]) -> None:
    numbers, parts = pair
    exact = sum(map(Fraction, numbers), Fraction(0))
    sums, rest = summed(parts)
    assert rest is None
    (result,) = total(sums, rest, 1)
    assert result == exact.numerator / exact.denominator


@law
@given(parted())
def test_a_sum_has_the_same_bits_however_it_was_cut(pair: tuple[list[float], Any]) -> None:
    numbers, parts = pair
    assert bits(total(*summed(parts), 1)[0]) == bits(total(*summed([numbers]), 1)[0])


@law
@given(st.lists(st.floats(-(2.0**62), 2.0**62), max_size=8))
def test_digits_and_rest_are_the_number(values: list[float]) -> None:
    found, rest = digits(np.array(values))
    for index, value in enumerate(values):
        parts = [Fraction(int(column[index])) * Fraction(2) ** (BITS * exponent) for exponent, column in found.items()]
        beyond = Fraction(0) if rest is None else Fraction(rest[index])
        assert sum(parts, beyond) == Fraction(value)
        assert abs(beyond) < Fraction(GRID)


@law
@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_many_sums_at_once_are_the_same_as_one_by_one(groups: list[list[float]]) -> None:
    each = [summed([group])[0] for group in groups]
    together = {
        exponent: np.array([int(sums.get(exponent, np.zeros(1, np.int64))[0]) for sums in each])
        for exponent in range(LOWEST, HIGHEST + 1)
    }
    wanted = [total(sums, None, 1)[0] for sums in each]
    assert total(together, None, len(groups)).tolist() == wanted


EXAMPLES = [
    ([-0.1], -0.1),
    ([0.1] * 10, 1.0),
    ([1e16, 1.0, -1e16], 1.0),
    ([1.0, 2.0**-53, 2.0**-120], 1.0000000000000002),
    ([1.0, 2.0**-53], 1.0),
    ([-1e-20, 1.0, -1.0], -1e-20),
    ([2.0**62, 2.0**62, 2.0**62], 3 * 2.0**62),
    ([2.0**62, -(2.0**-128), -(2.0**62)], -(2.0**-128)),
    ([], 0.0),
]


@pytest.mark.parametrize(("values", "result"), EXAMPLES)
def test_sums_that_floats_get_wrong(values: list[float], result: float) -> None:
    sums, rest = summed([values])
    assert rest is None
    assert total(sums, rest, 1).tolist() == [result]


def test_a_billion_numbers_do_not_overflow() -> None:
    found, _ = digits(np.array([-(2.0**62) - 2.0**32 + 0.75]))
    sums = {exponent: column * 10**9 for exponent, column in found.items()}
    exact = (Fraction(-(2**62)) - 2**32 + Fraction(3, 4)) * 10**9
    assert total(sums, None, 1).tolist() == [exact.numerator / exact.denominator]


BEYOND = [
    ([math.inf, 1.0], math.inf),
    ([math.inf, -math.inf], math.nan),
    ([math.nan, 1.0], math.nan),
    ([1e300, 1.0], 1e300),
    ([2.0**63, 1.0], 2.0**63),
    ([1e-300], 1e-300),
    ([5e-324, -5e-324], 0.0),
]


@pytest.mark.parametrize(("values", "result"), BEYOND)
def test_what_does_not_fit_is_added_as_floats_are(values: list[float], result: float) -> None:
    with np.errstate(invalid="ignore"):
        sums, rest = summed([[value] for value in values])
        np.testing.assert_equal(total(sums, rest, 1), [result])
