"""The end of a stream inside a task: hands records to a sink's writer, or packs them up for the driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from flintstream.model.connect import Sink, SinkWriter, WriterContext
from flintstream.ops.batch import Batch
from flintstream.ops.operator import Operator, Output


class SinkOperator(Operator):
    """Writes to one sink; a writer lives for one epoch."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer: SinkWriter | None = None
        self._context: WriterContext | None = None

    def begin(self, context: WriterContext) -> None:
        """Called before an epoch's records."""
        self._context, self._writer = context, None

    def process(self, batch: Batch, port: int, out: Output) -> None:
        if not len(batch):
            return
        if self._writer is None:
            assert self._context is not None
            self._writer = self._sink.create_writer(self._context)
        write_batch: Any = getattr(self._writer, "write_batch", None)
        if write_batch is not None:
            write_batch(batch)
            return
        if batch.values.is_column:
            array, kind = batch.values.column()
            if self._writer.write_column(array, kind, batch.timestamps):
                return
        self._writer.write(batch.values.rows(), batch.timestamps.tolist())

    def prepare_commit(self) -> Any:
        """Called after an epoch's records; returns what the committer needs, or None if nothing was written."""
        writer, self._writer = self._writer, None
        return None if writer is None else writer.prepare_commit()

    def abort(self) -> None:
        """Called if the epoch failed in this task."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()


def round_robin(start: int, count: int, parallelism: int) -> Any:
    """Return partitions for `count` records, in turn."""
    return (np.arange(start, start + count)) % parallelism
