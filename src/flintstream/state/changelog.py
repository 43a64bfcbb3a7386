"""The bytes of a changelog: named tables, each a complete Arrow stream, behind a small index.

A file (or a slice of an epoch's file) holds any number of tables; a table's bytes are an ordinary Arrow IPC stream that
other tools read. The index says where each one starts. A checksum travels in the handle that names the bytes, so that
a damaged file is found before any of it is believed.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa

from flintstream.errors import CorruptStateError, describe

_MAGIC = b"FLNT0001"
_HEADER = struct.Struct("<8sI")
_PREFIX = struct.Struct("<iI")
"""Before the schema of an Arrow stream: a mark, and the schema's length."""


def pack(tables: Mapping[str, pa.RecordBatch]) -> bytes:
    """Return the changelog bytes of `tables`."""
    bodies: list[pa.Buffer] = []
    index: dict[str, tuple[int, int]] = {}
    offset = 0
    for name, batch in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        body = sink.getvalue()
        index[name] = (offset, body.size)
        offset += body.size
        bodies.append(body)
    text = json.dumps(index).encode()
    return b"".join([_HEADER.pack(_MAGIC, len(text)), text, *bodies])


def unpack(data: bytes, where: str) -> dict[str, pa.RecordBatch]:
    """Return the tables of changelog bytes; `where` names the file in an error."""
    try:
        magic, length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError
        start = _HEADER.size + length
        index: dict[str, tuple[int, int]] = json.loads(data[_HEADER.size : start])
        buffer = pa.py_buffer(data)
        return {name: _read_table(buffer.slice(start + offset, size)) for name, (offset, size) in index.items()}
    except Exception as error:  # Arrow and JSON fail in many ways on bytes that are not theirs
        what = f"state file {where!r} is not a changelog, or a damaged one"
        raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint")) from error


def places_in(read: Callable[[int, int], bytes]) -> dict[str, tuple[int, int]]:
    """Return where the tables of changelog bytes are, offset and length; `read` returns bytes from an offset on.

    Nothing is checked: who goes on to read the tables finds out whether the bytes are sound.
    """
    _, length = _HEADER.unpack(read(0, _HEADER.size))
    index: dict[str, tuple[int, int]] = json.loads(read(_HEADER.size, length))
    start = _HEADER.size + length
    return {name: (start + offset, size) for name, (offset, size) in index.items()}


def schema_at(read: Callable[[int, int], bytes], offset: int) -> pa.Schema:
    """Return the schema of the table whose bytes begin at an offset."""
    _, length = _PREFIX.unpack(read(offset, _PREFIX.size))
    return pa.ipc.read_schema(pa.py_buffer(read(offset, _PREFIX.size + length)))


def _read_table(body: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(body) as reader:
        return reader.read_next_batch()


def checksum(data: bytes) -> int:
    """Return the checksum that a handle carries."""
    return zlib.crc32(data)
