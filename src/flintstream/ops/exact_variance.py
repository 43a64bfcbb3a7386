"""Variances from exact sums: squares as digits, and their combination without rounding.

A variance is the difference of two large numbers that are almost equal, so sums of floats would lose it. Here both are
sums of digits of 32 bits (`exact_sum`), which are integers, and so is their difference. Columns are named by what they
sum: `x<exponent>` digits of the values, `q<exponent>` of their squares, `w` values that have no digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.ops.batch import I64
from flintstream.ops.exact_sum import BITS, F64, digits

_RANGE = 7, -8
_SQUARE_RANGE = 15, -16
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SPLITTER = 134217729.0
"""2^27 + 1: cuts a float into two halves whose products are exact."""


def of_integers(array: pa.Array) -> dict[str, I64]:
    """Return the digits of integers and of their squares; nulls count as 0."""
    values = array.fill_null(0).to_numpy()
    columns = {"x0": values & 0xFFFFFFFF, "x1": values >> 32}
    size = np.abs(values).view(np.uint64)
    high, low = size >> _HALF, size & _MASK
    parts: dict[int, Any] = {0: low * low & _MASK, 1: low * low >> _HALF}
    if high.any():
        mixed, top = high * low, high * high
        parts[1] = parts[1] + (mixed & _MASK) * np.uint64(2)
        parts[2] = (mixed >> _HALF) * np.uint64(2) + (top & _MASK)
        parts[3] = top >> _HALF
    return columns | {f"q{exponent}": part.astype(np.int64) for exponent, part in parts.items()}


def of_floats(array: pa.Array) -> dict[str, I64]:
    """Return the digits of floats and of their squares, and which have none; nulls count as 0."""
    values: F64 = array.fill_null(0.0).to_numpy()
    wild = ~(np.abs(values) < 2.0**255)
    columns: dict[str, I64] = {}
    if wild.any():
        columns["w"] = wild.astype(np.int64)
        values = np.where(wild, 0.0, values)
    found, tail = digits(values, *_RANGE)
    if tail is not None:
        values = values - tail
    columns |= {f"x{exponent}": column for exponent, column in found.items()}
    square = values * values
    halves = _SPLITTER * values
    high = halves - (halves - values)
    low = values - high
    # What rounding took from the square, exactly.
    error = ((high * high - square) + 2.0 * high * low) + low * low
    for part in (square, error):
        for exponent, column in digits(part, *_SQUARE_RANGE)[0].items():
            name = f"q{exponent}"
            columns[name] = columns[name] + column if name in columns else column
    return columns


def variance_of(count: I64, sums: Mapping[str, I64], population: bool) -> F64:
    """Return each variance, rounded once; of too few values, anything."""
    total, squares = _exact(sums, "x", _RANGE[1], count), _exact(sums, "q", _SQUARE_RANGE[1], count)
    number = count.astype(object)
    # On the grid of the squares, whose step is the square of the values' one.
    difference = number * squares - total * total
    divisor = np.maximum(number * (number if population else number - 1), 1)
    step = 1 << -BITS * _SQUARE_RANGE[1]
    return np.fromiter((d / (v * step) for d, v in zip(difference, divisor, strict=True)), np.float64, len(count))


def _exact(sums: Mapping[str, I64], kind: str, lowest: int, like: I64) -> Any:
    """Return sums of digits as integers of any length, in units of the lowest digit."""
    exact: Any = np.zeros(len(like), object)
    for name, column in sums.items():
        if name.startswith(kind):
            exact = exact + column.astype(object) * (1 << BITS * (int(name[1:]) - lowest))
    return exact
