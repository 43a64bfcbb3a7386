"""Runs one task of one epoch: restore, process, write state, report. Both runtimes call these two functions.

Opened levels are kept in this module between epochs (PySpark reuses worker processes), each under the token of the
attempt that last used it: whoever finds a level here takes it out, brings it forward by what other processes committed
since, and puts it back only when its own epoch ran to the end. A failed attempt leaves nothing behind.
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Iterable, Iterator

import numpy as np

from flintstream.engine.envelope import DRIVER, Envelope
from flintstream.engine.epoch import EpochContext, ReadRange, TaskReport
from flintstream.engine.guarded import guarded
from flintstream.engine.level import LevelTask, SourceChunk
from flintstream.engine.measures import this_worker
from flintstream.engine.partition import PartitionState
from flintstream.engine.query_staged import leave_note
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import LogSource, SplitSource, TimedRecords
from flintstream.ops.batch import Values
from flintstream.planner.plan import Plan, PlannedOperator
from flintstream.state.classes import adopt_classes
from flintstream.state.codec import kind_of_arrow
from flintstream.state.local_folder import remove_job
from flintstream.state.storage import Storage
from flintstream.state.trust import adopt_modules, judge_until

READ_BATCH = 1 << 18
JOBS_KEPT = 4
"""How many jobs' operators a worker process keeps open; jobs that have ended fall out."""
_OPENED: dict[tuple[str, int, int], LevelTask] = {}


def run_source_task(
    plan: Plan, epoch: EpochContext, partition: int, attempt: int, chunks: Iterable[SourceChunk], slots: list[int]
) -> Iterator[Envelope]:
    """Run a task of level 0 over the chunks it was given; `slots` are the ranges among them, to be reported."""
    task = _take(plan, epoch, 0, partition)
    started = time.perf_counter()
    try:
        task.open(epoch)
        report = task.begin(epoch, attempt, new_token(epoch, attempt))
        yield from task.read_sources(epoch, chunks, report)
        report.ranges = list(slots)
        yield from task.finish(epoch, report, started)
        report.worker = this_worker() if epoch.measures else None
        yield _to_driver(task, report)
    except BaseException:
        task.abort()
        raise
    _put_back(plan, epoch, task)


def run_level_task(
    plan: Plan,
    epoch: EpochContext,
    level: int,
    partition: int,
    attempt: int,
    rows: Iterable[Envelope],
    storage: Storage,
) -> Iterator[Envelope]:
    """Run a task behind an exchange."""
    task = _take(plan, epoch, level, partition)
    started = time.perf_counter()
    token = new_token(epoch, attempt)
    state = PartitionState(task.backends(), epoch, (level, partition), token, storage)
    done = False
    collecting = gc.isenabled()
    gc.disable()  # a run makes millions of small tuples and no cycles; the collector would walk them again and again
    try:
        with task.locating():
            state.bring_forward(task.epoch_done, task.token)
        task.after_run = state.relieve
        task.open(epoch)
        report = task.begin(epoch, attempt, token)
        yield from task.run_inbox(epoch, rows, report)
        yield from task.finish(epoch, report, started)
        # A batch job is one epoch and keeps no state: if it fails, it runs again from its input.
        written = time.perf_counter()
        if not plan.batch_mode:
            report.state = state.write(report.entries)
            report.shared = state.write_shared()
            nodes = {place.planned.uid: node for node, place in task.places.items()}
            leave_note(epoch, report, task.backends(), storage, nodes)
        report.busy_seconds = time.perf_counter() - started
        report.checkpoint_seconds = time.perf_counter() - written
        report.worker = this_worker() if epoch.measures else None
        task.epoch_done, task.token = epoch.epoch, token
        yield _to_driver(task, report)
        done = True
    except BaseException:
        task.abort()
        raise
    finally:
        state.close(remove=done and epoch.is_final)
        if collecting:
            gc.enable()
    _put_back(plan, epoch, task)


def new_token(epoch: EpochContext, attempt: int) -> str:
    """Return a name that no other attempt has."""
    return f"{epoch.epoch}-{attempt}-{uuid.uuid4().hex[:8]}"


def _to_driver(task: LevelTask, report: TaskReport) -> Envelope:
    row = task.sender.control(DRIVER, 0, report)
    return row._replace(partition=0)


def _take(plan: Plan, epoch: EpochContext, level: int, partition: int) -> LevelTask:
    adopt_classes(plan.classes)
    adopt_modules(plan.modules)
    judge_until(epoch.judged, epoch.trusts)
    found = _OPENED.pop((epoch.incarnation, level, partition), None)
    if found is not None and found.plan is not plan:
        # The job was started again with other code.
        found.abort()
        found = None
    return found or LevelTask(plan, level, partition)


def _put_back(plan: Plan, epoch: EpochContext, task: LevelTask) -> None:
    if not epoch.is_final:
        _OPENED[epoch.incarnation, task.level, task.partition] = task
        jobs = list(dict.fromkeys(key[0] for key in _OPENED))
        for other in [job for job in jobs if job != epoch.incarnation][: max(0, len(jobs) - JOBS_KEPT)]:
            forget(other)


def forget(incarnation: str) -> None:
    """Close and drop everything kept for a job in this process, and its working stores."""
    close_kept(incarnation)
    remove_job(incarnation)


def close_kept(incarnation: str) -> int:
    """Close and drop all operators that are kept for a job in this process; return how many levels that were."""
    mine = [key for key in _OPENED if key[0] == incarnation]
    for key in mine:
        _OPENED.pop(key).abort()
    return len(mine)


def read_range(plan: Plan, epoch: EpochContext, slot: int) -> SourceChunk:
    """Return the chunk of one of the epoch's ranges."""
    piece = epoch.ranges[slot]
    node = plan.operator(piece.source).node
    assert isinstance(node, SourceNode) and isinstance(node.source, SplitSource)
    return SourceChunk(
        piece.source,
        piece.split,
        (piece.start,),
        _read(plan.operator(piece.source), node.source, piece),
        piece.last,
        True,
    )


def _read(planned: PlannedOperator, source: SplitSource, piece: ReadRange) -> Iterator[Values]:
    for begin in range(piece.start, piece.end, READ_BATCH):
        end = min(begin + READ_BATCH, piece.end)
        if isinstance(source, LogSource):
            # What makes records of a log's bytes may be the user's.
            with guarded(planned):
                policy = planned.node.on_error if isinstance(planned.node, SourceNode) else None
                if policy is not None and policy.errors and source.is_lenient:
                    data = source.read_part_leniently(piece.name, begin, end, policy.errors)
                else:
                    data = source.read_part(piece.name, begin, end)
        else:
            data = source.read(piece.split, begin, end)
        timestamps = None
        if isinstance(data, TimedRecords):
            data, timestamps = data.records, np.asarray(data.timestamps, np.int64)
        values = Values(data) if isinstance(data, list) else Values(None, data, kind_of_arrow(data.type))
        values.timestamps = timestamps
        yield values
