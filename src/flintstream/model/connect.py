"""Sources and sinks as the user declares them, and the contracts of those who write their own.

A source is a value that names its splits and reads ranges of them; positions are integers, so a checkpoint is a table
of numbers. A sink writes in two phases: a writer stages what an epoch produced and returns a committable; the committer
makes it visible once the epoch is committed, and must be able to do so twice without harm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source with an order of its own. `end` is None if it goes on for ever; a log's part has a `name`."""

    number: int
    start: int = 0
    end: int | None = None
    name: str = ""


@dataclass(slots=True)
class TimedRecords:
    """Records that bring their timestamps, in milliseconds, as a log keeps them; a list or an Arrow array of each."""

    records: Any
    timestamps: Any


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

        Returns a list of records or an Arrow array, or either as `TimedRecords`; there may be fewer than positions.
        Reading the same range again must give the same records.
        """

    def rate(self) -> float | None:
        """Return the wanted records per second over all splits, or None for as fast as possible."""
        return None


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log as its source finds it: where to begin, and where to end if it is not to go on for ever."""

    name: str
    start: int = 0
    end: int | None = None


class LogSource(SplitSource):
    """A log kept by someone else, whose parts grow, and become more, while the job runs.

    Its parts go by name. The job numbers them, and remembers numbers, beginnings and ends with its positions.
    """

    discovery_interval_ms: int | None = None
    """How often to look for new parts while the job runs; None for never."""

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(n, part.start, part.end, part.name) for n, part in enumerate(self.discover((), True))]

    def read(self, split: int, start: int, end: int) -> Any:
        msg = "the parts of a log are read by name"
        raise TypeError(msg)

    @abstractmethod
    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        """Called in the driver when a job starts, and then from time to time; returns parts that are not known yet.

        `is_first` says that the job has never run: only then do the parts begin where the user asked for.
        """

    @abstractmethod
    def available(self, names: Collection[str]) -> Mapping[str, int]:
        """Called in the driver before every epoch; returns the position up to which each part can be read now."""

    @abstractmethod
    def read_part(self, name: str, start: int, end: int) -> Any:
        """Called in a task to read positions `[start, end)` of a part; returns what `read` returns."""

    def committed(self, positions: Mapping[str, int]) -> None:
        """Called in the driver after each commit with the next position of every part; a failure is no one's loss."""


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a sink's writer knows of its place. `attempt` is unique, so staged names never collide.

    `incarnation` names the job's life: a job that starts anew, without its checkpoints, has another. A sink without a
    place of its own to stage output hands pieces of it to `stage`, in any number, and puts what that returns into the
    list `pieces` of its committable; there the committer finds, in their place, functions that return the bytes.
    """

    job: str
    uid: str
    epoch: int
    subtask: int
    attempt: str
    parallelism: int = 1
    incarnation: str = ""
    stage: Callable[[bytes], dict[str, Any]] | None = None


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
