"""Sources and sinks as the user declares them, and the contracts of those who write their own.

A source is a value that names its splits and reads ranges of them; positions are integers, so a checkpoint is a table
of numbers. A sink writes in two phases: a writer stages what an epoch produced and returns a committable; the committer
makes it visible once the epoch is committed, and must be able to do so twice without harm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flintstream.model.delivery import (
    AT_MOST_ONCE,
    DIRECT,
    EXACTLY_ONCE,
    NO_GUARANTEE,
    Delivery,
    DeliveryGuarantee,
)


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

    @property
    def weakness(self) -> str | None:
        """Why records may be lost or doubled on their way in, as in "is not replayable"; None if they are not."""
        return None


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

    def positions_at(self, splits: Sequence[Split], timestamp: int) -> Sequence[int]:
        """Called in the driver; returns the first position of each split that has this time, in ms, or a later one.

        The time is the source's own, as a log keeps it with its records; a split without such a record gives its end.
        A source that knows no time leaves this as it is, and is then only rewound by positions.
        """
        msg = "the source knows no time"
        raise TypeError(msg)


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

    is_lenient: bool = False
    """Whether it can set apart what it cannot read, by `read_part_leniently`."""

    def read_part_leniently(self, name: str, start: int, end: int, errors: tuple[type[Exception], ...]) -> Any:
        """Called instead of `read_part` where `on_error(...)` asks for it: a BadRecord stands for what raised one."""
        return self.read_part(name, start, end)

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

        After a crash it is called again with the same arguments; doing it twice must equal doing it once. Of a sink
        that works at most once it is called once at most. One that shows output early is told of every epoch.
        """

    def show(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """Called before the epoch is committed, if the sink works so that readers see what is not committed.

        An epoch that fails is run again, and shown again: what was shown of it before does not count.
        """

    def roll_back(self, job: str, uid: str, epoch: int) -> None:
        """Called when a job starts whose sink shows output early: take back what is of later epochs than this."""


class HeldTable(ABC):
    """The rows of a sink that keeps the last record of each key; asked in the driver by whoever repairs them."""

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """The names of the fields that make up a key."""

    @abstractmethod
    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Return all rows as they are now, with their fields by name."""

    @abstractmethod
    def fitted(self, records: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
        """Return records as `rows` would give them once they are written, so that the two can be compared."""


class Sink(ABC):
    """Where records go.

    `delivery` names the guarantee that it gives unless told otherwise. One that stages and commits is "exactly-once";
    one whose writer writes at once is "at-least-once" at best.
    """

    delivery: str = DeliveryGuarantee.EXACTLY_ONCE.value
    is_chosen: bool = False
    """Whether its user has said what it shall guarantee: then what the job says does not change it."""
    overwrites: bool = False
    """Whether a record that comes twice leaves what it left the first time, as in an upsert."""

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Called in the task that writes."""

    @abstractmethod
    def create_committer(self) -> Committer:
        """Called in the driver when the job starts."""

    def deliveries(self) -> tuple[Delivery, ...]:
        """Return the ways in which it can work; the first is how it does unless told otherwise."""
        return _USUAL.get(self.delivery, (NO_GUARANTEE,))

    def delivering(self, delivery: Delivery) -> Sink:
        """Return this sink at work in one of the ways that it named."""
        return self

    def held_table(self) -> HeldTable | None:
        """Called in the driver; returns what the sink holds now, if it keeps records by key and can be asked."""
        return None


_USUAL: dict[str, tuple[Delivery, ...]] = {
    DeliveryGuarantee.EXACTLY_ONCE.value: (EXACTLY_ONCE, AT_MOST_ONCE),
    DeliveryGuarantee.AT_LEAST_ONCE.value: (DIRECT,),
    DeliveryGuarantee.AT_MOST_ONCE.value: (AT_MOST_ONCE,),
}
"""What can be done with a sink that says nothing but what it guarantees: less than twice is the engine's to see to."""
