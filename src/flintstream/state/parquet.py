"""Rows of state as Parquet, which any tool reads, and back to the very columns they were.

A savepoint is made of such files. They stand apart from changelogs, which are Arrow streams: those are written every
epoch and must be quick, these are written seldom, kept for years, and read by others. Columns keep their types and
their kinds (in the Arrow schema that Parquet carries along); a struct of nothing, which Parquet cannot have, gets a
column of its own on the way.

What is read may come from anyone: a file is believed only if it has as many rows as its savepoint says, and is never
unpacked to more than a part may hold.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.errors import CorruptStateError, describe

MOST_ROWS = 1 << 26
MOST_BYTES = 1 << 32
"""No part is unpacked that claims to be larger; ours are far smaller."""
NOTHING = "flintstream_nothing"


def part_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the bytes of a Parquet file."""
    table = pa.Table.from_batches([_with_columns(batch, _filled)])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", store_schema=True)
    return sink.getvalue().to_pybytes()


def read_part(data: bytes, where: str, rows: int) -> pa.RecordBatch:
    """Return the batch of a Parquet file's bytes, which must have so many rows; `where` names it in an error."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        size = sum(file.metadata.row_group(index).total_byte_size for index in range(file.metadata.num_row_groups))
        if file.metadata.num_rows != rows or rows > MOST_ROWS or size > MOST_BYTES:
            msg = f"{file.metadata.num_rows} rows, {size} bytes unpacked"
            raise ValueError(msg)
        table = file.read(use_threads=False).combine_chunks()
        batches = table.to_batches()
        batch = batches[0] if batches else _empty(table.schema)
        return _with_columns(batch, _emptied)
    except (pa.ArrowException, ValueError, OSError, MemoryError, OverflowError) as error:
        what = f"state file {where!r} is damaged, or not the one that was written ({error})"
        raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint")) from error


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the batch that a file of a schema gives back."""
    return _with_columns(_empty(schema), _emptied).schema


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _with_columns(batch: pa.RecordBatch, change: Any) -> pa.RecordBatch:
    """Return a batch with its columns changed where there is need; names and metadata stay."""
    columns = [change(column) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata))


def _filled(array: pa.Array) -> pa.Array:
    """Return a column in which no struct is empty."""
    if pa.types.is_struct(array.type) and not array.type.num_fields:
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays([pa.array([True] * len(array), pa.bool_())], [NOTHING], mask=mask)
    return _rebuilt(array, _filled)


def _emptied(array: pa.Array) -> pa.Array:
    """Return a column as it was before `_filled`."""
    if pa.types.is_struct(array.type) and array.type.num_fields == 1 and array.type.field(0).name == NOTHING:
        return pa.array([None if missing else {} for missing in array.is_null().to_pylist()], pa.struct([]))
    return _rebuilt(array, _emptied)


def _rebuilt(array: pa.Array, change: Any) -> pa.Array:
    """Return a column with what is inside it changed; the same object if nothing had to be."""
    if pa.types.is_struct(array.type):
        inner = [array.field(index) for index in range(array.type.num_fields)]
        changed = [change(each) for each in inner]
        if all(new is old for new, old in zip(changed, inner, strict=True)):
            return array
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(changed, [field.name for field in array.type], mask=mask)
    if pa.types.is_large_list(array.type):
        changed = change(array.values)
        if changed is array.values or changed.type == array.values.type:
            return array
        mask = array.is_null() if array.null_count else None
        return pa.LargeListArray.from_arrays(array.offsets, changed, mask=mask)
    return array
