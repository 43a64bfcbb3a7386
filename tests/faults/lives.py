"""A job through all its lives: it is started, crashes, is started again, until it has come to its end.

Every life builds the program, the plan and the driver anew; nothing but the checkpoint directory tells it where it was.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flintstream import StreamExecutionEnvironment
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.envelope import DRIVER, Envelope
from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.engine.loop import EpochLoop, RunEpoch
from flintstream.engine.options import JobOptions
from flintstream.engine.task import close_kept, forget, read_range, run_level_task, run_source_task
from flintstream.errors import FlintstreamError
from flintstream.planner.plan import Plan
from flintstream.state.storage import Storage
from tests.crash.ports import Crash, FaultyStorage
from tests.faults.points import OnPurposeError, Points, WorkerLost

JOB = "fault test"
MOST_LIVES = 30
MOST_ATTEMPTS = 4
Declare = Callable[[StreamExecutionEnvironment], None]


class World(ABC):
    """Where a job's tasks run, and what is left there when it crashes."""

    name: str

    @abstractmethod
    def start(self, plan: Plan, storage: Storage, points: Points) -> RunEpoch:
        """Return what runs the epochs of a plan."""

    @abstractmethod
    def end(self, incarnation: str, died: bool) -> None:
        """Called when a life is over; `died` says that its process is gone."""


class InProcess(World):
    """Tasks in this process. A lost worker's task is run again, as Spark does it, with nothing of what was held."""

    name = "local"

    def start(self, plan: Plan, storage: Storage, points: Points) -> RunEpoch:
        return _Tasks(plan, storage, points).run_epoch

    def end(self, incarnation: str, died: bool) -> None:
        if died:
            forget(incarnation)


class _Tasks:
    def __init__(self, plan: Plan, storage: Storage, points: Points) -> None:
        self._plan, self._storage, self._points = plan, storage, points
        self._attempts = 0

    def run_epoch(self, context: EpochContext) -> Sequence[TaskReport]:
        self._points.here().incarnation = context.incarnation
        rows: list[Envelope] = []
        for slot in range(len(context.ranges)):
            rows += self._tried(context, lambda attempt, slot=slot: self._source_task(context, slot, attempt))
        for level in range(1, self._plan.levels):
            rows = self._run_level(context, level, rows)
        return [pickle.loads(row.blob) for row in rows if row.level == DRIVER]

    def _source_task(self, context: EpochContext, slot: int, attempt: int) -> Iterator[Envelope]:
        return run_source_task(self._plan, context, slot, attempt, [read_range(self._plan, context, slot)], [slot])

    def _run_level(self, context: EpochContext, level: int, rows: Iterable[Envelope]) -> list[Envelope]:
        by_partition: list[list[Envelope]] = [[] for _ in range(self._plan.partitions(level))]
        for row in rows:
            by_partition[row.partition % len(by_partition)].append(row)
        produced: list[Envelope] = []
        for partition, mine in enumerate(by_partition):
            mine.sort(key=lambda row: row.order)
            produced += self._tried(
                context,
                lambda attempt, partition=partition, mine=mine: run_level_task(
                    self._plan, context, level, partition, attempt, mine, self._storage
                ),
            )
        return produced

    def _tried(self, context: EpochContext, task: Callable[[int], Iterator[Envelope]]) -> list[Envelope]:
        for _ in range(MOST_ATTEMPTS):
            self._attempts += 1
            try:
                return list(task(self._attempts))
            except WorkerLost:
                close_kept(context.incarnation)
                self._points.revive()
        raise AssertionError("workers are lost again and again")


def live(world: World, declare: Declare, points: Points, checkpoints: Storage, options: JobOptions) -> int:
    """Run a job to its end, however often it crashes on purpose; return how many lives it took."""
    storage = FaultyStorage(checkpoints, _as_fault(points))
    for number in range(1, MOST_LIVES + 1):
        if _live_once(world, declare, points, storage, options):
            return number
    raise AssertionError(f"the job did not come to its end: {points.hits()}")


def _as_fault(points: Points) -> Any:
    return points


def _live_once(world: World, declare: Declare, points: Points, storage: Storage, options: JobOptions) -> bool:
    """Run until the end, or a crash; return whether it was the end."""
    env = StreamExecutionEnvironment.get_execution_environment(runtime=world.name)
    declare(env)
    plan = env.compile(JOB)
    coordinator = Coordinator(plan, storage, options.retained)
    loop = EpochLoop(coordinator, options, world.start(plan, storage, points), lambda *_: points.reach("told"))
    died = True
    try:
        coordinator.recover()
        assert loop.run()
    except Crash:
        points.revive()
        return False
    except (OnPurposeError, FlintstreamError) as error:
        if "on purpose" not in str(error):
            raise
        died = False
        return False
    finally:
        world.end(coordinator.incarnation, died)
    return True
