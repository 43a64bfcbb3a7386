"""The runtime on which transcripts run on Spark: the one session of the test run, and the same tasks as in production.

It stands apart so that the in-process tests need not import Spark.
"""

from __future__ import annotations

from typing import Any

from flintstream.engine.loop import RunEpoch
from flintstream.engine.options import JobOptions
from flintstream.planner.plan import Plan
from flintstream.spark.epochs import SparkRunner
from flintstream.spark.submit import session_for
from flintstream.state.storage import Storage
from tests.spec.job import Runtime


class OnSpark(Runtime):
    """Runs epochs as Spark jobs."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session
        self._runner: SparkRunner | None = None

    def start(self, plan: Plan, storage: Storage) -> RunEpoch:
        session = session_for(plan, JobOptions(session=self._session))
        self._runner = SparkRunner(session, plan, storage)
        return self._runner.run_ranges

    def stop(self, incarnation: str) -> None:
        if self._runner is not None:
            self._runner.close(incarnation)
            self._runner = None
