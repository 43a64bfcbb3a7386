"""Sinks whose records come back to the driver: to be printed, or to be handed to whoever waits for them.

A writer packs its subtask's records into bytes, which travel with the epoch's commit and are stored with it, so that
what is shown is what was committed. The committer puts the records of all subtasks into the order of their stamps.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flintstream.connectors.parcel import Parcel, merge, pack
from flintstream.connectors.text import as_text
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.types import to_type_info
from flintstream.state.codec import encode

OnEpoch = Callable[[int, list[Any]], None]


class _DriverWriter(SinkWriter):
    """Keeps an epoch's records as columns."""

    def __init__(self, context: WriterContext) -> None:
        self._parcel = Parcel(context.subtask, context.parallelism)

    def write_batch(self, batch: Any) -> None:
        """Called instead of `write` with a batch that has values, timestamps and a stamp for each record."""
        array, kind = batch.values.column()
        self._parcel.add(array, kind, batch.timestamps, batch.stamp)

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        array, kind = encode(values)
        self._parcel.add(array, kind, timestamps, ())

    def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
        self._parcel.add(array, kind, timestamps, ())
        return True

    def prepare_commit(self) -> bytes | None:
        return pack(self._parcel)


class PrintSink(Sink):
    """Prints every record of a committed epoch, in order, as PyFlink's `print()` does.

    A line is `prefix:subtask> record`; the subtask (from 1) is left out where there is only one, the prefix if it is
    empty. After a crash between commit and print the last epoch is printed again, or for the first time.

    Example:
        >>> sink = PrintSink("words")
        >>> writer = sink.create_writer(WriterContext("job", "print", epoch=1, subtask=0, attempt="1"))
        >>> writer.write(["to", "be"], [0, 0])
        >>> sink.create_committer().commit("job", "print", 1, [writer.prepare_commit()])
        words> to
        words> be

    Args:
        prefix: What every line begins with.
        to_stderr: Print to the standard error instead of the standard output.
        type_info: The declared type of the stream, if any; see `flintstream.connectors.text`.
    """

    delivery = "at-least-once"

    def __init__(self, prefix: str | None = None, to_stderr: bool = False, type_info: Any = None) -> None:
        self.prefix = prefix or ""
        self.to_stderr = to_stderr
        self.type_info = to_type_info(type_info)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _DriverWriter(context)

    def create_committer(self) -> Committer:
        return _Printer(self)


class _Printer(Committer):
    def __init__(self, sink: PrintSink) -> None:
        self._sink = sink
        self._printed: dict[tuple[str, str], int] = {}

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        if epoch <= self._printed.get((job, uid), epoch - 1):
            return
        merged = merge(committables)
        heads = {subtask: self._head(subtask, merged.parallelism) for subtask in set(merged.subtasks)}
        info = self._sink.type_info
        lines = [
            f"{heads[subtask]}{as_text(value, info)}\n"
            for subtask, value in zip(merged.subtasks, merged.values, strict=True)
        ]
        # Looked up here, because whoever redirects output replaces the module's attribute.
        stream = sys.stderr if self._sink.to_stderr else sys.stdout
        stream.write("".join(lines))
        stream.flush()
        self._printed[job, uid] = epoch

    def _head(self, subtask: int, parallelism: int) -> str:
        parts = [self._sink.prefix] if self._sink.prefix else []
        if parallelism > 1:
            parts.append(str(subtask + 1))
        return f"{':'.join(parts)}> " if parts else ""


class CollectSink(Sink):
    """Collects the records of committed epochs in the driver's memory, each epoch once however often it is committed.

    Example:
        >>> sink = CollectSink()
        >>> writer = sink.create_writer(WriterContext("job", "out", epoch=1, subtask=0, attempt="1"))
        >>> writer.write([("a", 1)], [0])
        >>> part = writer.prepare_commit()
        >>> for _ in range(2):
        ...     sink.create_committer().commit("job", "out", 1, [part])
        >>> sink.results
        [('a', 1)]

    Args:
        on_epoch: Called in the driver with each new epoch's number and its records, in order of epochs. Where it is
            given the sink itself keeps nothing.
    """

    def __init__(self, on_epoch: OnEpoch | None = None) -> None:
        self._on_epoch = on_epoch
        self._lock = threading.Lock()
        self._taken: dict[tuple[str, str], int] = {}
        self._results: list[Any] = []

    @property
    def results(self) -> list[Any]:
        """All records so far, in order of epochs."""
        with self._lock:
            return list(self._results)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def deliver(self, job: str, uid: str, epoch: int, values: list[Any]) -> None:
        """Take an epoch's records, unless they were taken before."""
        with self._lock:
            # Commits come in order of epochs, so whatever is not newer is a commit replayed after a restart.
            if epoch <= self._taken.get((job, uid), -1):
                return
            self._taken[job, uid] = epoch
            if self._on_epoch is None:
                self._results += values
        if self._on_epoch is not None:
            self._on_epoch(epoch, values)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _DriverWriter(context)

    def create_committer(self) -> Committer:
        return _Collector(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers only write: results, locks and callbacks stay in the driver.
        return CollectSink, ()


class _Collector(Committer):
    def __init__(self, sink: CollectSink) -> None:
        self._sink = sink

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        self._sink.deliver(job, uid, epoch, merge(committables).values)
