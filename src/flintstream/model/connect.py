"""Sources and sinks as the user declares them, and the contracts of those who write their own.

A source is a value that names its splits and reads ranges of them; positions are integers, so a checkpoint is a table
of numbers. A sink writes in two phases: a writer stages what an epoch produced and returns a committable; the committer
makes it visible once the epoch is committed, and must be able to do so twice without harm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source with an order of its own. `end` is None if it goes on for ever."""

    number: int
    start: int = 0
    end: int | None = None


class Source(ABC):
    """Where records come from."""

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Whether it ends by itself."""


class SplitSource(Source):
    """A source read by ranges of positions, in the tasks themselves."""

    @abstractmethod
    def splits(self, parallelism: int) -> Sequence[Split]:
        """Called once when a job starts for the first time; returns all splits."""

    @abstractmethod
    def read(self, split: int, start: int, end: int) -> Any:
        """Called in a task to read positions `[start, end)` of a split.

        Returns a list of records or an Arrow array; reading the same range again must give the same records.
        """

    def rate(self) -> float | None:
        """Return the wanted records per second over all splits, or None for as fast as possible."""
        return None


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a sink's writer knows of its place. `attempt` is unique, so staged names never collide."""

    job: str
    uid: str
    epoch: int
    subtask: int
    attempt: str
    parallelism: int = 1


class SinkWriter(ABC):
    """Stages the records of one subtask in one epoch."""

    @abstractmethod
    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Called with records in order; nothing may become visible yet."""

    def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
        """Called first with an Arrow column, if the records are one; return True if it was written."""
        return False

    @abstractmethod
    def prepare_commit(self) -> Any:
        """Called once at the end; flush, and return a small JSON-able value that names what was staged, or None."""

    def abort(self) -> None:
        """Called if the task failed after writing; undo if possible. Not called after a crash."""


class Committer(ABC):
    """Makes staged output visible; runs in the driver."""

    @abstractmethod
    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """Called after the epoch was committed, at least once, in order of epochs.

        After a crash it is called again with the same arguments; doing it twice must equal doing it once.
        """


class Sink(ABC):
    """Where records go."""

    delivery: str = "exactly-once"

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Called in the task that writes."""

    @abstractmethod
    def create_committer(self) -> Committer:
        """Called in the driver when the job starts."""
