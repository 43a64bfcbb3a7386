"""What a generated column may hold, made for a whole range of records at once.

A field is a frozen description; `column(indices, key)` makes its values for global indices. Randomness comes from
splitmix64 over the index, one multiplication chain on whole arrays, so there is no generator state to keep or replay.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.time import DurationLike, TimestampLike, to_millis, to_timestamp_ms

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_GOLDEN_FACTOR = np.uint64(_GOLDEN)
_ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
    (np.uint64(31), None),
)
_BLOCK = 1 << 13
_SECOND_KEY = 0xD1B54A32D192ED03
_TO_UNIT = 2.0**-53


def random_bits(indices: I64, key: int) -> U64:
    """Return 64 random bits for each index: splitmix64 seeded with `key`, at position `index`."""
    bits = indices.astype(np.uint64)
    offset = np.uint64((key + _GOLDEN) & _MASK)
    scratch = np.empty(min(_BLOCK, len(bits)), np.uint64)
    # Block by block, so that the ten passes run in the processor's cache, not in main memory.
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        shifted = scratch[: len(block)]
        block *= _GOLDEN_FACTOR
        block += offset
        for shift, factor in _ROUNDS:
            np.right_shift(block, shift, out=shifted)
            block ^= shifted
            if factor:
                block *= factor
    return bits


def _unit(indices: I64, key: int) -> F64:
    """Return a number in [0, 1) for each index."""
    bits = random_bits(indices, key)
    bits >>= np.uint64(11)
    unit = bits.astype(np.float64)
    unit *= _TO_UNIT
    return unit


def _below(indices: I64, key: int, span: int) -> I64:
    """Return a whole number in [0, span) for each index."""
    bits = random_bits(indices, key)
    if span <= 1 << 32:
        # The upper half times the span, shifted back: much cheaper than a division.
        bits >>= np.uint64(32)
        bits *= np.uint64(span)
        bits >>= np.uint64(32)
    else:
        bits %= np.uint64(span)
    return bits.view(np.int64)


class Field(ABC):
    """Makes one column."""

    @abstractmethod
    def column(self, indices: I64, key: int) -> pa.Array:
        """Called with the global indices of the wanted records; the same index must always give the same value."""


@dataclass(frozen=True)
class _Sequence(Field):
    start: int

    def column(self, indices: I64, key: int) -> pa.Array:
        return pa.array(indices + self.start if self.start else indices)


@dataclass(frozen=True)
class _Uniform(Field):
    low: float
    high: float

    def column(self, indices: I64, key: int) -> pa.Array:
        values = _unit(indices, key)
        values *= self.high - self.low
        values += self.low
        return pa.array(values)


@dataclass(frozen=True)
class _Integers(Field):
    low: int
    high: int

    def column(self, indices: I64, key: int) -> pa.Array:
        values = _below(indices, key, self.high - self.low)
        values += self.low
        return pa.array(values)


@dataclass(frozen=True)
class _Normal(Field):
    mean: float
    std: float

    def column(self, indices: I64, key: int) -> pa.Array:
        # Box-Muller; 1 - u is in (0, 1], so the logarithm is finite.
        radius = _unit(indices, key)
        np.subtract(1.0, radius, out=radius)
        np.log(radius, out=radius)
        radius *= -2.0
        np.sqrt(radius, out=radius)
        angle = _unit(indices, key ^ _SECOND_KEY)
        angle *= 2.0 * math.pi
        np.cos(angle, out=angle)
        radius *= angle
        radius *= self.std
        radius += self.mean
        return pa.array(radius)


@dataclass(frozen=True, eq=False)
class _Choice(Field):
    values: pa.Array
    bounds: F64 | None

    def column(self, indices: I64, key: int) -> pa.Array:
        if self.bounds is None:
            chosen = _below(indices, key, len(self.values))
        else:
            chosen = np.searchsorted(self.bounds, _unit(indices, key), "right")
        return self.values.take(pa.array(chosen))


@dataclass(frozen=True)
class _Timestamps(Field):
    start: int
    step: float
    jitter: int

    def column(self, indices: I64, key: int) -> pa.Array:
        step = int(self.step) if self.step == int(self.step) else self.step
        times = (indices * step).astype(np.int64)
        times += self.start
        if self.jitter:
            times += _below(indices, key, self.jitter + 1)
        return pa.array(times)


@dataclass(frozen=True, eq=False)
class _Constant(Field):
    value: pa.Scalar

    def column(self, indices: I64, key: int) -> pa.Array:
        return pa.repeat(self.value, len(indices))


def sequence(start: int = 0) -> Field:
    """Return a field that counts: `start` plus the record's global index."""
    return _Sequence(start)


def uniform(low: float = 0.0, high: float = 1.0) -> Field:
    """Return a field of floats, evenly spread over `[low, high)`."""
    if not low < high:
        raise InvalidArgumentError(describe(f"uniform({low}, {high}) is empty", remedy="give low below high"))
    return _Uniform(low, high)


def integers(low: int, high: int) -> Field:
    """Return a field of whole numbers from `low` to before `high`."""
    if not -(2**63) <= low < high <= 2**63 or high - low >= 2**63:
        what = f"integers({low}, {high}) is empty or too wide"
        raise InvalidArgumentError(describe(what, remedy="give low below high, less than 2**63 apart"))
    return _Integers(low, high)


def normal(mean: float = 0.0, std: float = 1.0) -> Field:
    """Return a field of floats around `mean`, normally distributed."""
    if std < 0:
        raise InvalidArgumentError(describe(f"std is {std}", remedy="give 0 or more"))
    return _Normal(mean, std)


def choice(values: Sequence[Any], weights: Sequence[float] | None = None) -> Field:
    """Return a field that takes one of `values`, all alike or by `weights`.

    Example:
        >>> len(choice(["a", "b"]).column(np.arange(1000), key=1).unique())
        2
    """
    if not values or (weights is not None and (len(weights) != len(values) or min(weights) < 0 or not sum(weights))):
        what = f"choice has {len(values)} values" + ("" if weights is None else f" and weights {list(weights)!r}")
        raise InvalidArgumentError(describe(what, remedy="give a value or more, and a weight of 0 or more for each"))
    bounds = None
    if weights is not None:
        bounds = np.cumsum(np.asarray(weights, np.float64))
        bounds /= bounds[-1]
        bounds = bounds[:-1]
    return _Choice(_column(values), bounds)


def timestamps(start: TimestampLike = 0, step_ms: float = 1, jitter_ms: DurationLike = 0) -> Field:
    """Return a field of event times in ms: `start` plus `step_ms` for each record, plus up to `jitter_ms` at random.

    A record is thus never more than `jitter_ms` behind one before it: the bound to give to
    `WatermarkStrategy.for_bounded_out_of_orderness`. `step_ms` may be a fraction: 0.001 is a record each microsecond.

    Example:
        >>> timestamps(1_000, step_ms=10).column(np.arange(3), key=1).to_pylist()
        [1000, 1010, 1020]
    """
    jitter = to_millis(jitter_ms)
    if step_ms < 0 or jitter < 0:
        what = f"timestamps have step_ms={step_ms} and jitter_ms={jitter}"
        raise InvalidArgumentError(describe(what, remedy="give 0 or more for both"))
    return _Timestamps(to_timestamp_ms(start), step_ms, jitter)


def constant(value: Any) -> Field:
    """Return a field that is the same in every record."""
    return _Constant(_column([value])[0])


def _column(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        what = f"the values {list(values)!r} have no common column type ({error})"
        raise InvalidArgumentError(describe(what, remedy="give values of one type, or use generator=")) from error
