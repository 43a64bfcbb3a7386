"""One epoch as one Spark job: levels as `mapInArrow` stages, exchanges as `repartitionById`, one `collect`."""

from __future__ import annotations

import hashlib
import math
import pickle
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from flintstream.engine.envelope import FAILED
from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.planner.plan import Plan
from flintstream.planner.ship import closes_something, pack_plan
from flintstream.spark.failures import translated
from flintstream.spark.session import configure, runtime_settings
from flintstream.spark.source_kinds import reads_frames
from flintstream.spark.stages import Stages, Word
from flintstream.spark.tasks import (
    REPORTED,
    CloseFunction,
    ExchangeFunction,
    FrameFunction,
    LevelFunction,
    PlanReference,
    RangeFunction,
)
from flintstream.state.storage import Storage

_NUMBERS = ("partition", "level", "target", "edge", "producer")
_LONG_NUMBERS = ("attempt", "watermark", "lane", "position")
ENVELOPE_SCHEMA = StructType(
    [
        *[StructField(name, IntegerType(), nullable=False) for name in _NUMBERS],
        *[StructField(name, LongType(), nullable=False) for name in _LONG_NUMBERS],
        StructField("blob", BinaryType(), nullable=False),
    ]
)

REPORT_SCHEMA = StructType([ENVELOPE_SCHEMA[name] for name in REPORTED])
CLOSING_ROUNDS = 4
BLOBS_PER_BATCH = 64
BYTES_PER_BATCH = 128 << 20
STAMP_BYTES = 64
"""What an envelope has of a record besides its fields: its timestamp, its place and its key."""


def epoch_settings(plan: Plan, row_bytes: int | None = None) -> dict[str, str]:
    """Return the settings under which an epoch is planned; `row_bytes` is the width of input rows that all have one.

    Spark packs rows into Arrow batches by number. Envelopes are large, so few of them make a batch; but where Spark's
    own rows come in, which are small, the batch is bounded by its bytes instead. Spark then measures every row, which
    takes as long as to write it. Rows of one width need no measuring: a batch of them becomes an envelope at most, so
    as many envelopes as such a batch has rows are of a size that is known, too.
    """
    settings = runtime_settings(max(op.parallelism for op in plan.operators))
    if not reads_frames(plan):
        settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(BLOBS_PER_BATCH)
    elif row_bytes is None:
        settings["spark.sql.execution.arrow.maxBytesPerBatch"] = str(BYTES_PER_BATCH)
    else:
        rows = math.isqrt(BYTES_PER_BATCH // (row_bytes + STAMP_BYTES))
        settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(max(rows, BLOBS_PER_BATCH))
    return settings


def search_path() -> tuple[str, ...]:
    """Return the driver's own search path for modules, with absolute names."""
    return tuple(str(Path(folder).resolve()) for folder in sys.path)


class BorrowedSessions:
    """Sessions under whose settings epochs are planned: the stream's own, or the user's, which is left as it was."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._before: dict[str, tuple[SparkSession, dict[str, str | None]]] = {}

    def prepare(self, session: SparkSession) -> None:
        """Set what differs, the first time a session is met."""
        # There is no public name for a session; wrappers of one session differ from batch to batch.
        java: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        name = str(java.sessionUUID())
        if name in self._before:
            return
        before = {key: session.conf.get(key, None) for key in self._settings}
        changed = {key: value for key, value in before.items() if value != self._settings[key]}
        configure(session, {key: self._settings[key] for key in changed})
        self._before[name] = (session, changed)

    def give_back(self) -> None:
        """Set everything as it was."""
        for session, changed in self._before.values():
            for key, value in changed.items():
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)
        self._before.clear()


class SparkRunner:
    """Executes epochs of one plan on one session."""

    def __init__(self, session: SparkSession, plan: Plan, storage: Storage) -> None:
        self._session = session
        self._plan = plan
        self._storage = storage
        self._sessions = BorrowedSessions(epoch_settings(plan))
        packed = pack_plan(plan)
        self._stages = Stages(session.sparkContext)
        self._partition = F.col("partition")
        digest = hashlib.sha256(packed).hexdigest()
        self.reference = PlanReference(digest, session.sparkContext.broadcast(packed), search_path())

    def expect(self, row_bytes: int | None) -> None:
        """Take in how wide the rows of the input are, None if that is not known."""
        self._sessions = BorrowedSessions(epoch_settings(self._plan, row_bytes))

    def run_ranges(self, context: EpochContext) -> Sequence[TaskReport]:
        """Run an epoch whose input is read by ranges, inside the tasks."""
        slots = len(context.ranges)
        frame = self._session.range(0, slots, 1, max(slots, 1))
        first = RangeFunction(plan=self.reference, level=0, is_last=self._plan.levels == 1)
        return self._run(frame, ["id"], Word(context), first)

    def run_frame(self, frame: DataFrame, names: Sequence[str], lone: int | None, word: Word) -> Sequence[TaskReport]:
        """Run an epoch on a DataFrame with the columns of the common shape, of these names."""
        first = FrameFunction(plan=self.reference, level=0, is_last=self._plan.levels == 1, lone=lone)
        return self._run(frame, names, word, first)

    def _run(self, frame: DataFrame, names: Sequence[str], word: Word, first: LevelFunction) -> Sequence[TaskReport]:
        with translated(self._plan):
            self._sessions.prepare(frame.sparkSession)
            self._stages.tell(word)
            rows = self._levels(frame, names, first).collect()
        for edge, blob in rows:
            if edge == FAILED:
                raise pickle.loads(bytes(blob))
        return [pickle.loads(bytes(blob)) for _, blob in rows]

    def _levels(self, frame: DataFrame, names: Sequence[str], first: LevelFunction) -> DataFrame:
        current = self._stages.add(frame, names, first, self._schema(first))
        for level in range(1, self._plan.levels):
            current = current.repartitionById(self._plan.partitions(level), self._partition)
            function = ExchangeFunction(
                plan=self.reference,
                level=level,
                is_last=level + 1 == self._plan.levels,
                storage=self._storage,
            )
            current = self._stages.add(current, ENVELOPE_SCHEMA.names, function, self._schema(function))
        return current

    @staticmethod
    def _schema(function: LevelFunction) -> StructType:
        return REPORT_SCHEMA if function.is_last else ENVELOPE_SCHEMA

    def close(self, incarnation: str) -> None:
        """Close functions that workers keep open, forget what was broadcast, and give back the sessions."""
        gone = (Py4JError, PySparkException, ConnectionError)  # then there is nothing to close any more
        with suppress(*gone):
            if closes_something(self._plan):
                self._close_functions(incarnation)
        with suppress(*gone):
            self._stages.forget()
            self._sessions.give_back()
        with suppress(*gone):
            self.reference.broadcast.destroy()

    def _close_functions(self, incarnation: str) -> None:
        """Visit the workers, since a task may have run in several of them over the epochs, and each kept its own.

        Spark takes the worker that has been idle for longest, so a few tasks for each core come by all of them.
        """
        tasks = CLOSING_ROUNDS * self._session.sparkContext.defaultParallelism
        frame = self._session.range(0, tasks, 1, tasks)
        frame.mapInArrow(CloseFunction(incarnation), "closed bigint").collect()
