"""The load-bearing interface: what an operator is to the engine that runs it.

An operator holds configuration and, once opened, its function and its state; it never reads a clock or a file. The
engine calls `process` for batches that arrive inside a level, `process_run` for the merged input behind an exchange,
and `emit` is the only way out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.batch import Batch
from flintstream.ops.moment import Moment
from flintstream.ops.run import Run
from flintstream.state.backend import KeyedBackend

MAIN = ""
"""The tag of an operator's main output; side outputs have their OutputTag's id."""


class Output(Protocol):
    """Where an operator's records go."""

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        """Hand over a batch in stamp order."""
        ...


def _unknown(watermark: int) -> float | None:
    """What an operator knows of completeness before the engine tells it."""


class EpochMetric(ABC):
    """A user's metric as the engine sees it: what changed in an epoch."""

    @abstractmethod
    def drain(self) -> dict[str, Any] | None:
        """Return what has changed since it was last asked, as JSON can hold it; None if nothing has."""

    def begin(self) -> None:
        """Called before an epoch: forget what an attempt that came to nothing has left."""
        self.drain()


@dataclass(slots=True)
class OperatorContext:
    """What an opened operator knows of its place in the job.

    `now` is the processing time of the epoch, `watermark` the operator's own before it.
    `moment` tells code that runs in the operator how late it is in event time, or is None if it cannot.
    `sweeps` are run at the end of each epoch, by name: they remove what has expired at a watermark.
    `metrics` are those of the user, by their full names.
    `checks` are run at the end of each epoch, before its state is written; they raise if the state is not as declared.
    `completeness` tells which share of the records up to a watermark is believed to have come, or None.
    With `logs_late` each late record gets a line in `notes`, which the driver logs once the epoch is committed.
    """

    uid: str
    name: str
    subtask: int
    parallelism: int
    backend: KeyedBackend
    attempt: int = 0
    job_parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    metrics: dict[str, EpochMetric] = field(default_factory=dict[str, EpochMetric])
    checks: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    completeness: Callable[[int], float | None] = _unknown
    logs_late: bool = False
    notes: list[str] = field(default_factory=list[str])
    now: int = 0
    watermark: int = MIN_TIMESTAMP
    moment: Moment | None = None
    sweeps: dict[str, Callable[[int], None]] = field(default_factory=dict[str, Callable[[int], None]])

    def count(self, name: str, amount: int = 1) -> None:
        """Add to one of the operator's counters, which the driver sums over all subtasks."""
        self.counters[name] = self.counters.get(name, 0) + amount

    def count_late(self, key: Any, value: Any, timestamp: int, watermark: int, windows: Iterable[Any] = ()) -> None:
        """Count a record that came too late for all its windows."""
        self.count("late")
        if self.logs_late:
            missed = "".join(f", window {window}" for window in windows)
            self.notes.append(f"key {key!r}, timestamp {timestamp}, watermark {watermark}{missed}: {value!r:.200}")

    def count_late_batch(self, batch: Batch, windows: Sequence[Iterable[Any]] | None = None) -> None:
        """Count records that came too late; `windows` are those that each of them missed."""
        if not self.logs_late:
            self.count("late", len(batch))
            return
        assert batch.keys is not None and batch.watermarks is not None
        times = zip(batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True)
        rows = zip(batch.keys.rows(), batch.values.rows(), times, windows or [()] * len(batch), strict=True)
        for key, value, (timestamp, watermark), missed in rows:
            self.count_late(key, value, timestamp, watermark, missed)


class Operator(ABC):
    """Turns records into records."""

    def open(self, ctx: OperatorContext) -> None:
        """Called once before the first record in this process."""

    @abstractmethod
    def process(self, batch: Batch, port: int, out: Output) -> None:
        """Called for every batch that arrives by input `port` from an operator of the same level."""

    def process_run(self, run: Run, out: Output) -> None:
        """Called for every run of the merged input behind an exchange; event time advances within it."""
        if not len(run.batch):
            return
        if run.inputs is None:
            self.process(run.batch, 0, out)
            return
        for start, stop in _stretches(run.inputs):
            self.process(run.batch.slice(start, stop), int(run.inputs[start]), out)

    def flush(self, out: Output) -> None:
        """Called when no more records come in this stretch of a split (level 0) or in this epoch: emit what waits."""

    def on_processing_time(self, now: int, run: Run, out: Output) -> None:
        """Called once an epoch before its records, with the epoch's own clock; `run` is empty."""

    def close(self) -> None:
        """Called once when the operator is no longer needed in this process."""


def _stretches(ports: Any) -> list[tuple[int, int]]:
    cuts = (np.flatnonzero(np.diff(ports)) + 1).tolist()
    return list(zip([0, *cuts], [*cuts, len(ports)], strict=True))
