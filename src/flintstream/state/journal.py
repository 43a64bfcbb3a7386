"""What one call of a user's function has done to keyed state, so that it can be undone if the call fails.

Tables that are watched note, at the first touch of an entry in a call, what it held: also at a read, since a value that
can be changed in place may be. Only operators that go on after a failure watch theirs, so others pay nothing. Beside
`table.py` rather than in it for that reason.

Flink: it has none; there a function that fails takes the job with it, back to the last checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, cast

from flintstream.state.map_table import MapTable
from flintstream.state.summary_table import Summary
from flintstream.state.table import Entries, Table

_ABSENT = object()
_UNCHANGEABLE = frozenset([int, float, str, bytes, bool, type(None)])


class Journal:
    """Open while a call runs."""

    __slots__ = ("is_open", "touched")

    def __init__(self) -> None:
        self.is_open = False
        self.touched: list[_Entries] = []

    def watch(self, table: object) -> None:
        """Note what happens to a table, which must be empty yet."""
        if isinstance(table, Table):
            table.data = _Entries(self, table)
            table.dirty = _Dirty(self)

    def begin(self) -> None:
        """A call begins."""
        self.is_open = True

    def end(self) -> None:
        """The call has ended well: what it did stays."""
        self.is_open = False
        for entries in self.touched:
            entries.log.clear()
            entries.dirty.fresh.clear()
        if self.touched:
            self.touched.clear()

    def undo(self) -> None:
        """The call has failed: everything is as it was before."""
        self.is_open = False
        for entries in self.touched:
            entries.undo()
        self.end()


class _Dirty(set[Any]):
    """What is to be written, and which part of it the call at hand has added."""

    __slots__ = ("_journal", "fresh")

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.fresh: list[Any] = []

    def add(self, element: Any, /) -> None:
        if self._journal.is_open and element not in self:
            self.fresh.append(element)
        super().add(element)

    def update(self, *others: Iterable[Any]) -> None:
        for other in others:
            for element in other:
                self.add(element)


class _Entries(Entries):
    """The entries of a table, and what those that the call at hand has touched held before."""

    __slots__ = ("_journal", "_table", "log")

    def __init__(self, journal: Journal, table: Table) -> None:
        super().__init__()
        self._journal = journal
        self._table = table
        self.log: dict[Any, Any] = {}

    @property
    def dirty(self) -> _Dirty:
        """What is to be written of the same table."""
        return cast("_Dirty", self._table.dirty)

    def _note(self, entry: Any) -> None:
        """Note what an entry holds, which the call at hand touches for the first time."""
        if not self.log:
            self._journal.touched.append(self)
        held = dict.get(self, entry, _ABSENT)
        if held is _ABSENT and self.fallback is not None:
            held = self.fallback(entry)
            held = _ABSENT if held is None else held
        self.log[entry] = copy_of(held)

    def undo(self) -> None:
        """Set every entry back."""
        for entry, held in self.log.items():
            if held is _ABSENT:
                self._drop(entry)
            elif isinstance(self._table, MapTable):
                self[entry] = held
            else:
                # Queues beside the entries, as those of timers, hear of it only this way.
                self._table.unload(entry)
                self._table.load((entry,), (held,))
        self._table.dirty.difference_update(self.dirty.fresh)

    def _drop(self, entry: Any) -> None:
        if isinstance(self._table, MapTable):
            super().pop(entry, None)
        else:
            self._table.unload(entry)

    def __getitem__(self, entry: Any) -> Any:
        if self._journal.is_open and entry not in self.log:
            self._note(entry)
        return super().__getitem__(entry)

    def __setitem__(self, entry: Any, value: Any) -> None:
        if self._journal.is_open and entry not in self.log:
            self._note(entry)
        super().__setitem__(entry, value)

    def __delitem__(self, entry: Any) -> None:
        if self._journal.is_open and entry not in self.log:
            self._note(entry)
        super().__delitem__(entry)

    def pop(self, entry: Any, *default: Any) -> Any:
        if self._journal.is_open and entry not in self.log:
            self._note(entry)
        return super().pop(entry, *default)


def copy_of(value: Any) -> Any:
    """Return a value that stays as it is when the other is changed in place; what cannot be changed is not copied."""
    kind = type(value)
    if kind in _UNCHANGEABLE or value is _ABSENT:
        return value
    if kind is list and _UNCHANGEABLE.issuperset(map(type, value)):
        return list(value)
    if kind is dict and _UNCHANGEABLE.issuperset(map(type, value.values())):
        return dict(value)
    if kind is tuple and _UNCHANGEABLE.issuperset(map(type, value)):
        return value
    # A summary packs itself once an epoch; what it packed is taken for itself when it is next asked for.
    return value.pack() if isinstance(value, Summary) else copy.deepcopy(value)
