"""One named state of one operator in one partition: a dict with a memory of what changed.

A table is the single shape behind every state primitive: rows `(key parts...) -> value`. Views and timers work on
`data` directly, since they are the hot path; the table turns what became `dirty` into a changelog batch and applies
such batches again. Entries that are not in memory are found through `fallback`, so that a table can be larger than it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.state.codec import Kind, decode, decode_keys, encode, field_of, kind_of_field
from flintstream.state.keygroups import hash_column, key_groups
from flintstream.state.partials import TABLE_METADATA

GONE = object()
"""Stands in a merged delta for an entry that was removed."""
_RESIDENT, _SHARED = b"resident", b"shared"
EVERY_GROUP = -1
"""The key group of rows that every partition has."""


class Entries(dict[Any, Any]):
    """The entries in memory; a missing one is asked of `fallback` once, and is None if nobody knows it."""

    __slots__ = ("fallback",)

    def __init__(self) -> None:
        super().__init__()
        self.fallback: Callable[[Any], Any] | None = None

    def finder(self) -> Callable[[Any], Any]:
        """Return the quickest way to look entries up: where all are in memory, without a detour for those that miss."""
        return self.get if self.fallback is None else self.__getitem__

    def __missing__(self, entry: Any) -> Any:
        if self.fallback is None:
            return None
        value = self.fallback(entry)
        if value is not None:
            self[entry] = value
        return value


class Table:
    """Rows `entry -> value`; an entry is the key itself (`parts` = 1) or a tuple of key and further parts.

    Whoever goes over `data` itself sees what is in memory; `rows` are all there are. `resident` tables stay in memory
    however large they are; those without values always do. `shared` ones are the same in all partitions: each takes
    all rows over, however many there are now and were before.
    """

    def __init__(
        self, name: str, parts: int = 1, has_value: bool = True, resident: bool = False, shared: bool = False
    ) -> None:
        self.name = name
        self.parts = parts
        self.has_value = has_value
        self.resident = resident or shared or not has_value
        self.shared = shared
        self.data = Entries()
        self.dirty: set[Any] = set()
        self.scan: Callable[[], Iterator[tuple[Any, Any]]] | None = None

    def put(self, entry: Any, value: Any) -> None:
        """Set an entry; None removes it."""
        if value is None:
            self.delete(entry)
        else:
            self.data[entry] = value
            self.dirty.add(entry)

    def delete(self, entry: Any) -> None:
        """Remove an entry, known or not."""
        self.data.pop(entry, None)
        self.dirty.add(entry)

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return what became dirty as a changelog batch, or None if nothing did."""
        if not self.dirty:
            return None
        entries = list(self.dirty)
        get = self.data.get
        return write_rows(self, entries, [get(entry, GONE) for entry in entries], max_parallelism)

    def rows(self) -> Iterator[tuple[Any, Any]]:
        """Yield all entries and values, in memory or not; nothing may be changed meanwhile."""
        return iter(self.data.items()) if self.scan is None else self.scan()

    def dirty_rows(self) -> Iterator[tuple[Any, Any]]:
        """Yield what became dirty as entries and values, GONE for what was removed."""
        get = self.data.get
        for entry in self.dirty:
            yield entry, get(entry, GONE)

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return every row in memory as a changelog batch, or None if there is none."""
        if not self.data:
            return None
        return write_rows(self, list(self.data), list(self.data.values()), max_parallelism)

    def mark_clean(self) -> None:
        """What was dirty is in a changelog now."""
        self.dirty.clear()

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        """Bring the table forward by a changelog batch."""
        entries, values, gone = read_entries(batch, self.parts), self.read_values(batch), batch.column("gone")
        if not gone.true_count:
            self.load(entries, values)
            return
        # An entry that is there twice was removed and then set again.
        removed = gone.to_pylist()
        lost = list(compress(entries, removed))
        if keep_gone:
            self.load(lost, [GONE] * len(lost))
        else:
            for entry in lost:
                self.unload(entry)
        kept = [not each for each in removed]
        self.load(compress(entries, kept), compress(values, kept))

    def read_values(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """Return the values of a changelog batch as the table holds them; True where there are none."""
        return read_values(batch)

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        """Take over committed entries; nothing becomes dirty."""
        self.data.update(zip(entries, values, strict=True))

    def unload(self, entry: Any) -> None:
        """Forget a committed entry; nothing becomes dirty."""
        self.data.pop(entry, None)

    def clear(self) -> None:
        """Forget everything in memory."""
        self.data.clear()
        self.dirty.clear()

    def encode_values(self, values: list[Any]) -> tuple[pa.Array, Kind]:
        """Return the column of some values, None for those that are gone, as `decode` reads it."""
        return encode(values)

    def at_most(self) -> int:
        """Return a number of rows that is quick to tell and not less than what is in memory."""
        return len(self.data)

    def __len__(self) -> int:
        return len(self.data)


def write_rows(table: Table, entries: list[Any], values: list[Any], max_parallelism: int) -> pa.RecordBatch:
    """Return the changelog batch of rows: key group, key parts, value, gone."""
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []

    def add(
        name: str, data: list[Any], how: Callable[[list[Any]], tuple[pa.Array, Kind]] = encode
    ) -> tuple[pa.Array, Kind]:
        array, kind = how(data)
        columns.append(array)
        fields.append(field_of(name, array, kind))
        return array, kind

    if table.parts == 1:
        key, kind = add("key", entries)
    else:
        key, kind = add("key", [entry[0] for entry in entries])
        for part in range(1, table.parts):
            add(f"part{part}", [entry[part] for entry in entries])
    groups = key_groups(hash_column(key, kind), max_parallelism)
    if table.shared:
        groups[:] = EVERY_GROUP
    columns.append(pa.array(groups.astype(np.int32)))
    fields.append(pa.field("key_group", pa.int32()))
    gone = [value is GONE for value in values]
    columns.append(pa.array(gone, pa.bool_()))
    fields.append(pa.field("gone", pa.bool_()))
    if table.has_value:
        present = [None if value is GONE else value for value in values] if True in gone else values
        add("value", present, table.encode_values)
    mark = _SHARED if table.shared else _RESIDENT
    metadata = {TABLE_METADATA: mark} if table.has_value and table.resident else None
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata))


def parts_of(batch: pa.RecordBatch) -> int:
    """Return how many parts the entries of a changelog batch have."""
    return 1 + sum(name.startswith("part") for name in batch.schema.names)


def is_resident(batch: pa.RecordBatch) -> bool:
    """Whether a changelog batch is of a table that stays in memory, however large it is."""
    return "value" not in batch.schema.names or TABLE_METADATA in (batch.schema.metadata or {})


def is_shared(batch: pa.RecordBatch) -> bool:
    """Whether a changelog batch is of a table that is the same in all partitions."""
    return (batch.schema.metadata or {}).get(TABLE_METADATA) == _SHARED


def within(batch: pa.RecordBatch, groups: range) -> pa.RecordBatch:
    """Return the rows whose key group is in `groups`, or every one; who has no key groups at all has none of these."""
    column = batch.column("key_group").to_numpy()
    mine = (column >= groups.start) & (column < groups.stop) | (column == EVERY_GROUP) & (len(groups) > 0)
    return batch if bool(mine.all()) else batch.filter(pa.array(mine))


def read_rows(batch: pa.RecordBatch, parts: int) -> tuple[list[Any], list[Any], list[bool]]:
    """Return entries, values and removal marks of a changelog batch."""
    return read_entries(batch, parts), read_values(batch), batch.column("gone").to_pylist()


def read_entries(batch: pa.RecordBatch, parts: int) -> list[Any]:
    """Return the entries of a changelog batch."""
    entries = _column(batch, "key", decode_keys)
    if parts > 1:
        return list(zip(entries, *(_column(batch, f"part{part}", decode) for part in range(1, parts)), strict=True))
    return entries


def read_values(batch: pa.RecordBatch) -> list[Any]:
    """Return the values of a changelog batch, True where there are none."""
    return _column(batch, "value", decode) if "value" in batch.schema.names else [True] * batch.num_rows


def _column(batch: pa.RecordBatch, name: str, read: Callable[[pa.Array, Kind], list[Any]]) -> list[Any]:
    index = batch.schema.get_field_index(name)
    return read(batch.column(index), kind_of_field(batch.schema.field(index)))
