"""A table of maps: a dict per key in memory, a row per map entry in the changelog.

Separate from `Table` because a map state may be large: touching one of its entries must not rewrite the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from flintstream.state.table import GONE, Table, write_rows


class MapTable(Table):
    """Rows `(key, map key) -> value`, held as `key -> {map key: value}`."""

    def __init__(self, name: str) -> None:
        super().__init__(name, parts=2)
        self._counted = 0

    def put_in(self, key: Any, inner: Any, value: Any) -> None:
        """Set one entry of a key's map."""
        held = self.data[key]
        if held is None:
            held = self.data[key] = {}
        held[inner] = value
        self.dirty.add((key, inner))

    def remove_in(self, key: Any, inner: Any) -> None:
        """Remove one entry of a key's map; an empty map is no map."""
        held = self.data[key]
        if held is None or inner not in held:
            return
        del held[inner]
        self.dirty.add((key, inner))
        if not held:
            del self.data[key]

    def remove_all(self, key: Any) -> None:
        """Remove a key's whole map."""
        held = self.data[key]
        if held:
            self.dirty.update((key, inner) for inner in held)
            del self.data[key]

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        if not self.dirty:
            return None
        entries = list(self.dirty)
        empty: dict[Any, Any] = {}
        values = [(self.data.get(key) or empty).get(inner, GONE) for key, inner in entries]
        return write_rows(self, entries, values, max_parallelism)

    def scope_parts(self, scope: Any) -> tuple[Any, ...]:
        """Return the parts that the rows of one map have in common: its key, or its key and more."""
        return (scope,) if self.parts == 2 else scope

    def rows(self) -> Iterator[tuple[Any, Any]]:
        if self.scan is not None:
            return self.scan()
        return (
            ((*self.scope_parts(scope), inner), value)
            for scope, held in self.data.items()
            for inner, value in held.items()
        )

    def dirty_rows(self) -> Iterator[tuple[Any, Any]]:
        empty: dict[Any, Any] = {}
        for scope, inner in self.dirty:
            yield (*self.scope_parts(scope), inner), (self.data.get(scope) or empty).get(inner, GONE)

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        rows = [((key, inner), value) for key, held in self.data.items() for inner, value in held.items()]
        if not rows:
            return None
        return write_rows(self, [entry for entry, _ in rows], [value for _, value in rows], max_parallelism)

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        for (key, inner), value in zip(entries, values, strict=True):
            held = self.data.get(key)
            if held is None:
                held = self.data[key] = {}
            held[inner] = value
            self._counted += 1

    def unload(self, entry: Any) -> None:
        key, inner = entry
        held = self.data.get(key)
        if held is not None:
            held.pop(inner, None)
            if not held:
                del self.data[key]

    def mark_clean(self) -> None:
        self._counted += len(self.dirty)
        super().mark_clean()

    def clear(self) -> None:
        super().clear()
        self._counted = 0

    def found(self, rows: int) -> None:
        """A map of so many rows was found on disk and is in memory now."""
        self._counted += rows

    def at_most(self) -> int:
        return self._counted + len(self.dirty)

    def __len__(self) -> int:
        # Nothing is counted while entries are put and removed, so this walks over all keys.
        self._counted = sum(map(len, self.data.values()))
        return self._counted
