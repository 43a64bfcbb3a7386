"""Where the outputs of a job under test go: to a list in this process, each record with its timestamp.

A sink of its own beside `CollectSink`, which forgets timestamps, and because it can die on request: after the epoch is
committed and before its output is published, which is the one moment that only a sink knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.connectors.driver_sinks import DriverWriter
from flintstream.connectors.parcel import merge
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.time import MIN_TIMESTAMP


class SimulatedCrash(BaseException):
    """The end of a process, as far as a test can have it: nothing that handles errors may catch it."""


class RecordingSink(Sink):
    """Collects the records of committed epochs, with their timestamps."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, int | None]] = []
        """All records so far, with their timestamps, in order of epochs."""
        self.dies = False
        """Whether the next commit ends the process before anything is published."""
        self.epoch = 0

    @property
    def results(self) -> list[Any]:
        """All records so far, in order of epochs."""
        return [value for value, _ in self.records]

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DriverWriter(context)

    def create_committer(self) -> Committer:
        return _Recorder(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers only write: results stay in the driver.
        return RecordingSink, ()


class _Recorder(Committer):
    def __init__(self, sink: RecordingSink) -> None:
        self._sink = sink

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        if self._sink.dies:
            raise SimulatedCrash
        # Whatever is not newer is a commit that a restart repeats.
        if epoch > self._sink.epoch:
            self._sink.epoch = epoch
            merged = merge(committables)
            times = [None if time == MIN_TIMESTAMP else time for time in merged.timestamps]
            self._sink.records += zip(merged.values, times, strict=True)
