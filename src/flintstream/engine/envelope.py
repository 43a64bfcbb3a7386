"""The envelope: the one row type that travels between levels, whatever the job.

A row is `(partition, level, edge, producer, attempt, first stamp, blob)`. A blob is an Arrow stream with many records
of one edge, so the shuffle moves buffers and the JVM never looks inside. Edge 0 is the control edge; level DRIVER means
that a row is for the driver and passes through all levels unchanged. Edge FAILED carries the error of a task that could
not go on: it goes to all, who then do nothing, and so reaches the driver as it is and without a page of Spark's own.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from flintstream.ops.batch import FIRST, Batch, Stamp, Values
from flintstream.state.codec import field_of, kind_of_field
from flintstream.state.ramps import ramp_of, unrolled

CONTROL = 0
FAILED = -1
DRIVER = -1
SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("target", pa.int32(), nullable=False),
        pa.field("edge", pa.int32(), nullable=False),
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("watermark", pa.int64(), nullable=False),
        pa.field("lane", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("blob", pa.binary(), nullable=False),
    ]
)
_STAMP = "s{}"


class Envelope(NamedTuple):
    """One row. `target` is the partition of level `level`; `partition` the one to be sent to next."""

    partition: int
    level: int
    target: int
    edge: int
    producer: int
    attempt: int
    watermark: int
    lane: int
    position: int
    blob: Any

    @property
    def order(self) -> tuple[int, int, int, int]:
        """How rows are sorted within a partition: control first, then by first stamp."""
        return (0 if self.edge <= CONTROL else 1, self.watermark, self.lane, self.position)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: the level's task and its attempt."""

    producer: int
    attempt: int

    def control(self, level: int, target: int, message: Any) -> Envelope:
        """Return a control row for one partition of a level, or for the driver."""
        blob = pickle.dumps(message, 5)
        return Envelope(target, level, target, CONTROL, self.producer, self.attempt, FIRST, FIRST, FIRST, blob)

    def failure(self, partition: int, error: Exception) -> Envelope:
        """Return the row that tells one partition of the next level, and in the end the driver, of a failure."""
        blob = pickle.dumps(error, 5)
        return Envelope(partition, DRIVER, 0, FAILED, self.producer, self.attempt, FIRST, FIRST, FIRST, blob)

    def partials(self, level: int, target: int, edge: int, blob: bytes) -> Envelope:
        """Return a data row with partial results; they have no place in the order and come before all records."""
        return Envelope(target, level, target, edge, self.producer, self.attempt, FIRST, FIRST, FIRST, blob)

    def data(self, level: int, target: int, edge: int, batch: Batch, chunk: Any) -> Envelope:
        """Return a data row: all of a batch, for one partition."""
        watermark, lane, position = (int(column[0]) for column in batch.stamp[:3])
        blob = write_blob(batch, chunk)
        return Envelope(target, level, target, edge, self.producer, self.attempt, watermark, lane, position, blob)


def write_blob(batch: Batch, chunk: Any) -> bytes:
    """Return the Arrow stream of a batch; columns of even steps (by 0, mostly, or by 1) are in its schema."""
    array, kind = batch.values.column()
    arrays: list[pa.Array] = [array]
    fields = [field_of("value", array, kind)]
    if batch.keys is not None:
        array, kind = batch.keys.column()
        arrays.append(array)
        fields.append(field_of("key", array, kind))
    ramps: dict[str, tuple[int, int]] = {}
    columns = {"timestamp": batch.timestamps}
    columns |= {_STAMP.format(index): column for index, column in enumerate(batch.stamp)}
    for name, column in columns.items():
        ramp = ramp_of(column)
        if ramp is not None:
            ramps[name] = ramp
        else:
            arrays.append(pa.array(column))
            fields.append(pa.field(name, pa.int64()))
    head = {"ramps": ramps, "count": len(batch), "width": len(batch.stamp), "chunk": chunk}
    schema = pa.schema(fields, metadata={b"head": json.dumps(head).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def write_partials(batch: pa.RecordBatch, records: int) -> bytes:
    """Return the Arrow stream of partial results that stand for a number of records."""
    metadata = {**(batch.schema.metadata or {}), b"partials": str(records).encode()}
    batch = batch.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read_partials(blob: Any) -> tuple[pa.RecordBatch, int] | None:
    """Return the partial results of a blob and how many records they stand for; None if it holds records."""
    with pa.ipc.open_stream(blob) as reader:
        records = (reader.schema.metadata or {}).get(b"partials")
        return None if records is None else (reader.read_next_batch(), int(records))


def read_blob(blob: Any) -> tuple[Batch, Any]:
    """Return the batch of a blob and the chunk it belongs to."""
    with pa.ipc.open_stream(blob) as reader:
        schema = reader.schema
        rows = reader.read_next_batch()
    head = json.loads(schema.metadata[b"head"])
    ramps, count = head["ramps"], head["count"]

    def integers(name: str) -> Any:
        if name in ramps:
            return unrolled(ramps[name], count)
        return rows.column(name).to_numpy()

    def values(name: str) -> Values | None:
        index = schema.get_field_index(name)
        return None if index < 0 else Values(None, rows.column(index), kind_of_field(schema.field(index)))

    stamp: Stamp = [integers(_STAMP.format(index)) for index in range(head["width"])]
    value = values("value")
    assert value is not None
    return Batch(value, integers("timestamp"), stamp, None, values("key")), head["chunk"]


def to_arrow(rows: Iterable[Envelope]) -> Iterator[pa.RecordBatch]:
    """Return rows as Arrow batches, one each while they are large, many together while they are small."""
    held: list[Envelope] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.blob)
        if size > 4 << 20:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(rows: list[Envelope]) -> pa.RecordBatch:
    *numbers, blobs = zip(*rows, strict=True)
    columns = [pa.array(column, field.type) for column, field in zip(numbers, SCHEMA, strict=False)]
    # A row that only passes through still has Arrow's own buffer, which Arrow does not take for bytes.
    columns.append(pa.array([blob if isinstance(blob, bytes) else memoryview(blob) for blob in blobs], pa.binary()))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def from_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """Return the rows of Arrow batches; blobs are not copied."""
    for batch in batches:
        numbers = [batch.column(index).to_pylist() for index in range(9)]
        blobs = batch.column(9)
        for index, row in enumerate(zip(*numbers, strict=True)):
            yield Envelope._make((*row, blobs[index].as_buffer()))
