"""A sink that counts and forgets: for benchmarks, and for programs that are run for what they do on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext


class _DiscardWriter(SinkWriter):
    def __init__(self) -> None:
        self._count = 0

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        self._count += len(values)

    def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
        self._count += len(array)
        return True

    def prepare_commit(self) -> Any:
        return self._count


class _Nothing(Committer):
    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """There is nothing to make visible."""


class DiscardingSink(Sink):
    """Takes every record and keeps none."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _DiscardWriter()

    def create_committer(self) -> Committer:
        return _Nothing()
