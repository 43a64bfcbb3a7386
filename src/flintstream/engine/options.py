"""What the environment asks of a runtime, apart from the plan itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream.engine.epoch import ENTRIES_IN_MEMORY


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Settings of one execution.

    `checkpoint_dir` None keeps state in a directory that ends with the job. `interval_ms` is the least time between the
    starts of two epochs. `max_records` bounds one epoch's input (0: chosen by how long epochs take). `session` is a
    user's own SparkSession. `drop_orphans` lets state go that
    no operator owns any more. `listeners` are called after every committed epoch (see engine.loop.Listener).
    """

    checkpoint_dir: str | None = None
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
    spark_settings: tuple[tuple[str, str], ...] = ()
