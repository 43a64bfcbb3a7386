"""Summaries of one key's values by Apache DataSketches: HyperLogLog, and the t-digest.

The only file that knows that library, which few programs need: it is loaded when one asks for such state.

A t-digest collects values before it merges them, and merges early when it is written: what it answers would depend on
when epochs end. Therefore values wait here, in blocks of a fixed number; between blocks a digest is as good as written.
HyperLogLog is the same before and after it was written.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from flintstream.errors import EnvironmentSetupError, InvalidArgumentError, describe
from flintstream.state.keybytes import canonical
from flintstream.state.summary_table import Packed, Summary

BLOCK = 256


def datasketches() -> Any:
    """Return the library."""
    try:
        import datasketches as library  # noqa: PLC0415 - few need it
    except ImportError as error:
        what = "distinct counts and quantiles as state need Apache DataSketches"
        raise EnvironmentSetupError(describe(what, remedy="pip install 'flintstream[sketches]'")) from error
    return library


class Distinct(Summary):
    """HyperLogLog over the bytes that equal values have in common."""

    __slots__ = ("_error", "_library", "_sketch")

    def __init__(self, relative_error: float) -> None:
        super().__init__()
        self._library = datasketches()
        self._error = relative_error
        # The standard error is 1.04 / sqrt(registers) at most.
        bits = max(4, math.ceil(2 * math.log2(1.04 / relative_error)))
        self._sketch = self._library.hll_sketch(bits, self._library.HLL_8)

    @staticmethod
    def unpack(packed: Packed, relative_error: float) -> Distinct:
        """Return what was packed."""
        distinct = Distinct(relative_error)
        distinct.count, data = packed
        distinct._sketch = distinct._library.hll_sketch.deserialize(data)
        return distinct

    def add(self, value: Any) -> None:
        self.count += 1
        # The library hashes text only; any bytes are Latin-1.
        self._sketch.update(canonical(value).decode("latin-1"))

    def merge(self, other: Distinct) -> None:
        union = self._library.hll_union(self._sketch.lg_config_k)
        union.update(self._sketch)
        union.update(other._sketch)
        self._sketch = union.get_result(self._library.HLL_8)
        self.count += other.count

    def estimate(self) -> int:
        """Return about how many different values there were."""
        return round(self._sketch.get_estimate())

    def pack(self) -> Packed:
        return "distinct", (self._error,), self.count, self._sketch.serialize_updatable()


class Digest(Summary):
    """A t-digest of whole blocks of values, and the values of the block that is not full."""

    __slots__ = ("_compression", "_digest", "_library", "_waiting")

    def __init__(self, compression: int) -> None:
        super().__init__()
        self._library = datasketches()
        self._compression = compression
        self._digest = self._library.tdigest_double(compression)
        self._waiting: list[float] = []

    @staticmethod
    def unpack(packed: Packed, compression: int) -> Digest:
        """Return what was packed."""
        digest = Digest(compression)
        digest.count, data, digest._waiting = packed
        digest._digest = digest._library.tdigest_double.deserialize(data)
        return digest

    def add(self, value: Any) -> None:
        number = float(value)
        if not math.isfinite(number):
            what = f"quantiles as state got {number}"
            raise InvalidArgumentError(describe(what, remedy="leave out what is not a finite number"))
        self.count += 1
        self._waiting.append(number)
        if len(self._waiting) >= BLOCK:
            self._digest = self.whole()
            self._waiting = []

    def whole(self) -> Any:
        """Return a digest of all values; this one stays as it is."""
        digest = copy(self._digest)
        if self._waiting:
            digest.update(np.array(self._waiting))
        digest.compress()
        return digest

    def merge(self, other: Digest) -> None:
        self.count += other.count
        self._digest.merge(other.whole())
        self._digest.compress()

    def pack(self) -> Packed:
        return "quantiles", (self._compression,), self.count, self._digest.serialize(), list(self._waiting)
