"""Output of a task on its way to a sink that publishes it after the epoch's commit, as columns of Arrow.

A sink without a place of its own to stage records adds batches of one schema here: small output travels with the
commit, large output waits in files beside it, which the committer reads piece by piece. Every piece names the job's
life, so that the committer can tell the epochs of a job from those of a job that was started anew under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from flintstream.model.connect import Committer, WriterContext

PIECE_BYTES = 8 << 20
INLINE_BYTES = 64 << 10
_INCARNATION = b"incarnation"


class StagedBatches:
    """Collects the batches of one writer."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._pieces: list[dict[str, Any]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch; all have one schema."""
        if batch.nbytes > PIECE_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.add(batch.slice(0, half))
            self.add(batch.slice(half))
            return
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > PIECE_BYTES and self._context.stage is not None:
            self._pieces.append(self._context.stage(self._pack()))
            self._held, self._bytes = [], 0

    def _pack(self) -> bytes:
        schema = self._held[0].schema.with_metadata({_INCARNATION: self._context.incarnation})
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, schema) as stream:
            for batch in self._held:
                stream.write_batch(batch.replace_schema_metadata(schema.metadata))
        return out.getvalue().to_pybytes()

    def committable(self) -> Any:
        """Return what names all that was added: bytes, pieces, or None if it was nothing."""
        stage = self._context.stage
        if not self._pieces:
            if not self._held:
                return None
            data = self._pack()
            if len(data) <= INLINE_BYTES or stage is None:
                return data
            return {"pieces": [stage(data)]}
        if self._held and stage is not None:
            self._pieces.append(stage(self._pack()))
        return {"pieces": self._pieces}


class Shares:
    """What all subtasks have staged in an epoch, read as often as it takes."""

    def __init__(self, committables: Sequence[Any]) -> None:
        self._pieces: list[Callable[[], bytes]] = []
        for each in committables:
            self._pieces += [_constant(each)] if isinstance(each, bytes) else each["pieces"]

    @property
    def incarnation(self) -> str:
        """The job's life in which it was staged."""
        with pa.ipc.open_stream(self._pieces[0]()) as stream:
            return (stream.schema.metadata or {}).get(_INCARNATION, b"").decode()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all subtasks, each subtask's in order; one piece at a time is in memory."""
        for piece in self._pieces:
            with pa.ipc.open_stream(piece()) as stream:
                for batch in stream:
                    yield batch.replace_schema_metadata(None)


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


class NoCommitter(Committer):
    """Has nothing to do: what was written is out already."""

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """Called after the epoch was committed."""
