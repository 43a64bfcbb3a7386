"""Broadcast state: a map that every instance of an operator has, in the order in which its keys came.

Separate from `Table`, because it has no keys and no key groups: one instance writes it and all read it, and it is whole
in memory always. Programs go over all of its pairs for every record, so their order is part of it: each pair has a
**place**, which the changelog keeps, and which depends on the map alone. So it does not matter who wrote the
changelog, nor who was restored from it and who was there all the time.

Flink: HeapBroadcastState. Differs from Flink: pairs are in the order of their insertion, as in a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flintstream.model.state import BroadcastState, ReadOnlyBroadcastState
from flintstream.state.codec import decode, decode_keys, encode, field_of, kind_of_field
from flintstream.state.partials import TABLE_METADATA
from flintstream.state.table import EVERY_GROUP, GONE

_BROADCAST = b"broadcast"


class BroadcastTable:
    """Rows `key -> value`, with the place of each; `data` is always in the order of places."""

    def __init__(self) -> None:
        self.data: dict[Any, Any] = {}
        self._places: dict[Any, int] = {}
        self._dirty: set[Any] = set()

    def put(self, key: Any, value: Any) -> None:
        """Set a pair; a new key comes last."""
        if key not in self.data:
            self._places[key] = self._last_place() + 1
        self.data[key] = value
        self._dirty.add(key)

    def _last_place(self) -> int:
        return self._places[next(reversed(self.data))] if self.data else -1

    def remove(self, key: Any) -> None:
        """Remove a pair, if it is there."""
        if key in self.data:
            del self.data[key], self._places[key]
            self._dirty.add(key)

    def dirty_rows(self) -> Iterator[tuple[Any, Any]]:
        """Yield the pairs that were set since the last changelog; GONE stands for a value that was removed."""
        for key in self._dirty:
            yield key, self.data.get(key, GONE)

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return what changed as a changelog batch, or None if nothing did."""
        return self._batch(list(self._dirty)) if self._dirty else None

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return every pair as a changelog batch, or None if there is none."""
        return self._batch(list(self.data)) if self.data else None

    def _batch(self, keys: list[Any]) -> pa.RecordBatch:
        values = [self.data.get(key, GONE) for key in keys]
        gone = [value is GONE for value in values]
        key_column, key_kind = encode(keys)
        value_column, value_kind = encode([None if value is GONE else value for value in values])
        fields = [
            field_of("key", key_column, key_kind),
            pa.field("key_group", pa.int32()),
            pa.field("place", pa.int64()),
            pa.field("gone", pa.bool_()),
            field_of("value", value_column, value_kind),
        ]
        columns = [
            key_column,
            pa.array(np.full(len(keys), EVERY_GROUP, np.int32)),
            pa.array([self._places.get(key, -1) for key in keys], pa.int64()),
            pa.array(gone, pa.bool_()),
            value_column,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, {TABLE_METADATA: _BROADCAST}))

    def mark_clean(self) -> None:
        """What was dirty is in a changelog now."""
        self._dirty.clear()

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        """Bring the map forward by a changelog batch; with `keep_gone` a removal is remembered as one."""
        keys, values = _column(batch, "key"), _column(batch, "value")
        places, gone = batch.column("place").to_pylist(), batch.column("gone").to_pylist()
        moved = False
        for key, value, place, removed in zip(keys, values, places, gone, strict=True):
            if removed and not keep_gone:
                self.data.pop(key, None)
                self._places.pop(key, None)
                continue
            if self._places.get(key) != place:
                moved = moved or place <= self._last_place() or key in self.data
                self._places[key] = place
            self.data[key] = GONE if removed else value
        if moved:
            ordered = sorted(self.data.items(), key=lambda pair: self._places[pair[0]])
            self.data.clear()
            self.data.update(ordered)

    def clear(self) -> None:
        """Forget everything, to be loaded anew."""
        self.data.clear()
        self._places.clear()
        self._dirty.clear()

    def __len__(self) -> int:
        return len(self.data)


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    index = batch.schema.get_field_index(name)
    read = decode_keys if name == "key" else decode
    return read(batch.column(index), kind_of_field(batch.schema.field(index)))


def is_broadcast(batch: pa.RecordBatch) -> bool:
    """Whether a changelog batch is of a BroadcastTable."""
    return (batch.schema.metadata or {}).get(TABLE_METADATA) == _BROADCAST


class ReadOnlyBroadcastView(ReadOnlyBroadcastState[Any, Any]):
    """The map as the side without the right to change it sees it; nothing is copied."""

    def __init__(self, table: BroadcastTable, refuse: Any) -> None:
        self._data = table.data
        self._refuse = refuse
        # Most functions ask once per record: let them ask the map itself, which is the same for ever.
        self.get = cast("Any", table.data.get)

    def get(self, key: Any) -> Any:
        return self._data.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._data

    def items(self) -> Any:
        return self._data.items()

    def keys(self) -> Any:
        return self._data.keys()

    def values(self) -> Any:
        return self._data.values()

    def is_empty(self) -> bool:
        return not self._data

    def __len__(self) -> int:
        return len(self._data)

    def clear(self) -> None:
        self._refuse()

    def put(self, key: Any, value: Any) -> None:
        """Refuse: this side may only read."""
        self._refuse()

    def put_all(self, dict_value: Any) -> None:
        """Refuse: this side may only read."""
        self._refuse()

    def remove(self, key: Any) -> None:
        """Refuse: this side may only read."""
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse()

    def __delitem__(self, key: Any) -> None:
        self._refuse()


class BroadcastView(BroadcastState[Any, Any]):
    """The map as the broadcast side sees it; what it returns may be gone over while the map changes."""

    def __init__(self, table: BroadcastTable) -> None:
        self._table = table
        self._data = table.data

    def get(self, key: Any) -> Any:
        return self._data.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._data

    def items(self) -> Any:
        return list(self._data.items())

    def keys(self) -> Any:
        return list(self._data)

    def values(self) -> Any:
        return list(self._data.values())

    def is_empty(self) -> bool:
        return not self._data

    def __len__(self) -> int:
        return len(self._data)

    def put(self, key: Any, value: Any) -> None:
        self._table.put(key, value)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        for key, value in dict(dict_value).items():
            self._table.put(key, value)

    def remove(self, key: Any) -> None:
        self._table.remove(key)

    def clear(self) -> None:
        for key in list(self._data):
            self._table.remove(key)
