"""All that can be set on a job, as one record: the environment and its config objects write it, execution reads it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from flintstream.api.restart import read_restart
from flintstream.engine.options import JobOptions, StartFrom
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.model.config import RuntimeExecutionMode
from flintstream.model.delivery import DeliveryGuarantee
from flintstream.model.time import DurationLike, to_millis
from flintstream.planner.compile import Settings
from flintstream.planner.dead_letters import DeadLetterDefault

DEFAULT_NAME = "Flintstream Job"
RUNTIMES = ("spark", "local")
_DEFAULTS = JobOptions()
MOST_KEY_GROUPS = 32768


@dataclass
class JobSettings:
    """Settings of the jobs of one environment; None means that nobody said anything."""

    runtime: str = "spark"
    session: Any = None
    name: str | None = None
    parallelism: int | None = None
    max_parallelism: int = 128
    mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING
    deterministic: bool = False
    needs_uids: bool = False
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    interval_ms: int | None = None
    min_pause_ms: int = 0
    checkpoint_dir: str | None = None
    checkpoint_root: str | None = None
    storage_options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    tolerable_failures: int = _DEFAULTS.tolerable_failures
    retained: int = _DEFAULTS.retained
    drop_orphans: bool = False
    start_from: StartFrom | None = None
    savepoint_dir: str | None = None
    trust_state: bool = False
    max_records: int = 0
    source_rate: str | None = None
    metrics: bool = True
    state_entries_in_memory: int = _DEFAULTS.state_entries_in_memory
    progress: bool = False
    listeners: list[Any] = field(default_factory=list[Any])
    guarantee: DeliveryGuarantee | None = None
    dead_letters: DeadLetterDefault | None = None
    restart: dict[str, str] = field(default_factory=dict[str, str])
    lease_ms: int = _DEFAULTS.lease_ms
    spark: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def state_directory(self) -> str | None:
        """Where the next job keeps its state, or the place in which it gets a directory; None if nowhere for long."""
        return self.checkpoint_dir or self.checkpoint_root

    def default_parallelism(self) -> int:
        """Return the parallelism of operators that name none: what was set, else the cores there are."""
        if self.parallelism is not None:
            return self.parallelism
        if self.session is not None:
            cores = int(self.session.sparkContext.defaultParallelism)
        else:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, self.max_parallelism)

    def for_planner(self, job_name: str | None, batch_mode: bool) -> Settings:
        """Return what the planner must know."""
        return Settings(
            name=job_name or self.name or DEFAULT_NAME,
            parallelism=self.default_parallelism(),
            max_parallelism=self.max_parallelism,
            batch_mode=batch_mode,
            deterministic=self.deterministic,
            parameters=tuple(self.parameters.items()),
            guarantee=self.guarantee,
            dead_letters=self.dead_letters,
        )

    def described(self) -> dict[str, str]:
        """Return what is set, by the names of a configuration, for readers of a report; it may hold secrets."""
        said: dict[str, Any] = {
            "pipeline.name": self.name,
            "execution.runtime-mode": self.mode.name,
            "flintstream.runtime": self.runtime,
            "parallelism.default": self.default_parallelism(),
            "pipeline.max-parallelism": self.max_parallelism,
            "execution.checkpointing.interval": self.interval_ms,
            "execution.checkpointing.min-pause": self.min_pause_ms or None,
            "execution.checkpointing.dir": self.checkpoint_dir,
            "execution.checkpointing.savepoint-dir": self.savepoint_dir,
            "execution.checkpointing.num-retained": self.retained,
            "execution.checkpointing.tolerable-failed-checkpoints": self.tolerable_failures,
            "execution.state-recovery.path": self.start_from and self.start_from.path,
            "execution.state-recovery.ignore-unclaimed-state": self.drop_orphans or None,
            "flintstream.state-recovery.trust": self.trust_state or None,
            "flintstream.guarantee": self.guarantee and self.guarantee.value,
            "flintstream.deterministic-order": self.deterministic or None,
            "flintstream.epoch.max-records": self.max_records or None,
            "flintstream.source.rate": self.source_rate,
            "flintstream.state.entries-in-memory": self.state_entries_in_memory,
            "flintstream.lease.timeout": self.lease_ms,
            "flintstream.metrics": self.metrics,
            **self.restart,
            **self.spark,
            **{f"pipeline.global-job-parameters.{name}": value for name, value in self.parameters.items()},
        }
        shown = {name: value for name, value in said.items() if value is not None}
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in shown.items()}

    def for_runtime(self) -> JobOptions:
        """Return what the runtime must know."""
        if self.session is not None and self.spark:
            names = ", ".join(self.spark)
            remedy = "set them on the session, or give no session"
            raise InvalidArgumentError(describe(f"{names} cannot be set on a session that runs", None, remedy))
        return JobOptions(
            checkpoint_dir=self.checkpoint_dir,
            storage_options=dict(self.storage_options),
            interval_ms=max(self.interval_ms or 0, self.min_pause_ms),
            max_records=self.max_records,
            source_rate=self.source_rate,
            metrics=self.metrics,
            configuration=tuple(self.described().items()),
            retained=self.retained,
            state_entries_in_memory=self.state_entries_in_memory,
            tolerable_failures=self.tolerable_failures,
            drop_orphans=self.drop_orphans,
            start_from=self.start_from and replace(self.start_from, storage_options=dict(self.storage_options)),
            savepoint_dir=self.savepoint_dir,
            trust_state=self.trust_state,
            session=self.session,
            progress=self.progress,
            listeners=tuple(self.listeners),
            restart=read_restart(self.restart),
            lease_ms=self.lease_ms,
            spark_settings=tuple(self.spark.items()),
        )


def check_count(what: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`, or refuse it with the user's line."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        limit = f"{least} or more" if most is None else f"from {least} to {most}"
        line = users_line()
        raise InvalidArgumentError(
            describe(f"{what} is {value!r}", line, f"give a whole number {limit}"), location=line
        )
    return value


def check_duration(what: str, value: DurationLike) -> int:
    """Return a duration in ms, 0 or more, or refuse it with the user's line."""
    millis = to_millis(value)
    if millis < 0:
        line = users_line()
        raise InvalidArgumentError(describe(f"{what} is {value!r}", line, "give 0 or more"), location=line)
    return millis


def check_guarantee(guarantee: DeliveryGuarantee | str) -> DeliveryGuarantee:
    """Return what a job promises, or refuse it: a sink may promise nothing, a whole job may not."""
    found = DeliveryGuarantee.of(guarantee)
    if found is DeliveryGuarantee.NONE:
        line = users_line()
        what, remedy = "a job cannot do without any guarantee", "give it to a sink: sink_to(sink, guarantee='none')"
        raise InvalidArgumentError(describe(what, line, remedy), location=line)
    return found


def check_runtime(runtime: str) -> str:
    """Return the name of a runtime, or refuse it."""
    if runtime not in RUNTIMES:
        what, remedy = f"there is no runtime {runtime!r}", f"use {' or '.join(map(repr, RUNTIMES))}"
        raise InvalidArgumentError(describe(what, users_line(), remedy), location=users_line())
    return runtime
