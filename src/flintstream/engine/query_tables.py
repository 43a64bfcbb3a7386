"""A table of state at one epoch, over the files that a manifest names: look-ups by key, and keys in their order.

A partition's state is a chain of files, and of an entry the newest row counts. Nothing is applied or copied: a look-up
goes from the newest file back until it finds the key. Where the hash of a key tells its key group, only the chain of
one partition is asked.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flintstream.engine.query_forms import Form, hash_of, order_of, pairs_as_form
from flintstream.engine.query_index import Column, FileIndex
from flintstream.state.keygroups import partition_of

_NUMBERS = frozenset({"int", "bool", "float"})
Chain = Sequence[FileIndex]
"""The rows of one partition, oldest first."""


@dataclass(frozen=True)
class Found:
    """What a key has: its value, or those of its windows, each with the window."""

    value: Form = None
    windows: tuple[tuple[Form, Form], ...] | None = None


Values = Callable[[Column, int], Form]
"""Makes the form of a value; who expires says `HIDDEN`."""
HIDDEN = object()


def shown(column: Column, row: int) -> Form:
    """Return a value as it is stored."""
    return column.form(row)


class StoredTable:
    """The rows of a table, by partition."""

    def __init__(self, chains: Sequence[Chain], parallelism: int, max_parallelism: int, values: Values = shown) -> None:
        self._chains = chains
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._values = values
        self._by_group = len(chains) == parallelism and all(
            index.keys.tells_group for chain in chains for index in chain if index.batch.num_rows
        )
        self._has_numbers_only = all(
            type(index.keys.kind) is str and index.keys.kind in _NUMBERS for chain in chains for index in chain
        )

    def chains_of(self, hashed: int) -> Sequence[Chain]:
        """Return the chains in which a key may be, by the hash of its form."""
        if not self._by_group:
            return self._chains
        return (self._chains[partition_of(hashed % self._max_parallelism, self._parallelism, self._max_parallelism)],)

    def value(self, form: Form) -> Found | None:
        """Return what a key has, None if it has nothing; of a table with one row for each key."""
        if self._has_numbers_only and type(form) is str:
            # A key in a URL may be meant as text; where no key is, it need not be looked for.
            return None
        hashed = hash_of(form)
        number = np.uint64(hashed)
        for chain in self.chains_of(hashed):
            for index in reversed(chain):
                rows = index.rows(number, form)
                if rows:
                    return None if index.is_gone(rows[0]) else self._found(index, rows[0])
        return None

    def _found(self, index: FileIndex, row: int) -> Found | None:
        assert index.values is not None
        value = self._values(index.values, row)
        return None if value is HIDDEN else Found(value)

    def rows(self, form: Form) -> list[tuple[list[Form], Form]]:
        """Return the rows of a key: the further parts of each entry, and its value."""
        hashed = hash_of(form)
        number = np.uint64(hashed)
        known: dict[str, tuple[list[Form], Form]] = {}
        for chain in self.chains_of(hashed):
            for index in reversed(chain):
                assert index.values is not None
                for row in index.rows(number, form):
                    parts = [part.form(row) for part in index.parts]
                    entry = json.dumps(parts, sort_keys=True)
                    if entry not in known:
                        known[entry] = (parts, HIDDEN if index.is_gone(row) else self._values(index.values, row))
        kept = [each for each in known.values() if each[1] is not HIDDEN]
        return sorted(kept, key=lambda each: order_of(each[0]))

    def map(self, form: Form) -> Found | None:
        """Return the map of a key."""
        rows = self.rows(form)
        return Found(pairs_as_form([(parts[0], value) for parts, value in rows])) if rows else None

    def windows(self, form: Form) -> Found | None:
        """Return what the windows of a key hold; a window of which each holds a map has more parts."""
        by_window: dict[str, tuple[Form, list[tuple[Form, Form]] | None, Form]] = {}
        for (window, *inner), value in self.rows(form):
            name = json.dumps(window, sort_keys=True)
            if not inner:
                by_window[name] = (window, None, value)
            else:
                held = by_window.setdefault(name, (window, [], None))[1]
                assert held is not None
                held.append((inner[0], value))
        found = tuple(
            (window, value if pairs is None else pairs_as_form(pairs)) for window, pairs, value in by_window.values()
        )
        return Found(windows=found) if found else None

    def keys(self, least: Sequence[Form], behind: Sequence[Form]) -> Iterator[Form]:
        """Yield all keys in their order, not below `least` and behind `behind` if given; also such as are gone."""
        last: Any = order_of(behind[0]) if behind else None
        start = max([(-1,), *map(order_of, (*least, *behind))])
        for where, form in heapq.merge(
            *(index.keys_from(start) for chain in self._chains for index in chain if index.batch.num_rows),
            key=lambda pair: pair[0],
        ):
            if where != last:
                last = where
                yield form
