"""Runs programs in this process by a clock that only they move, and keeps what their watch told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream import StreamExecutionEnvironment
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.loop import EpochLoop
from flintstream.engine.options import JobOptions
from flintstream.engine.report import JobWatch, Keeper
from flintstream.engine.task import forget
from flintstream.local.run import LocalRunner
from flintstream.state.storage import MemoryStorage


class Clock:
    """Goes on by a little whenever it is read, and by more when someone sleeps."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000.0

    def __call__(self) -> float:
        self.ms += 1
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += seconds * 1000


class Told(Keeper):
    """Keeps the line of every epoch, and the status after it."""

    def __init__(self, watch: JobWatch) -> None:
        self.watch = watch
        self.epochs: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []

    def epoch(self, line: Any) -> None:
        self.epochs.append(dict(line))
        self.statuses.append(self.watch.status())


def watched(
    declare: Callable[[StreamExecutionEnvironment, Clock], Any], options: JobOptions | None = None, parallelism: int = 1
) -> Told:
    """Run a program to its end by a clock of its own."""
    clock = Clock()
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(parallelism)
    declare(env, clock)
    plan, storage, options = env.compile("job"), MemoryStorage(), options or JobOptions()
    watch = JobWatch(plan, options, clock=clock)
    told = watch.keeper = Told(watch)
    coordinator = Coordinator(plan, storage)
    loop = EpochLoop(coordinator, options, LocalRunner(plan, storage).run_epoch, None, watch=watch)
    watch.begin_attempt(coordinator.recover())
    try:
        assert loop.run()
    finally:
        forget(coordinator.incarnation)
    return told
