"""The in-process runtime: the same plan, tasks, envelopes and commits as on Spark, moved by a plain loop.

It is deterministic, starts in milliseconds, and a breakpoint in a user's function stops in the process at hand.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace

from flintstream.connectors.files_local import LocalFileReader
from flintstream.connectors.files_source import FileSource
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.envelope import DRIVER, Envelope
from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.engine.job import RunningJob
from flintstream.engine.loop import EpochLoop
from flintstream.engine.options import JobOptions
from flintstream.engine.progress import listener_of
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.report_files import watch_of
from flintstream.engine.report_plan import Host
from flintstream.engine.restart import Attempt, start_job
from flintstream.engine.savepoint_desk import SavepointDesk
from flintstream.engine.task import forget, read_range, run_level_task, run_source_task
from flintstream.errors import UnsupportedError, describe
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import SplitSource
from flintstream.planner.plan import Plan, PlannedOperator
from flintstream.state.storage import MemoryStorage, Storage
from flintstream.state.storage_remote import storage_at


def submit(plan: Plan, options: JobOptions, background: bool = True) -> RunningJob:
    """Start a job in this process; with `background` in a thread, else it has ended when this returns."""
    plan = with_local_files(plan)
    check_sources(plan)
    storage, catch_up = storage_of(options), CatchUp(plan, options.progress)
    desk, watch = SavepointDesk(storage, options), watch_of(plan, options, Host())

    def make() -> Attempt:
        coordinator = Coordinator(
            plan, storage, options.retained, options.drop_orphans, options.start_from, options.trust_state
        )
        runner = LocalRunner(plan, storage)
        loop = EpochLoop(coordinator, options, runner.run_epoch, listener_of(plan, options), catch_up, desk, watch)
        return Attempt(coordinator, loop, loop.run, lambda: forget(coordinator.incarnation))

    return start_job(make, plan, storage, options, catch_up, desk, watch, background=background)


def storage_of(options: JobOptions) -> Storage:
    """Return where the job's state lives: in memory, if nobody asked to keep it."""
    if options.checkpoint_dir is None:
        return MemoryStorage()
    storage = storage_at(options.checkpoint_dir, options.storage_options)
    storage.check()
    return storage


def with_local_files(plan: Plan) -> Plan:
    """Return the plan with bounded file sources read here instead of by Spark."""

    def localised(op: PlannedOperator) -> PlannedOperator:
        node = op.node
        if isinstance(node, SourceNode) and isinstance(node.source, FileSource) and node.source.is_bounded:
            return replace(op, node=replace(node, source=LocalFileReader(node.source)))
        return op

    return replace(plan, operators=tuple(map(localised, plan.operators)))


def check_sources(plan: Plan) -> None:
    """Refuse what only Spark can read."""
    for op in plan.operators:
        node = op.node
        if not isinstance(node, SourceNode):
            continue
        if node.native:
            what = "column expressions run in Spark itself and not in the in-process runtime"
            raise UnsupportedError(
                describe(what, node.location, "use runtime='spark', or a Python function"), uid=op.uid
            )
        if not isinstance(node.source, SplitSource):
            what = f"source {node.name!r} can only be read by Spark"
            raise UnsupportedError(describe(what, node.location, "use runtime='spark'"), uid=op.uid)


class LocalRunner:
    """Executes the tasks of an epoch one after the other."""

    def __init__(self, plan: Plan, storage: Storage) -> None:
        self._plan = plan
        self._storage = storage
        self._attempts = 0

    def run_epoch(self, context: EpochContext) -> Sequence[TaskReport]:
        """Run all levels and return the reports."""
        rows: list[Envelope] = []
        for slot in range(len(context.ranges)):
            chunk = read_range(self._plan, context, slot)
            rows += run_source_task(self._plan, context, slot, self._attempt(), [chunk], [slot])
        for level in range(1, self._plan.levels):
            rows = self._run_level(context, level, rows)
        return [pickle.loads(row.blob) for row in rows if row.level == DRIVER]

    def _run_level(self, context: EpochContext, level: int, rows: Iterable[Envelope]) -> list[Envelope]:
        partitions = self._plan.partitions(level)
        by_partition: list[list[Envelope]] = [[] for _ in range(partitions)]
        for row in rows:
            by_partition[row.partition % partitions].append(row)
        produced: list[Envelope] = []
        for partition, mine in enumerate(by_partition):
            mine.sort(key=lambda row: row.order)
            produced += run_level_task(self._plan, context, level, partition, self._attempt(), mine, self._storage)
        return produced

    def _attempt(self) -> int:
        self._attempts += 1
        return self._attempts
