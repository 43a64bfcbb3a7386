"""Records on their way from a sink's writers to the driver, as bytes.

A parcel is a JSON head and one Arrow stream for each stretch of records with one schema: a value column with its kind,
the timestamp, and the stamp's columns, of which those with even steps stand in the schema. Stamps of different lengths
are compared on what they have in common; where that is equal the shorter one comes first.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.errors import SinkError, describe
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.state.codec import Kind, decode, field_of, kind_of_field
from flintstream.state.ramps import ramp_of, unrolled

I64 = npt.NDArray[np.int64]
_HEAD = struct.Struct("<4sI")
_MAGIC = b"FSP1"
_RAMPS, _WIDTH = b"flintstream.ramps", b"flintstream.width"


@dataclass(slots=True)
class _Stretch:
    arrays: list[pa.Array]
    kind: Kind
    timestamps: list[I64]
    stamps: list[tuple[I64, ...]]

    def continues(self, array: pa.Array, kind: Kind, stamp: Sequence[I64]) -> bool:
        return kind == self.kind and array.type == self.arrays[0].type and len(stamp) == len(self.stamps[0])


@dataclass(slots=True)
class Parcel:
    """What one subtask wrote in one epoch."""

    subtask: int
    parallelism: int = 1
    _stretches: list[_Stretch] = field(default_factory=list[_Stretch])

    def add(self, array: pa.Array, kind: Kind, timestamps: Any, stamp: Sequence[I64]) -> None:
        """Add records behind those that are here."""
        if not len(array):
            return
        times = np.asarray(timestamps, np.int64)
        last = self._stretches[-1] if self._stretches else None
        if last is None or not last.continues(array, kind, stamp):
            last = _Stretch([], kind, [], [])
            self._stretches.append(last)
        last.arrays.append(array)
        last.timestamps.append(times)
        last.stamps.append(tuple(stamp))

    def streams(self) -> list[bytes]:
        """Return the Arrow streams."""
        return [_to_stream(stretch) for stretch in self._stretches]


def pack(parcel: Parcel) -> bytes | None:
    """Return the parcel's bytes, or None if nothing is in it."""
    streams = parcel.streams()
    if not streams:
        return None
    head = {"subtask": parcel.subtask, "parallelism": parcel.parallelism, "lengths": [len(s) for s in streams]}
    text = json.dumps(head).encode()
    return b"".join([_HEAD.pack(_MAGIC, len(text)), text, *streams])


def _to_stream(stretch: _Stretch) -> bytes:
    values = pa.concat_arrays(stretch.arrays)
    columns = [np.concatenate(parts) for parts in (stretch.timestamps, *zip(*stretch.stamps, strict=True))]
    arrays, fields = [values], [field_of("value", values, stretch.kind)]
    ramps: dict[str, tuple[int, int]] = {}
    for name, column in zip(_names(len(columns)), columns, strict=True):
        ramp = ramp_of(column)
        if ramp is not None:
            ramps[name] = ramp
        else:
            arrays.append(pa.array(column))
            fields.append(pa.field(name, pa.int64()))
    schema = pa.schema(fields, {_RAMPS: json.dumps(ramps).encode(), _WIDTH: str(len(columns)).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def _names(count: int) -> list[str]:
    return ["timestamp", *(f"s{index}" for index in range(count - 1))]


def _numbers(batch: pa.RecordBatch) -> list[I64]:
    """Return the timestamps of a stretch's records, and the columns of their stamps."""
    metadata = batch.schema.metadata or {}
    if _RAMPS not in metadata:  # written by an earlier release
        return [column.to_numpy() for column in batch.columns[1:]]
    ramps = json.loads(metadata[_RAMPS])
    return [
        unrolled(ramps[name], batch.num_rows) if name in ramps else batch.column(name).to_numpy()
        for name in _names(int(metadata[_WIDTH]))
    ]


@dataclass(slots=True)
class Merged:
    """The records of all subtasks in one order."""

    values: list[Any]
    timestamps: list[int]
    subtasks: list[int]
    parallelism: int


def merge(parcels: Sequence[bytes]) -> Merged:
    """Return all records in the order of their stamps; records without stamps keep the order of subtasks."""
    columns: list[tuple[pa.Array, Kind]] = []
    timestamps: list[I64] = []
    subtasks: list[I64] = []
    stamps: list[list[I64]] = []
    parallelism = 1
    for parcel in parcels:
        head, batches = _unpack(parcel)
        parallelism = max(parallelism, head["parallelism"])
        for batch in batches:
            columns.append((batch.column(0), kind_of_field(batch.schema.field(0))))
            times, *stamp = _numbers(batch)
            timestamps.append(times)
            subtasks.append(np.full(batch.num_rows, head["subtask"], np.int64))
            stamps.append(stamp)
    if not columns:
        return Merged([], [], [], parallelism)
    order = _order(stamps, [len(part) for part in timestamps])
    times, tasks = np.concatenate(timestamps)[order], np.concatenate(subtasks)[order]
    return Merged(_values(columns, order), times.tolist(), tasks.tolist(), parallelism)


def _values(columns: Sequence[tuple[pa.Array, Kind]], order: I64) -> list[Any]:
    """Return the records of several columns in an order, as Python's objects."""
    first, kind = columns[0]
    if all(each == kind and column.type == first.type for column, each in columns):
        return decode(pa.concat_arrays([column for column, _ in columns]).take(pa.array(order)), kind)
    values = [value for column, each in columns for value in decode(column, each)]
    return [values[index] for index in order.tolist()]


def _order(stamps: Sequence[Sequence[I64]], lengths: Sequence[int]) -> I64:
    width = max(map(len, stamps))
    if not width:
        return np.arange(sum(lengths))
    columns = [
        np.concatenate(
            [
                stamp[index] if index < len(stamp) else np.full(length, MIN_TIMESTAMP, np.int64)
                for stamp, length in zip(stamps, lengths, strict=True)
            ]
        )
        for index in range(width)
    ]
    # Most columns of most epochs hold one value, and sorting by one of those takes as long as by any other.
    varied = [column for column in columns if bool((column != column[0]).any())]
    return np.lexsort(varied[::-1]) if varied else np.arange(sum(lengths))


def _unpack(parcel: bytes) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    magic, length = _HEAD.unpack_from(parcel)
    if magic != _MAGIC:
        what = f"stored output begins with {magic!r}, not {_MAGIC!r}"
        raise SinkError(describe(what, remedy="commit it with the release that wrote it"))
    start = _HEAD.size + length
    head = json.loads(parcel[_HEAD.size : start])
    view = memoryview(parcel)
    batches: list[pa.RecordBatch] = []
    for size in head["lengths"]:
        with pa.ipc.open_stream(pa.py_buffer(view[start : start + size])) as reader:
            batches.append(reader.read_next_batch())
        start += size
    return head, batches
