"""What the environment asks of a runtime, apart from the plan itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flintstream.engine.epoch import ENTRIES_IN_MEMORY
from flintstream.model.restart import RestartStrategyConfiguration


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Where a job without checkpoints of its own begins: a savepoint, or a checkpoint of another job.

    `rename` has the uids of today by the former ones. With `trust` the savepoint may bring classes and functions that
    are run when it is read. `location` is the user's line.
    """

    path: str
    allow_non_restored_state: bool = False
    rename: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    trust: bool = False
    location: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Settings of one execution.

    `checkpoint_dir` None keeps state in a directory that ends with the job; `storage_options` are what the file system
    of another address must know, such as a password. `interval_ms` is the least time between the
    starts of two epochs. `max_records` bounds one epoch's input (0: chosen by how long epochs take). `session` is a
    user's own SparkSession. `drop_orphans` lets state go that
    no operator owns any more. `listeners` are called after every committed epoch (see engine.loop.Listener).
    `restart` says when a job that failed is started again, None that nobody said anything. A driver whose lease on the
    checkpoint directory was not renewed for `lease_ms` counts as dead. `start_from` is where a job begins that has no
    checkpoints of its own, `savepoint_dir` where its savepoints go if nobody says otherwise; with `trust_state` files
    of state may bring code that is run when they are read. `source_rate` is the rate of all sources, as
    engine.source_rate reads it. With `metrics` tasks measure themselves; `configuration` is what was set, for readers.
    """

    checkpoint_dir: str | None = None
    storage_options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    interval_ms: int = 0
    max_records: int = 0
    retained: int = 3
    state_entries_in_memory: int = ENTRIES_IN_MEMORY
    tolerable_failures: int = 2
    drop_orphans: bool = False
    session: Any = None
    master: str | None = None
    progress: bool = False
    listeners: tuple[Any, ...] = ()
    restart: RestartStrategyConfiguration | None = None
    lease_ms: int = 10_000
    spark_settings: tuple[tuple[str, str], ...] = ()
    start_from: StartFrom | None = None
    savepoint_dir: str | None = None
    trust_state: bool = False
    source_rate: str | None = None
    metrics: bool = True
    configuration: tuple[tuple[str, str], ...] = field(default=(), repr=False)
