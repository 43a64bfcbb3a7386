"""What every task of an epoch is told, and what it tells back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flintstream.engine.measures import Measure, Worker
from flintstream.ops.clock import ChunkSteps, LaneTime
from flintstream.state.storage import Storage

ENTRIES_IN_MEMORY = 2_000_000
"""How many entries of state a partition keeps in memory, unless the job says otherwise."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """One split's share of an epoch; `last` says that the split ends with it. `name` is set for a part of a log."""

    source: int
    split: int
    start: int
    end: int
    last: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class StateFile:
    """Changelog bytes in the checkpoint directory: of which epochs, where, how many, and their checksum."""

    path: str
    offset: int
    length: int
    checksum: int
    rows: int
    first_epoch: int
    last_epoch: int
    is_snapshot: bool


@dataclass(frozen=True, slots=True)
class RestoredFile(StateFile):
    """A file of a savepoint, or of another job's checkpoint: it is elsewhere, and operators may have other uids now.

    `uids` are those of today by the former ones. A part of a savepoint has the name of its `table`, its digest, and the
    least and greatest key group of its rows. Such a file is read once, when a job starts; no manifest names it.
    """

    storage: Storage
    uids: Mapping[str, tuple[str, ...]]
    table: str = ""
    sha256: str = ""
    groups: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class StateHandle:
    """The state of one partition: its files, oldest first, and the tokens of the attempts that wrote recent epochs.

    `entries` is how many there are in tables that need not be in memory.
    """

    files: tuple[StateFile, ...] = ()
    tokens: tuple[tuple[int, str], ...] = ()
    groups: tuple[int, int] = (0, 0)
    entries: int = 0


@dataclass(frozen=True, slots=True)
class EpochContext:
    """The driver's word to all tasks of one epoch; `handles` are by level and partition, or EVERY_PARTITION.

    State files of epochs up to `judged` were not written by this driver's own tasks: see `state.judge`. With `trusts`
    the user believes them all. With `measures` tasks measure themselves: see `engine.measures`.
    """

    job: str
    incarnation: str
    epoch: int
    now: int
    lanes: Mapping[int, LaneTime]
    finishing: frozenset[int]
    watermarks: Mapping[int, int]
    ranges: tuple[ReadRange, ...]
    handles: Mapping[tuple[int, int], tuple[StateHandle, ...]]
    is_final: bool = False
    entries_in_memory: int = ENTRIES_IN_MEMORY
    storage: Storage | None = None
    judged: int | None = None
    trusts: bool = False
    measures: bool = True


EVERY_PARTITION = -1
"""Stands for the number of a partition in the place of state that all partitions of a level share."""


def producer_id(level: int, partition: int) -> int:
    """Return the number by which envelopes name the task that sent them."""
    return (level << 20) | partition


@dataclass(slots=True)
class ControlMessage:
    """From one task to one partition of the next level: how its lanes moved, and what it sent there, by edge."""

    level: int
    chunks: list[ChunkSteps] = field(default_factory=list[ChunkSteps])
    sent: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class NewState:
    """Files that a task made, behind the first `keep` files of its partition's chain.

    `data` is set if the last of them is small: the driver then writes it with the epoch's other small ones. `entries`
    is as in `StateHandle`.
    """

    keep: int
    files: tuple[StateFile, ...]
    data: bytes | None = None
    entries: int = 0


@dataclass(slots=True)
class TaskReport:
    """From one task to the driver: everything the commit needs to know of it."""

    level: int
    partition: int
    attempt: int
    token: str
    chunks: list[ChunkSteps] = field(default_factory=list[ChunkSteps])
    sent: dict[int, int] = field(default_factory=dict[int, int])
    received: dict[int, int] = field(default_factory=dict[int, int])
    seen: dict[int, int] = field(default_factory=dict[int, int])
    counters: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    metrics: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    watermarks: dict[int, int] = field(default_factory=dict[int, int])
    state: NewState | None = None
    shared: NewState | None = None
    committables: dict[int, Any] = field(default_factory=dict[int, Any])
    entries: dict[str, int] = field(default_factory=dict[str, int])
    ranges: list[int] = field(default_factory=list[int])
    notes: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    queryable: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    busy_seconds: float = 0.0
    measures: dict[int, Measure] = field(default_factory=dict[int, Measure])
    times: dict[tuple[int, int], list[int]] = field(default_factory=dict[tuple[int, int], list[int]])
    checkpoint_seconds: float = 0.0
    worker: Worker | None = None
