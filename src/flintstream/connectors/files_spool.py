"""Batches of records waiting to become one file, whose schema is only known when the last of them has come.

The first batch may have nothing but None in a column, and the next numbers. So batches are held as they are, in memory
while they are few and in a hidden file beside the staged one when they are many, and are brought to one schema at the
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from flintstream.connectors.schema import FieldConflict, unify
from flintstream.errors import SinkError, describe

MEMORY_BYTES = 64 << 20


class Spool:
    """Holds batches of any schemas; `batches()` gives them in one schema.

    Args:
        spill: Where to put batches that do not fit into memory, less a number at its end.
        declared: The schema to bring them to; None finds the one that holds them all.
    """

    def __init__(self, spill: Path, declared: pa.Schema | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self._spill = spill
        self._declared = declared
        self._limit = memory_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._spilled: list[Path] = []
        self._schemas: dict[pa.Schema, None] = {}
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        schema = batch.schema.remove_metadata()
        if schema not in self._schemas:
            _check_names(schema, self._declared)
            self._schemas[schema] = None
        self._held.append(batch.replace_schema_metadata(None))
        self._held_bytes += batch.nbytes
        self.bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._held_bytes > self._limit:
            self._write_out()

    def _write_out(self) -> None:
        for schema, batches in groupby(self._held, lambda batch: batch.schema):
            path = self._spill.with_name(f"{self._spill.name}.spill{len(self._spilled)}")
            self._spilled.append(path)
            with path.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        self._held, self._held_bytes = [], 0

    def schema(self) -> pa.Schema:
        """Return the schema of the file to be."""
        if self._declared is not None:
            return self._declared
        try:
            return unify(self._schemas)
        except FieldConflict as conflict:
            raise SinkError(describe(str(conflict), remedy="map it to one type before the sink")) from conflict

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all batches in order, in one schema."""
        for batch in self._stored():
            yield fit(batch, schema)

    def _stored(self) -> Iterator[pa.RecordBatch]:
        for path in self._spilled:
            with path.open("rb") as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        yield from self._held

    def discard(self) -> None:
        """Forget everything and remove the hidden files."""
        for path in self._spilled:
            path.unlink(missing_ok=True)
        self._held, self._spilled = [], []


def _check_names(schema: pa.Schema, declared: pa.Schema | None) -> None:
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise SinkError(describe(f"two fields are called {twice[0]!r}", remedy="give every field its own name"))
    unknown = [name for name in schema.names if declared is not None and name not in declared.names]
    if unknown:
        what = f"field {unknown[0]!r} is not in the declared schema"
        raise SinkError(describe(what, remedy="add it to the schema, or leave it out before the sink"))


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in another schema; fields it does not have are null."""
    if batch.schema == schema:
        return batch
    columns: list[pa.Array] = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(index)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"field {field.name!r} has values of {column.type} that cannot be {field.type} ({error})"
            raise SinkError(describe(what, remedy="map it to one type before the sink, or declare a schema")) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
