"""Spark as a world for crashes. It stands apart so that tests without Spark need not import it."""

from __future__ import annotations

from typing import Any

from flintstream.engine.loop import RunEpoch
from flintstream.engine.options import JobOptions
from flintstream.planner.plan import Plan
from flintstream.spark.epochs import SparkRunner
from flintstream.spark.submit import session_for
from flintstream.state.storage import Storage
from tests.faults.lives import World
from tests.faults.points import Points


class OnSpark(World):
    """Epochs as Spark jobs on one session."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session
        self._runner: SparkRunner | None = None

    def start(self, plan: Plan, storage: Storage, points: Points) -> RunEpoch:
        self._runner = SparkRunner(session_for(plan, JobOptions(session=self._session)), plan, storage)
        return self._runner.run_ranges

    def end(self, incarnation: str, died: bool) -> None:
        if self._runner is not None:
            self._runner.close(incarnation)
            self._runner = None
