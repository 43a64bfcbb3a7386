"""Tables larger than memory: entries that are not in memory are looked up on disk, and what changed is put there.

An attempt reads committed state from the working store, which it never changes, and writes into an **overlay** of its
own. So a failed attempt leaves nothing behind but committed state. What an entry is, in this order: what memory holds;
nothing, if memory says that it was removed; the overlay's; the working store's.

Invariant: an entry in memory that is not dirty is also on disk, hence may be forgotten between two runs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from flintstream.errors import IncompatibleStateError
from flintstream.state.disk import Records, Row, View, is_gone, read_record
from flintstream.state.evolution import in_state, reading
from flintstream.state.keybytes import entry_bytes, part_bytes
from flintstream.state.local_folder import local_root
from flintstream.state.map_table import MapTable
from flintstream.state.table import GONE, Table


class Overlay:
    """What one attempt has changed, as far as it did not stay in memory; gone with the attempt, however it ends."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="overlay-", dir=local_root()))
        try:
            self._records = Records(folder, shared=False)
        finally:
            # The open files live on without their names, and even a killed process leaves none behind.
            shutil.rmtree(folder, ignore_errors=True)
        self.view = self._records.view()

    def write(self, name: str, parts: int, rows: Iterator[Row]) -> None:
        """Set entries of a table."""
        self.view.close()
        self._records.write(name, parts, rows, keep_gone=True)
        self.view = self._records.view()

    def close(self) -> None:
        """Forget everything."""
        self.view.close()
        self._records.close()


class Spill:
    """The way of one attempt's tables to disk and back; `committed` is the state it started from."""

    def __init__(self, committed: View) -> None:
        self._committed = committed
        self._overlay: Overlay | None = None

    def attach(self, name: str, table: Table) -> None:
        """From now on a table finds on disk what it does not have in memory."""
        load = self._load_map(name, table) if isinstance(table, MapTable) else self._load_value(name, table)
        table.data.fallback = load
        table.scan = partial(self.every_row, name, table)

    def _load_value(self, name: str, table: Table) -> Callable[[Any], Any]:
        parts, dirty = table.parts, table.dirty

        def load(entry: Any) -> Any:
            if entry in dirty:
                return None
            key = entry_bytes(entry, parts)
            record = None if self._overlay is None else self._overlay.view.get(name, key)
            if record is None:
                record = self._committed.get(name, key)
            if record is None:
                return None
            try:
                value = read_record(record)[1]
            except IncompatibleStateError as error:
                raise in_state(error, name) from None
            return None if value is GONE else value

        return load

    def _load_map(self, name: str, table: MapTable) -> Callable[[Any], Any]:
        """A key's map is loaded whole on first touch: its entries stand side by side."""
        dirty = table.dirty

        def load(scope: Any) -> Any:
            start = b"".join(map(part_bytes, table.scope_parts(scope)))
            found: dict[Any, Any] = {}
            for row, value in self._rows_of_map(name, start):
                if value is GONE or (scope, row[-1]) in dirty:
                    found.pop(row[-1], None)
                else:
                    found[row[-1]] = value
            table.found(len(found))
            return found or None

        return load

    def _rows_of_map(self, name: str, start: bytes) -> list[Row]:
        with reading(name):
            return list(self._rows(name, start))

    def _rows(self, name: str, start: bytes) -> Iterator[Row]:
        """Yield what was committed, then what changed."""
        yield from self._committed.read(name, start)
        if self._overlay is not None:
            yield from self._overlay.view.read(name, start)

    def take(self, name: str, table: Table) -> None:
        """Write what is dirty in a table into the overlay; the table stays as it is, but clean."""
        if table.dirty:
            if self._overlay is None:
                self._overlay = Overlay()
            self._overlay.write(name, table.parts, table.dirty_rows())
            table.mark_clean()

    def every_row(self, name: str, table: Table) -> Iterator[Row]:
        """Yield all rows of a table, in memory and on disk."""
        self.take(name, table)
        overlay = None if self._overlay is None else self._overlay.view
        for key, record in self._committed.scan(name):
            if overlay is None or overlay.get(name, key) is None:
                yield read_record(record)
        if overlay is not None:
            yield from (row for row in overlay.read(name) if row[1] is not GONE)

    def changed(self, name: str, table: Table) -> int:
        """Return how many rows `changes` gives, at most."""
        spilled = None if self._overlay is None else self._overlay.view.tables.get(name)
        return len(table.dirty) + (0 if spilled is None else spilled.rows)

    def changes(self, name: str, table: Table) -> Iterator[Row]:
        """Yield all that has changed in a table since the committed state, and leave it clean."""
        overlay = self._overlay_of(name, table)
        if overlay is not None:
            yield from overlay.read(name)
            return
        yield from table.dirty_rows()
        table.mark_clean()

    def _overlay_of(self, name: str, table: Table) -> View | None:
        """Return the overlay with all that changed in a table in it; None if all that changed is in memory."""
        if self._overlay is None or name not in self._overlay.view.tables:
            return None
        self.take(name, table)
        return self._overlay.view

    def rows(self, name: str, table: Table) -> int:
        """Return how many rows a table has, in memory and on disk."""
        overlay = self._overlay_of(name, table)
        if overlay is not None:
            changed = ((key, is_gone(record)) for key, record in overlay.scan(name))
        else:
            changed = ((entry_bytes(entry, table.parts), value is GONE) for entry, value in table.dirty_rows())
        info = self._committed.tables.get(name)
        rows = 0 if info is None else info.rows
        for key, gone in changed:
            was_there = self._committed.get(name, key) is not None
            rows += (not gone) - was_there
        return rows

    def close(self) -> None:
        """Forget what was written; nothing can be looked up any more."""
        if self._overlay is not None:
            self._overlay.close()
            self._overlay = None
