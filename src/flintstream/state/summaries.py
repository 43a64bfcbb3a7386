"""Summaries of one key's values that are made of plain Python: a sample, and the commonest values.

Both are functions of the values in their order, and of nothing else, so that a replay gives the same. The sample keeps
the values with the smallest hashes of their place in that order. The commonest are counted by Misra and Gries, with the
median taken off when there are too many (Anderson and others, IMC '17), as in Apache DataSketches, whose own
implementation cannot be used here: merging two goes by the order of a hash table, which changes when it is restored.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from flintstream.state.keybytes import canonical
from flintstream.state.keygroups import hash_key
from flintstream.state.summary_table import Packed, Summary

_MASK = (1 << 64) - 1


def _scatter(number: int) -> int:
    """Return 63 bits that look random, the same for the same number (the finalizer of SplitMix64)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return (number ^ number >> 31) >> 1


class Reservoir(Summary):
    """The `size` values of the least priorities, which are hashes of seed, key and place."""

    __slots__ = ("_base", "_priorities", "_seed", "_size", "_values")

    def __init__(self, key: Any, size: int, seed: int) -> None:
        super().__init__()
        self._size = size
        self._seed = seed
        self._base = hash_key((seed, key))
        self._priorities: list[int] = []
        self._values: list[Any] = []

    @staticmethod
    def unpack(packed: Packed, key: Any, size: int, seed: int) -> Reservoir:
        """Return what was packed."""
        reservoir = Reservoir(key, size, seed)
        reservoir.count, reservoir._priorities, reservoir._values = packed
        return reservoir

    def add(self, value: Any) -> None:
        self.count += 1
        self._offer(_scatter(self._base + self.count * 0x9E3779B97F4A7C15 & _MASK), value)

    def _offer(self, priority: int, value: Any) -> None:
        priorities = self._priorities
        if len(priorities) < self._size:
            place = bisect_left(priorities, priority)
        elif priority < priorities[-1]:
            place = bisect_left(priorities, priority)
            del priorities[-1], self._values[-1]
        else:
            return
        priorities.insert(place, priority)
        self._values.insert(place, value)

    def merge(self, other: Reservoir) -> None:
        self.count += other.count
        for priority, value in zip(other._priorities, other._values, strict=True):
            self._offer(priority, value)

    def sample(self) -> list[Any]:
        """Return the values."""
        return list(self._values)

    def pack(self) -> Packed:
        return "reservoir", (self._size, self._seed), self.count, self._priorities, self._values


class Commonest(Summary):
    """Counts of at most `capacity` values, each too small by at most `error`."""

    __slots__ = ("_capacity", "_counts", "error")

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity
        self._counts: dict[Any, int] = {}
        self.error = 0

    @staticmethod
    def unpack(packed: Packed, capacity: int) -> Commonest:
        """Return what was packed."""
        commonest = Commonest(capacity)
        commonest.count, commonest.error, values, counts = packed
        commonest._counts = dict(zip(values, counts, strict=True))
        return commonest

    def add(self, value: Any) -> None:
        self.count += 1
        counts = self._counts
        counts[value] = counts.get(value, 0) + 1
        if len(counts) > self._capacity:
            self._purge()

    def _purge(self) -> None:
        """Take the median off all counts, and forget those of which nothing is left: half of them or more."""
        median = sorted(self._counts.values())[len(self._counts) // 2]
        self._counts = {value: count - median for value, count in self._counts.items() if count > median}
        self.error += median

    def merge(self, other: Commonest) -> None:
        self.count += other.count
        self.error += other.error
        for value, count in other._counts.items():
            self._counts[value] = self._counts.get(value, 0) + count
        while len(self._counts) > self._capacity:
            self._purge()

    def top(self, k: int) -> list[tuple[Any, int]]:
        """Return the commonest values with counts that are too great by at most `error`; equals by their bytes."""
        order = sorted(self._counts.items(), key=lambda pair: (-pair[1], canonical(pair[0])))
        return [(value, count + self.error) for value, count in order[:k]]

    def pack(self) -> Packed:
        settings = (self._capacity,)
        return "top", settings, self.count, self.error, list(self._counts), list(self._counts.values())
