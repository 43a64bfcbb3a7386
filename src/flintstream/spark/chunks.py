"""From the rows of an epoch's input DataFrame to the chunks that level 0 reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.connectors.files_source import FileSource
from flintstream.connectors.frames import FrameSource
from flintstream.engine.level import SourceChunk
from flintstream.engine.task import read_range
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import Source
from flintstream.ops.batch import Values
from flintstream.planner.plan import Plan
from flintstream.spark.stages import Word
from flintstream.state.codec import kind_of_arrow


def read_chunks(
    plan: Plan,
    word: Word,
    partition: int,
    batches: Iterable[pa.RecordBatch],
    slots: list[int],
    lone: int | None = None,
) -> Iterator[SourceChunk]:
    """Yield the chunks of a task, in the order of its rows; ranges that were read are noted in `slots`.

    With a `lone` source rows do not say which they are of.
    """
    if lone is None:
        segments = (segment for batch in batches for segment in _segments(batch))
    else:
        segments = (((lone, 0, "", -1), batch.column(0)) for batch in batches if batch.num_rows)
    for (source, split, chunk, slot), group in itertools.groupby(segments, key=lambda s: s[0]):
        if slot >= 0:
            slots.append(slot)
            yield read_range(plan, word.epoch, slot)
            for _ in group:
                pass
        elif source >= 0:
            declared = _declared(plan, source)
            values = _values(declared, (array for _, array in group))
            # Rows that have an order were brought into one task, split by split.
            is_whole = isinstance(declared, FrameSource) and bool(declared.order_by)
            yield SourceChunk(source, split, (chunk, partition), values, source in word.ending, is_whole)


def _declared(plan: Plan, source: int) -> Source | None:
    node = plan.operator(source).node
    assert isinstance(node, SourceNode)
    return node.source


def _values(source: Source | None, arrays: Iterable[pa.Array]) -> Iterator[Values]:
    lines = isinstance(source, FileSource) and source.format == "text"
    for array in arrays:
        column = array.field("value") if lines and array.type.num_fields == 1 else array
        yield Values(None, column, kind_of_arrow(column.type))


def _segments(batch: pa.RecordBatch) -> Iterator[tuple[tuple[int, int, str, int], Any]]:
    """Yield stretches of rows with the same source, split, chunk and slot."""
    if not batch.num_rows:
        return
    columns = [batch.column(name) for name in ("source", "split", "chunk", "slot")]
    change = np.zeros(batch.num_rows, bool)
    change[0] = True
    for column in columns:
        codes = column.dictionary_encode().indices.to_numpy()
        change[1:] |= codes[1:] != codes[:-1]
    starts = np.flatnonzero(change).tolist()
    for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        key = tuple(column[start].as_py() for column in columns)
        source = key[0]
        array = None
        if source >= 0:
            array = batch.column(f"payload_{source}").slice(start, stop - start)
        yield key, array
