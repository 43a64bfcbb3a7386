"""What runs inside Spark's Python workers: one object per level, called by `mapInArrow` with the task's rows.

An object holds the plan by its digest, so that a worker process unpickles a plan once and not once per epoch. A failure
in a user's function is not raised into Spark, which would try it again four times and print it four times; it travels
to the driver as a row.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from flintstream.engine.envelope import DRIVER, FAILED, Envelope, Sender, from_arrow, to_arrow
from flintstream.engine.epoch import producer_id
from flintstream.engine.spool import in_order
from flintstream.engine.task import JOBS_KEPT, close_kept, read_range, run_level_task, run_source_task
from flintstream.errors import CommitError, FlintstreamError, JobError, describe
from flintstream.planner.plan import Plan
from flintstream.spark.chunks import read_chunks
from flintstream.spark.collecting import COLLECTOR
from flintstream.spark.stages import Told, Word
from flintstream.state.storage import Storage

REPORTED = ["edge", "blob"]
_PLANS: dict[str, Plan] = {}
_print_exc = traceback.print_exc


def _print_exc_unless_spark_is_gone(*arguments: Any, **named: Any) -> None:
    """Print the exception at hand, unless it is that of a worker who finds its JVM gone: it was stopped on purpose."""
    error = sys.exception()
    caught_by = None if error is None or error.__traceback__ is None else error.__traceback__.tb_frame.f_code
    if isinstance(error, ConnectionError) and caught_by is not None and caught_by.co_filename.endswith("daemon.py"):
        return
    _print_exc(*arguments, **named)


@dataclass(frozen=True)
class PlanReference:
    """A plan that is broadcast once and unpickled once per worker process.

    `search_path` is the driver's: functions of modules beside the user's program are found in the workers too.
    """

    digest: str
    broadcast: Any
    search_path: tuple[str, ...] = ()

    def get(self) -> Plan:
        """Return the plan."""
        plan = _PLANS.get(self.digest)
        if plan is None:
            while len(_PLANS) >= JOBS_KEPT:
                del _PLANS[next(iter(_PLANS))]
            extend_search_path(self.search_path)
            plan = _PLANS[self.digest] = pickle.loads(self.broadcast.value)
            traceback.print_exc = _print_exc_unless_spark_is_gone
        return plan


def extend_search_path(path: tuple[str, ...]) -> None:
    """Let modules be found here that the driver finds."""
    sys.path += [folder for folder in path if folder not in sys.path]


class UpstreamFailedError(Exception):
    """A task before this one could not go on; holds its row."""

    def __init__(self, row: Envelope) -> None:
        super().__init__()
        self.row = row


class Task(NamedTuple):
    """What a function knows of the task that it runs in."""

    plan: Plan
    word: Word
    partition: int
    attempt: int


@dataclass(frozen=True, kw_only=True)
class LevelFunction(Told):
    """Runs one level; subclasses say where its rows come from. Of the last level's rows only the driver is told."""

    plan: PlanReference
    is_last: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark once per task."""
        with COLLECTOR.at_rest():
            yield from self._run(iter(batches))

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        partition, attempt = task.partitionId(), task.taskAttemptId()
        plan = self.plan.get()
        following = 1 if self.is_last else plan.partitions(self.level + 1)
        try:
            rows = self.rows(Task(plan, self.hear(), partition, attempt), batches)
            yield from self._sent(row._replace(partition=row.partition % following) for row in rows)
        except UpstreamFailedError as failed:
            yield from self._sent(failed.row._replace(partition=target) for target in range(following))
        except Exception as error:
            told = error if isinstance(error, FlintstreamError) else unexpected(error)
            sender = Sender(producer_id(self.level, partition), attempt)
            yield from self._sent(sender.failure(target, told) for target in range(following))
        for _ in batches:
            pass  # Spark wants its rows read to the end

    def _sent(self, rows: Iterable[Envelope]) -> Iterator[pa.RecordBatch]:
        batches = to_arrow(rows)
        return (batch.select(REPORTED) for batch in batches) if self.is_last else batches

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[Envelope]:
        """Run the task."""
        raise NotImplementedError


def unexpected(error: Exception) -> JobError:
    """Wrap a failure that is not the user's function's and not one we know."""
    if isinstance(error, OSError):
        what = f"a task could not read or write its files ({error})"
        return CommitError(describe(what, None, "free space or mend the directory; nothing is lost"))
    wrapped = JobError(f"a task failed: {type(error).__name__}: {error}")
    wrapped.add_note("".join(traceback.format_exception(error)))
    return wrapped


@dataclass(frozen=True)
class CloseFunction:
    """Closes what a worker process keeps open for a job that has ended."""

    incarnation: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark once per task."""
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"closed": pa.array([close_kept(self.incarnation)], pa.int64())})


@dataclass(frozen=True, kw_only=True)
class RangeFunction(LevelFunction):
    """Level 0 of a job whose sources are read by ranges: a row is the number of a range."""

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[Envelope]:
        slots = [slot for batch in batches for slot in batch.column(0).to_pylist()]
        chunks = (read_range(task.plan, task.word.epoch, slot) for slot in slots)
        yield from run_source_task(task.plan, task.word.epoch, task.partition, task.attempt, chunks, slots)


@dataclass(frozen=True, kw_only=True)
class FrameFunction(LevelFunction):
    """Level 0 of a job that reads DataFrames: rows are records with their source and place, or all of a `lone` one."""

    lone: int | None = None

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[Envelope]:
        slots: list[int] = []
        chunks = read_chunks(task.plan, task.word, task.partition, batches, slots, self.lone)
        yield from run_source_task(task.plan, task.word.epoch, task.partition, task.attempt, chunks, slots)


@dataclass(frozen=True, kw_only=True)
class ExchangeFunction(LevelFunction):
    """A level behind an exchange: rows are envelopes."""

    storage: Storage

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[Envelope]:
        received = in_order(self._checked(from_arrow(batches)))
        epoch, partition, attempt = task.word.epoch, task.partition, task.attempt
        yield from run_level_task(task.plan, epoch, self.level, partition, attempt, received, self.storage)

    @staticmethod
    def _checked(rows: Iterable[Envelope]) -> Iterator[Envelope]:
        for row in rows:
            if row.edge == FAILED:
                raise UpstreamFailedError(row)
            if row.level == DRIVER:
                row = row._replace(blob=bytes(row.blob))
            yield row
