"""Sinks whose records come back to the driver: to be printed, or to be handed to whoever waits for them.

A writer packs its subtask's records into bytes, which travel with the epoch's commit and are stored with it, so that
what is shown is what was committed. The committer puts the records of all subtasks into the order of their stamps.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flintstream.connectors.parcel import Parcel, merge, pack
from flintstream.connectors.text import as_text
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.delivery import AT_LEAST_ONCE, AT_MOST_ONCE, DIRECT, EAGER, EXACTLY_ONCE, Delivery
from flintstream.model.types import to_type_info
from flintstream.state.codec import encode

OnEpoch = Callable[[int, list[Any]], None]


class DriverWriter(SinkWriter):
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
    empty. After a crash between commit and print the last epoch is printed again, or for the first time; at most once,
    it is not printed again. What is printed before the commit (`isolation="read_uncommitted"`) cannot be taken back.

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
        self.how = AT_LEAST_ONCE
        self.prefix = prefix or ""
        self.to_stderr = to_stderr
        self.type_info = to_type_info(type_info)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DriverWriter(context)

    def create_committer(self) -> Committer:
        return _Printer(self)

    def deliveries(self) -> tuple[Delivery, ...]:
        return AT_LEAST_ONCE, DIRECT, AT_MOST_ONCE

    def delivering(self, delivery: Delivery) -> PrintSink:
        other = copy.copy(self)
        other.how, other.delivery = delivery, delivery.guarantee.value
        return other


class _Printer(Committer):
    def __init__(self, sink: PrintSink) -> None:
        self._sink = sink
        self._printed: dict[tuple[str, str], int] = {}

    def show(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        if committables:
            self._print(committables)

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        if self._sink.how.is_early or epoch <= self._printed.get((job, uid), epoch - 1):
            return
        self._print(committables)
        self._printed[job, uid] = epoch

    def _print(self, committables: Sequence[Any]) -> None:
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

    def _head(self, subtask: int, parallelism: int) -> str:
        parts = [self._sink.prefix] if self._sink.prefix else []
        if parallelism > 1:
            parts.append(str(subtask + 1))
        return f"{':'.join(parts)}> " if parts else ""


class CollectSink(Sink):
    """Collects the records of committed epochs in the driver's memory, each epoch once however often it is committed.

    With `isolation="read_uncommitted"` records are there before their epoch is committed, and if that fails they are
    gone again; at least once, they stay.

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
        self._shown: dict[tuple[str, str], dict[int, list[Any]]] = {}
        self.how = EXACTLY_ONCE

    @property
    def results(self) -> list[Any]:
        """All records so far, in order of epochs."""
        with self._lock:
            early = [value for epochs in self._shown.values() for values in epochs.values() for value in values]
            return [*self._results, *early]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def deliver(self, job: str, uid: str, epoch: int, values: list[Any]) -> None:
        """Take an epoch's records, unless they were taken before."""
        with self._lock:
            self._shown.pop((job, uid), None)
            # Commits come in order of epochs, so whatever is not newer is a commit replayed after a restart.
            if epoch <= self._taken.get((job, uid), -1):
                return
            self._taken[job, uid] = epoch
            if self._on_epoch is None:
                self._results += values
        if self._on_epoch is not None:
            self._on_epoch(epoch, values)

    def show(self, job: str, uid: str, epoch: int, values: list[Any]) -> None:
        """Take an epoch's records before it is committed."""
        if self.how != EAGER:
            with self._lock:
                if self._on_epoch is None:
                    self._results += values
            if self._on_epoch is not None:
                self._on_epoch(epoch, values)
            return
        with self._lock:
            self._shown.setdefault((job, uid), {})[epoch] = values

    def hide(self, job: str, uid: str, after: int = -1) -> None:
        """Take back what was shown of epochs after this one."""
        with self._lock:
            shown = self._shown.get((job, uid), {})
            for epoch in [epoch for epoch in shown if epoch > after]:
                del shown[epoch]

    def deliveries(self) -> tuple[Delivery, ...]:
        # A function that was called cannot be told that nothing has happened.
        eager = () if self._on_epoch is not None else (EAGER,)
        return EXACTLY_ONCE, *eager, DIRECT, AT_MOST_ONCE

    def delivering(self, delivery: Delivery) -> CollectSink:
        # What is collected stays where the user looks for it.
        other = CollectSink(self._on_epoch)
        vars(other).update(vars(self), how=delivery, delivery=delivery.guarantee.value)
        return other

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DriverWriter(context)

    def create_committer(self) -> Committer:
        return _Collector(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers only write: results, locks and callbacks stay in the driver.
        return CollectSink, ()


class _Collector(Committer):
    def __init__(self, sink: CollectSink) -> None:
        self._sink = sink

    def show(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        if committables:
            self._sink.show(job, uid, epoch, merge(committables).values)

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        if self._sink.how == DIRECT:
            return
        if committables:
            self._sink.deliver(job, uid, epoch, merge(committables).values)
        else:
            self._sink.hide(job, uid)

    def roll_back(self, job: str, uid: str, epoch: int) -> None:
        self._sink.hide(job, uid, epoch)
