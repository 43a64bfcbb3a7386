"""A table of maps: a dict per key in memory, a row per map entry in the changelog.

Separate from `Table` because a map state may be large: touching one of its entries must not rewrite the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from flintstream.state.table import GONE, Table, write_rows


class MapTable(Table):
    """Rows `(key, map key) -> value`, held as `key -> {map key: value}`."""

    def __init__(self, name: str) -> None:
        super().__init__(name, parts=2)

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

    def unload(self, entry: Any) -> None:
        key, inner = entry
        held = self.data.get(key)
        if held is not None:
            held.pop(inner, None)
            if not held:
                del self.data[key]

    def __len__(self) -> int:
        return sum(map(len, self.data.values()))
