"""State of columnar windows: for each open window a pile of partial results, merged when the window fires.

Nothing is looked up while records come in: an epoch's partial result is put on the pile, which is also all that its
changelog holds. A window that has fired is dropped whole. So the cost of a changelog is that of the changes, and the
columns are those of the aggregates, readable by any tool.

A batch of this table has the rows `(key_group, window_start, key columns, accumulators)`; the windows that were dropped
stand in its schema's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

TABLE_METADATA = b"flintstream.table"
_DROPPED = b"flintstream.dropped"
MOST_PARTS = 8

Merge = Callable[[pa.Table], pa.Table]


class PartialTable:
    """`window start -> partial results`; `merge` folds rows of the same key into one."""

    def __init__(self, merge: Merge | None = None) -> None:
        self._merge = merge
        self.windows: dict[int, list[pa.Table]] = {}
        self._added: dict[int, list[pa.Table]] = {}
        self._dropped: set[int] = set()
        self.generation = 0
        """Changes whenever the table has become another one than `add` and `pop` made it."""

    def add(self, start: int, part: pa.Table) -> None:
        """Put a partial result on a window's pile."""
        self._pile(start, part)
        self._added.setdefault(start, []).append(part)

    def _pile(self, start: int, part: pa.Table) -> None:
        parts = self.windows.setdefault(start, [])
        parts.append(part)
        # Merging costs as much as there are rows: what was merged must at least double before it is merged again.
        if len(parts) > MOST_PARTS and self._merge is not None and _rows(parts[1:]) >= parts[0].num_rows:
            self.windows[start] = [self._merge(concat(parts))]

    def pop(self, start: int) -> pa.Table:
        """Drop a window and return its rows, of which several may have one key."""
        self._added.pop(start, None)
        self._dropped.add(start)
        return concat(self.windows.pop(start))

    def merged(self, start: int) -> pa.Table:
        """Return a window's rows, merged as far as its pile is."""
        parts = self.windows[start]
        if len(parts) > 1 and self._merge is not None:
            parts = self.windows[start] = [self._merge(concat(parts))]
        return concat(parts)

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return what was added, and which windows were dropped."""
        if not self._added and not self._dropped:
            return None
        return to_batch(self._added, sorted(self._dropped))

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return all partial results."""
        if not self.windows and not self._dropped:
            return None
        return to_batch(self.windows, sorted(self._dropped) if self._merge is None else [])

    def mark_clean(self) -> None:
        """What was added is in a changelog now."""
        self._added.clear()
        self._dropped.clear()

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        """Bring the table forward by a changelog batch."""
        self.generation += 1
        dropped = dropped_in(batch)
        for start in dropped:
            self.windows.pop(start, None)
        if keep_gone:
            self._dropped.update(dropped)
        for start, part in split_windows(batch):
            self._pile(start, part)

    def clear(self) -> None:
        """Forget everything."""
        self.generation += 1
        self.windows.clear()
        self.mark_clean()

    def __len__(self) -> int:
        return sum(part.num_rows for parts in self.windows.values() for part in parts)


def _rows(parts: list[pa.Table]) -> int:
    return sum(part.num_rows for part in parts)


def concat(parts: list[pa.Table]) -> pa.Table:
    """Return all rows; a column that some parts lack is null there."""
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="permissive")


def to_batch(windows: dict[int, list[pa.Table]], dropped: list[int]) -> pa.RecordBatch:
    """Return windows as one changelog batch."""
    metadata = {TABLE_METADATA: b"partials", _DROPPED: json.dumps(dropped).encode()}
    parts: list[pa.Table] = []
    for start, tables in windows.items():
        for table in tables:
            column = pa.array(np.full(table.num_rows, start, np.int64))
            parts.append(table.append_column(pa.field("window_start", pa.int64()), column))
    if not parts:
        empty = pa.schema([pa.field("key_group", pa.int32()), pa.field("window_start", pa.int64())], metadata=metadata)
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in empty], schema=empty)
    merged = concat(parts).combine_chunks()
    return merged.to_batches()[0].replace_schema_metadata(metadata)


def split_windows(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
    """Yield a changelog batch window by window."""
    if not batch.num_rows:
        return
    starts = batch.column("window_start").to_numpy()
    table = pa.Table.from_batches([batch.replace_schema_metadata(None)]).drop_columns(["window_start"])
    # Rows are written window by window; of changelogs that were merged, a window's may stand in several places.
    borders = [0, *(np.flatnonzero(starts[1:] != starts[:-1]) + 1).tolist(), len(starts)]
    if len(borders) <= MOST_PARTS + 2:
        for begin, end in pairwise(borders):
            yield int(starts[begin]), table.slice(begin, end - begin)
        return
    for start in np.unique(starts).tolist():
        yield start, table.filter(pa.array(starts == start))


def is_partials(batch: pa.RecordBatch) -> bool:
    """Whether a changelog batch is of a PartialTable."""
    return (batch.schema.metadata or {}).get(TABLE_METADATA) == b"partials"


def dropped_in(batch: pa.RecordBatch) -> list[int]:
    """Return the windows that a changelog batch drops before its rows are added."""
    return json.loads((batch.schema.metadata or {}).get(_DROPPED, b"[]"))


def drops_windows(batch: pa.RecordBatch) -> bool:
    """Whether a batch says something even without rows."""
    return is_partials(batch) and (batch.schema.metadata or {}).get(_DROPPED, b"[]") != b"[]"
