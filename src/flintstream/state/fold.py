"""Changelogs of one table, folded to the rows that are left: on columns, without making objects of them.

The tables that a job works with do the same while they hold its objects. This is for those who only look: the classes
of the state may be gone, and its pickles may be anybody's, so nothing is decoded. For the same reason values of several
kinds stay apart: the result is a batch for each shape that the rows have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.state.codec import kind_of_field
from flintstream.state.held import horizon_of, is_held
from flintstream.state.partials import PartialTable, is_partials
from flintstream.state.row_codes import I64, Chunk, row_codes

Bools = npt.NDArray[np.bool_]
Batches = list[pa.RecordBatch]


def fold(batches: Sequence[pa.RecordBatch]) -> Batches:
    """Return the rows that changelog batches of one table, oldest first, leave behind, as batches like these."""
    if not batches:
        return []
    if is_partials(batches[0]):
        return _fold_partials(batches)
    if is_held(batches[0]):
        return _fold_held(batches)
    filled = [batch for batch in batches if batch.num_rows]
    gone = [_gone(batch) for batch in filled]
    if len(filled) > 1:
        newest = _is_newest(filled)
        ends = np.cumsum([batch.num_rows for batch in filled])
        gone = [each | ~kept for each, kept in zip(gone, np.split(newest, ends[:-1]), strict=True)]
    return alike(_without(batch, each) for batch, each in zip(filled, gone, strict=True))


def _fold_partials(batches: Sequence[pa.RecordBatch]) -> Batches:
    table = PartialTable()
    for batch in batches:
        table.apply(batch)
    left = table.snapshot(0)
    return [] if left is None else [left]


def _fold_held(batches: Sequence[pa.RecordBatch]) -> Batches:
    """Leave out what is not later than the last horizon; the rest stays in the order of time and of arrival."""
    last = max(batches, key=horizon_of)
    horizon, metadata = horizon_of(last), last.schema.metadata
    rows = [_without(batch, batch.column("time").to_numpy() <= horizon) for batch in batches]
    left = [batch.replace_schema_metadata(metadata) for batch in rows if batch.num_rows]
    if not left:
        return []
    shapes = list(_by_shape(left).values())
    tables = [pa.Table.from_batches([left[number] for number in numbers]) for numbers in shapes]
    # Rows are counted in the order of arrival, each as a row of the table of its shape.
    owners = np.empty(sum(batch.num_rows for batch in left), np.int64)
    places = np.empty_like(owners)
    starts = np.cumsum([0, *(batch.num_rows for batch in left)])
    for shape, numbers in enumerate(shapes):
        mine = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
        owners[mine], places[mine] = shape, np.arange(len(mine))
    order = np.argsort(np.concatenate([batch.column("time").to_numpy() for batch in left]), kind="stable")
    cuts = np.flatnonzero(np.diff(owners[order])) + 1
    runs = np.split(order, cuts)
    return [batch for run in runs for batch in _taken(tables[int(owners[run[0]])], places[run])]


def _taken(table: pa.Table, places: I64) -> Batches:
    return table.take(pa.array(places)).combine_chunks().to_batches()


def _gone(batch: pa.RecordBatch) -> Bools:
    if "gone" not in batch.schema.names:
        return np.zeros(batch.num_rows, bool)
    return batch.column("gone").to_numpy(zero_copy_only=False).astype(bool)


def _without(batch: pa.RecordBatch, gone: Bools) -> pa.RecordBatch:
    return batch.filter(pa.array(~gone)) if bool(gone.any()) else batch


def _is_newest(batches: Sequence[pa.RecordBatch]) -> Bools:
    """Return which rows no later one replaces."""
    total = sum(batch.num_rows for batch in batches)
    codes = row_codes([chunks_of(batches, name) for name in entry_columns(batches[0].schema)], total)
    last: I64 = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    last[codes] = np.arange(total)  # of several rows of one entry the last is written last
    newest = np.zeros(total, bool)
    newest[last[codes]] = True
    return newest


def entry_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a table that tell one entry from another."""
    parts = sorted((name for name in schema.names if _is_part(name)), key=lambda name: int(name[4:]))
    return ["key", *parts]


def _is_part(name: str) -> bool:
    return name.startswith("part") and name[4:].isdigit()


def chunks_of(batches: Iterable[pa.RecordBatch], name: str) -> list[Chunk]:
    """Return a column of several batches, with the kind that it has in each."""
    found: list[Chunk] = []
    for batch in batches:
        index = batch.schema.get_field_index(name)
        found.append((batch.column(index), kind_of_field(batch.schema.field(index))))
    return found


def alike(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Put batches of one shape together; the others stay apart."""
    filled = [batch for batch in batches if batch.num_rows]
    whole = [pa.Table.from_batches([filled[at] for at in numbers]) for numbers in _by_shape(filled).values()]
    return [batch for table in whole for batch in table.combine_chunks().to_batches()]


def _by_shape(batches: Sequence[pa.RecordBatch]) -> dict[int, list[int]]:
    """Return which batches have the same columns and kinds, each under the first of them."""
    shapes: dict[int, list[int]] = {}
    for number, batch in enumerate(batches):
        same = (at for at in shapes if batch.schema.equals(batches[at].schema, check_metadata=True))
        shapes.setdefault(next(same, number), []).append(number)
    return shapes
