"""When entries of state expire, and what is left to do then.

Expiry has two sides that are kept apart. What the user's code **sees** is decided at each read, from the entry's stamp
and the clock alone, so it does not depend on how the input was cut into epochs. What is **stored** follows behind: a
deadline for each key says when to look at it, and at the end of an epoch all that have passed are looked at. A deadline
is set when a key gets its first entry and moves only when it has come: touching an entry again costs nothing.

Flink: runtime.state.ttl.TtlUtils, and the clean-up that its backends do. Differs from Flink: see `model.state_ttl`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from flintstream.model.time import MAX_TIMESTAMP
from flintstream.state.stamped import Stamped
from flintstream.state.table import Table

_LEAST_QUEUED = 1000


class TtlClock(Protocol):
    """The time for code that runs now."""

    def now(self) -> int:
        """Return how late it is: what expires by then has expired."""
        ...

    def stamp(self) -> int:
        """Return the stamp of what is touched now."""
        ...


class Deadlines(Table):
    """Rows `key -> time`: when to look whether anything of a key has expired. A key has one at most."""

    def __init__(self, name: str) -> None:
        super().__init__(name, resident=True)
        self._queue: list[int] = []
        self._keys: dict[int, list[Any]] = {}
        self._queued = 0

    def add(self, key: Any, time: int) -> None:
        """Look at a key at `time`, or when it was to be looked at anyway, if that is earlier."""
        known = self.data.get(key)
        if known is None or time < known:
            time = min(time, MAX_TIMESTAMP)
            self.data[key] = time
            self.dirty.add(key)
            self._enqueue(key, time)

    def drop(self, key: Any) -> None:
        """Look at a key no more: nothing is left of it."""
        if key in self.data:
            self.delete(key)

    def take_until(self, time: int) -> Iterator[Any]:
        """Remove the deadlines not after `time` and yield their keys, which may get new ones meanwhile."""
        while self._queue and self._queue[0] <= time:
            due = heapq.heappop(self._queue)
            keys = self._keys.pop(due)
            self._queued -= len(keys)
            for key in keys:
                if self.data.get(key) == due:
                    self.delete(key)
                    yield key

    def _enqueue(self, key: Any, time: int) -> None:
        keys = self._keys.get(time)
        if keys is None:
            keys = self._keys[time] = []
            heapq.heappush(self._queue, time)
        keys.append(key)
        self._queued += 1
        # Deadlines that were dropped or moved stay in the queue; they must not outweigh the others.
        if self._queued > 2 * len(self.data) + _LEAST_QUEUED:
            self._rebuild()

    def _rebuild(self) -> None:
        self._keys = {}
        for key, time in self.data.items():
            self._keys.setdefault(time, []).append(key)
        self._queue = sorted(self._keys)
        self._queued = len(self.data)

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        for key, time in zip(entries, values, strict=True):
            self.data[key] = time
            self._enqueue(key, time)

    def clear(self) -> None:
        super().clear()
        self._rebuild()


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long entries of one state live.

    Without `deadlines` nobody cleans up: what has expired stays until it is next read or written, and is shown that one
    time if `shows_expired`.
    """

    ttl: int
    clock: TtlClock
    on_read: bool
    shows_expired: bool
    deadlines: Deadlines | None

    def has_ended(self, held: Stamped, now: int) -> bool:
        """Whether an entry has expired by `now`."""
        return held[1] + self.ttl <= now

    def leaves(self, held: Stamped, now: int) -> bool:
        """Whether an entry is cleaned up at `now`: also if time ends before it does."""
        return held[1] + self.ttl <= now or now == MAX_TIMESTAMP

    def touched(self, held: Stamped) -> Stamped:
        """Return a live entry as it is after being read; the same object if that changes nothing."""
        if not self.on_read:
            return held
        stamp = self.clock.stamp()
        return Stamped((held[0], stamp)) if stamp > held[1] else held

    def renewed(self, value: Any, held: Stamped | None) -> Stamped:
        """Return the entry that a write of `value` makes, where `held` was before.

        Records may come out of order, and a write must not shorten a life.
        """
        stamp = self.clock.stamp()
        if held is not None and held[1] > stamp and not self.has_ended(held, self.clock.now()):
            stamp = held[1]
        return Stamped((value, stamp))

    def look_at(self, key: Any, stamp: int) -> None:
        """See to it that a key is looked at when an entry of it expires that was touched at `stamp`."""
        if self.deadlines is not None:
            self.deadlines.add(key, stamp + self.ttl)

    def forget(self, key: Any) -> None:
        """Nothing is left of a key."""
        if self.deadlines is not None:
            self.deadlines.drop(key)


def give_stamps(table: Table, stamp: int, life: Lifetime, *, lists: bool = False) -> None:
    """Let state that was kept for ever expire from now on: what it holds counts as touched at `stamp`."""
    if not _differs(table, expires=False):
        return
    for entry, value in list(table.rows()):
        new = [Stamped((each, stamp)) for each in value] if lists else Stamped((value, stamp))
        _replace(table, entry, new)
        life.look_at(entry if table.parts == 1 else entry[0], stamp)


def take_stamps(table: Table) -> None:
    """Let state that expired be kept for ever from now on."""
    if _differs(table, expires=True):
        for entry, value in list(table.rows()):
            is_list = type(value) is list
            _replace(table, entry, [each[0] for each in value] if is_list else value[0])


def _replace(table: Table, entry: Any, value: Any) -> None:
    """Set a row of a table; that of a table of maps is an entry of one map."""
    put_in: Any = getattr(table, "put_in", None)
    if put_in is None:
        table.put(entry, value)
    else:
        put_in(*entry, value)


def _differs(table: Table, *, expires: bool) -> bool:
    """Whether a table holds values of that sort; they are all of one, since they are all converted at once."""
    first: Any = next(table.rows(), None)
    if first is None:
        return False
    value = first[1]
    if type(value) is list:
        elements = cast("list[Any]", value)
        value = elements[0] if elements and type(elements[0]) is Stamped else value
    return (type(value) is Stamped) == expires
