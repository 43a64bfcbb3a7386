"""Puts the rows that reach a task into the order of their first stamps, before the level sees the first of them.

Rows are few and blobs are large, so to sort them here costs next to nothing, where a sort step of Spark's own costs a
small epoch a tenth of its time. Blobs beyond a limit wait in a file without a name, so memory stays bounded.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from mmap import ACCESS_READ, mmap

import pyarrow as pa

from flintstream.engine.envelope import Envelope

SPOOL_BYTES = 256 << 20
_ALIGNMENT = 64


def in_order(rows: Iterable[Envelope], limit: int = SPOOL_BYTES) -> Iterator[Envelope]:
    """Yield all rows, control first, then by first stamp; at most about `limit` bytes of blobs are held in memory."""
    held: list[Envelope] = []
    size = 0
    rows = iter(rows)
    for row in rows:
        held.append(row)
        size += len(row.blob)
        if size > limit:
            yield from _by_file(held, rows)
            return
    held.sort(key=lambda row: row.order)
    yield from _given_away(held)


def _by_file(held: list[Envelope], rows: Iterator[Envelope]) -> Iterator[Envelope]:
    """Yield the rows in order while all blobs are in a file, whose pages the system keeps or drops as it can."""
    with tempfile.TemporaryFile(prefix="flintstream-spool-") as file:
        places: list[tuple[Envelope, int, int]] = []
        for row in itertools.chain(_given_away(held), rows):
            start = file.tell()
            length = file.write(row.blob)
            file.write(bytes(-length % _ALIGNMENT))
            places.append((row._replace(blob=b""), start, length))
        file.flush()
        # Nobody closes the map: Arrow arrays over it may live on in an operator, and keep it.
        blobs = pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ))
    places.sort(key=lambda place: place[0].order)
    for row, start, length in places:
        yield row._replace(blob=blobs.slice(start, length))


def _given_away(held: list[Envelope]) -> Iterator[Envelope]:
    """Yield rows and let go of each as it is taken."""
    held.reverse()
    while held:
        yield held.pop()
