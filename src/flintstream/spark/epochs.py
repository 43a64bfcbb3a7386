"""One epoch as one Spark job: levels as `mapInArrow` stages, exchanges as `repartitionById`, one `collect`."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flintstream.engine.envelope import FAILED
from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.planner.plan import Plan
from flintstream.planner.ship import pack_plan
from flintstream.spark.failures import translated
from flintstream.spark.tasks import ExchangeFunction, LevelFunction, PlanReference, RangeFunction
from flintstream.state.storage import Storage

ENVELOPE_DDL = (
    "partition int not null, level int not null, target int not null, edge int not null, producer int not null, "
    "attempt bigint not null, watermark bigint not null, lane bigint not null, position bigint not null, "
    "blob binary not null"
)


class SparkRunner:
    """Executes epochs of one plan on one session."""

    def __init__(self, session: SparkSession, plan: Plan, storage: Storage) -> None:
        self._session = session
        self._plan = plan
        self._storage = storage
        packed = pack_plan(plan)
        digest = hashlib.sha256(packed).hexdigest()
        self.reference = PlanReference(digest, session.sparkContext.broadcast(packed))

    def run_ranges(self, context: EpochContext) -> Sequence[TaskReport]:
        """Run an epoch whose input is read by ranges, inside the tasks."""
        slots = len(context.ranges)
        frame = self._session.range(0, slots, 1, max(slots, 1))
        return self.run_frame(frame, context, RangeFunction(self.reference, context, 0))

    def run_frame(self, frame: DataFrame, context: EpochContext, first: LevelFunction) -> Sequence[TaskReport]:
        """Run an epoch on a DataFrame, whose rows `first` understands."""
        with translated(self._plan):
            rows = self._levels(frame, context, first).select("edge", "blob").collect()
        for edge, blob in rows:
            if edge == FAILED:
                raise pickle.loads(bytes(blob))
        return [pickle.loads(bytes(blob)) for _, blob in rows]

    def _levels(self, frame: DataFrame, context: EpochContext, first: Callable[..., Any]) -> DataFrame:
        current = frame.mapInArrow(first, ENVELOPE_DDL)
        for level in range(1, self._plan.levels):
            current = current.repartitionById(self._plan.partitions(level), F.col("partition")).sortWithinPartitions(
                F.col("edge") > 0, "watermark", "lane", "position"
            )
            function = ExchangeFunction(self.reference, context, level, self._storage)
            current = current.mapInArrow(function, ENVELOPE_DDL)
        return current

    def close(self) -> None:
        """Forget what was broadcast."""
        self.reference.broadcast.destroy()
