"""Sums of floats that do not depend on the order of addition.

Floating-point addition is not associative, so a sum made of partial sums would depend on how the input was cut into
batches. Here a number is split, exactly, into digits of 32 bits on a fixed grid; digits are integers, and their sums
are exact in any order. The sum is rounded to a float once, at the end. Digits reach from 2^-128 to 2^63; what is beyond
(infinities, NaN, larger or tinier numbers) is kept in a plain float beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
BITS = 32
HIGHEST, LOWEST = 1, -4


def digits(values: F64, highest: int = HIGHEST, lowest: int = LOWEST) -> tuple[dict[int, I64], F64 | None]:
    """Split values into digits by exponent (only those that occur), and what does not fit (None if all does)."""
    fits = np.abs(values) < np.ldexp(1.0, BITS * (highest + 1) - 1)  # False for NaN
    rest: F64 | None = None
    if not fits.all():
        rest = np.where(fits, 0.0, values)
        values = np.where(fits, values, 0.0)
    found: dict[int, I64] = {}
    remaining = values.astype(np.float64, copy=True)
    largest = float(np.abs(remaining).max(initial=0.0))
    # Digits above the largest value's own are 0.
    top = min(highest, int(np.frexp(largest)[1]) // BITS + 1)
    for exponent in range(top, lowest - 1, -1):
        if not remaining.any():
            return found, rest
        # Towards zero: the rest keeps the number's sign and its lowest bits, so that nothing is ever rounded.
        digit = np.trunc(np.ldexp(remaining, -BITS * exponent))
        if digit.any():
            remaining -= np.ldexp(digit, BITS * exponent)
            found[exponent] = digit.astype(np.int64)
    if remaining.any():
        rest = remaining if rest is None else rest + remaining
    return found, rest


def total(sums: Mapping[int, I64], rest: Any, count: int) -> F64:
    """Return the floats that summed digits stand for; equal digits give equal floats, however they were summed."""
    columns = {exponent: np.zeros(count, np.int64) for exponent in range(LOWEST, HIGHEST + 1)}
    columns.update({exponent: np.array(column, np.int64) for exponent, column in sums.items()})
    for exponent in range(LOWEST, HIGHEST):
        carry = columns[exponent] >> BITS
        columns[exponent] = columns[exponent] - (carry << BITS)
        columns[exponent + 1] = columns[exponent + 1] + carry
    high, low, lost = np.zeros(count), np.zeros(count), np.zeros(count)
    for exponent in range(HIGHEST, LOWEST - 1, -1):
        # The top digit may need more than 53 bits: add it in two halves, each exact.
        upper = (columns[exponent] >> 16) << 16
        for part in (upper, columns[exponent] - upper):
            high, error = _two_sum(high, np.ldexp(part.astype(np.float64), BITS * exponent))
            low, error = _two_sum(low, error)
            lost = lost + error
    result = high + low
    for index in np.flatnonzero(lost).tolist():
        # More bits than two floats hold, and `low` was rounded before the end: only now and then, so one by one.
        exact = sum(int(column[index]) << BITS * (exponent - LOWEST) for exponent, column in columns.items())
        result[index] = exact / (1 << -BITS * LOWEST)
    return result if rest is None else result + rest


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """Return the rounded sum and what the rounding lost."""
    rounded = a + b
    shadow = rounded - a
    return rounded, (a - (rounded - shadow)) + (b - shadow)
