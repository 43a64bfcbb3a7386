"""State of one side of a join by intervals: rows that wait for partners, in piles that can be searched.

On disk it is a `HeldTable`, whose times are those at which rows are gone: a changelog has the rows that came and the
one number up to which they left, and files are merged without knowing what they hold. In memory rows stand in a few
piles sorted by key and time, each at least twice as large as the next, so that a row is sorted again only so many times
as the number of rows has digits. Rows whose time is over are passed over, and leave when a pile is made anew.

That a row has found a partner is told by a second table, since rows never change: `marks` has the numbers of such rows
for as long as these are there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.state.held import Held, HeldTable, from_batch, horizon_of, to_batch
from flintstream.state.pile import I64, Pile, joined, sorted_pile

_KINDS = ("int", "int")
_NUMBERS = 1 << 47
"""Group and number of a row make one number: there are at most 2^15 groups."""


class SideTable(HeldTable):
    """Rows `(key, time, number, value)` of one side, each until its own expiry."""

    def __init__(self, marks: HeldTable) -> None:
        super().__init__()
        self._marks = marks
        self._seen = marks.generation
        self._piles: list[Pile] = []
        self._fresh: list[Pile] = []
        self.next_number = 0

    def piles(self) -> list[Pile]:
        """Return the rows, some of whose time may be over."""
        if self._seen != self._marks.generation:
            self._seen = self._marks.generation
            self._mark_again()
        return self._piles

    def _mark_again(self) -> None:
        """Find out which rows have a partner, after state was loaded."""
        marks = self._marks.parts()
        ids = [part.groups * _NUMBERS + part.values.to_numpy(zero_copy_only=False) for part in marks]
        known = np.concatenate(ids) if ids else np.zeros(0, np.int64)
        for pile in self._piles:
            pile.matched[:] = np.isin(pile.groups * _NUMBERS + pile.numbers, known)

    def put(self, pile: Pile) -> None:
        """Take in new rows."""
        if 2 * len(pile) < len(pile.values[0]):
            # The columns of what left already would stay as long as those of what did not.
            pile = joined([pile])
        self._fresh.append(pile)
        self._stack(pile)

    def mark(self, pile: Pile, at: I64) -> None:
        """Note that rows of a pile have a partner; those that have one already are left out."""
        at = np.unique(at)
        at = at[~pile.matched[at]]
        pile.matched[at] = True
        if len(at):
            numbers = pa.array(pile.numbers[at])
            self._marks.add(Held(pile.expiries[at], pile.places[at], pile.groups[at], numbers, "int"))

    def _stack(self, pile: Pile) -> None:
        """Put a pile on the others, and join those that are not much larger with it."""
        stack = self._piles
        stack.append(pile)
        count = 1
        total = len(pile)
        while count < len(stack) and len(stack[-count - 1]) < 2 * total:
            count += 1
            total += len(stack[-count])
        if count > 1:
            alive = [each.after(self.horizon) for each in stack[-count:]]
            stack[-count:] = [joined(alive)]

    def advance(self, time: int) -> None:
        """Let rows go whose expiry is not later than `time`."""
        if time <= self.horizon:
            return
        piles: list[Pile] = []
        for pile in self._piles:
            gone = int(np.count_nonzero(pile.expiries <= time))
            self._left = self._left or gone > 0
            if gone < len(pile):
                piles.append(joined([pile.after(time)]) if 2 * gone >= len(pile) else pile)
        self._piles = piles
        self.horizon = time
        self._marks.take_until(time)

    def expired(self, time: int) -> list[tuple[Pile, I64]]:
        """Return where rows without a partner are that leave when event time comes to `time`."""
        found: list[tuple[Pile, I64]] = []
        for pile in self.piles():
            due = (pile.expiries <= time) & (pile.expiries > self.horizon) & ~pile.matched
            if due.any():
                found.append((pile, np.flatnonzero(due)))
        return found

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        added = [part for part in map(self._held, self._fresh) if len(part.times)]
        return to_batch(added, self.horizon) if added or self._left else None

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        if not self._piles and self.horizon == MIN_TIMESTAMP:
            return None
        return to_batch(map(self._held, self._piles), self.horizon)

    def _held(self, pile: Pile) -> Held:
        """Return what is still there of a pile, as it is stored."""
        pile = pile.after(self.horizon)
        everything = np.arange(len(pile))
        key, key_kind = pile.keys_at(everything)
        value, kind = pile.values_at(everything)
        columns = [key, pa.array(pile.times), pa.array(pile.numbers), value]
        rows = pa.StructArray.from_arrays(columns, ["f0", "f1", "f2", "f3"])
        order = np.argsort(pile.expiries, kind="stable")
        held = Held(pile.expiries, pile.places, pile.groups, rows, ["tuple", [key_kind, *_KINDS, kind]])
        return held.take(order)

    def mark_clean(self) -> None:
        self._fresh.clear()
        self._left = False

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        self.generation += 1
        self._seen = -1
        self.horizon = max(self.horizon, horizon_of(batch))
        self._piles = [pile for pile in (each.after(self.horizon) for each in self._piles) if len(pile)]
        held = from_batch(batch).after(self.horizon)
        if not len(held.times):
            return
        # Rows of equal times stand in the order of arrival.
        held = held.take(np.argsort(held.values.field(2).to_numpy(), kind="stable"))
        kinds, rows = held.kind[1], held.values
        numbers = rows.field(2).to_numpy()
        self.next_number = max(self.next_number, int(numbers.max()) + 1)
        self._stack(
            sorted_pile(
                held.places,
                rows.field(1).to_numpy(),
                held.times,
                numbers,
                held.groups,
                (rows.field(0), kinds[0]),
                (rows.field(3), kinds[3]),
            )
        )

    def clear(self) -> None:
        super().clear()
        self._piles.clear()
        self.next_number = 0

    def __len__(self) -> int:
        return sum(int(np.count_nonzero(pile.expiries > self.horizon)) for pile in self._piles)
