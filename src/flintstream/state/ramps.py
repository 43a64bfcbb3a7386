"""Columns of numbers that go up by even steps, as two numbers: most of those that give records their place are such.

Apart because records travel in several forms, between levels and to the driver, and none of them need carry these.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Ramp = tuple[int, int]
"""The first number and the step."""


def ramp_of(column: I64) -> Ramp | None:
    """Return the first value and the step of a column of even steps (by 0, mostly, or by 1), None of any other."""
    first, last, count = int(column[0]), int(column[-1]), len(column)
    if first == last:
        return (first, 0) if bool((column == first).all()) else None
    step = int(column[1]) - first
    if last - first != step * (count - 1) or not bool((np.diff(column) == step).all()):
        return None
    return first, step


def unrolled(ramp: Ramp, count: int) -> I64:
    """Return the column of so many numbers."""
    first, step = ramp
    return np.full(count, first, np.int64) if step == 0 else first + step * np.arange(count, dtype=np.int64)
