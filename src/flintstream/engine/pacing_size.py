"""How many records an epoch is to have, learnt from how long epochs take.

Part of an epoch's time is there whatever it reads, and the rest grows with its records. Both are estimated from epochs
of different sizes, the newest counting most: where the first part is great (a busy machine) epochs are made longer, for
smaller ones would only make it worse; where records are slow (a sink that sleeps) epochs become as small as they must,
so that input stays where it is kept until it can be processed, and memory and latency stay bounded.

Flink: credit-based flow control and buffer debloating, which bound what is under way in the same sense.
"""

from __future__ import annotations

import math

FIRST_RECORDS = 1_000
"""Few enough that an epoch of records which take 10 ms each ends soon."""
MOST_RECORDS = 32_000_000
FLOORS_PER_EPOCH = 8
"""An epoch is to take so many times what it takes without any record."""
MOST_GROWTH = 32.0
MANY_RECORDS = 100_000
GROWTH_OF_MANY = 8.0
_FORGETS = 0.7
_SPREAD = 0.3
"""How far sizes must differ, relative to their mean, before they tell anything."""


class EpochSize:
    """Says how many records the next epoch may read."""

    def __init__(self, target_seconds: float) -> None:
        self.records = FIRST_RECORDS
        self._target = target_seconds
        self._is_first = True
        self._forget()

    def _forget(self) -> None:
        self._fixed: float | None = None
        self._least = math.inf
        # Weighted sums over epochs: of 1, of records, of seconds, and of products of the two.
        self._weight = self._n = self._s = self._nn = self._ns = 0.0

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch; one that had much less to read than it might have tells nothing."""
        if records < self.records // 2:
            return
        if not self._is_first:
            # The first epoch starts processes and opens functions, and would be taken for the price of its records.
            self._note(records, seconds)
        fixed = self._fixed or 0.0
        goal = max(self._target, FLOORS_PER_EPOCH * fixed)
        if seconds > 2 * goal:
            # Something is not as it was, or the first epoch was a bad guess: begin to learn anew, with this one.
            factor = min(0.5, (goal - fixed) / max(seconds - fixed, 1e-9))
            self._forget()
            if not self._is_first:
                self._note(records, seconds)
        elif seconds < goal * 3 / 4:
            most = MOST_GROWTH if self.records < MANY_RECORDS else GROWTH_OF_MANY
            factor = min(most, max(1.0, (0.9 * goal - fixed) / max(seconds - fixed, 1e-9)))
        elif self._fixed is None and not self._is_first:
            # Nothing is known yet of why it is no shorter; one of another size will tell.
            factor = 0.5 if self.records > 1 else 2.0
        else:
            factor = 1.0
        self._is_first = False
        self.records = int(min(max(1, self.records * factor), MOST_RECORDS))

    def _note(self, records: int, seconds: float) -> None:
        """Estimate the part of an epoch's time that does not depend on its records, by a line through epochs."""
        # No epoch is shorter than that part; but machines become busier, so this is forgotten, too.
        self._least = min(self._least * 1.05, seconds)
        sums = (self._weight, self._n, self._s, self._nn, self._ns)
        new = (1.0, records, seconds, records * records, records * seconds)
        self._weight, self._n, self._s, self._nn, self._ns = (
            _FORGETS * old + each for old, each in zip(sums, new, strict=True)
        )
        mean, average = self._n / self._weight, self._s / self._weight
        variance = self._nn / self._weight - mean * mean
        if math.sqrt(max(0.0, variance)) > _SPREAD * mean:
            slope = max(0.0, (self._ns / self._weight - mean * average) / variance)
            self._fixed = min(max(0.0, average - slope * mean), self._least)
