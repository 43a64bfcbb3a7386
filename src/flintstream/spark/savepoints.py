"""Writing savepoints on Spark: a job of its own, with a task for each place of state, beside the epochs.

Separate from epochs because it shares nothing with them: it reads committed files and writes new ones. So no state
passes through the driver. Beside epochs it leaves half of the cores to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from flintstream.engine.savepoint_take import PlaceTask, RunTasks, WrittenPart
from flintstream.spark.epochs import search_path
from flintstream.spark.failures import translated
from flintstream.spark.tasks import extend_search_path


class WritePlace:
    """Called in a worker with a task; makes sure that the driver's modules are found there."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __call__(self, task: PlaceTask) -> list[WrittenPart]:
        extend_search_path(self._path)
        return task.run()


def run_on(session: SparkSession) -> RunTasks:
    """Return what runs the tasks of a savepoint on a session."""

    def run(tasks: Sequence[PlaceTask], beside: bool) -> Sequence[list[WrittenPart]]:
        if not tasks:
            return []
        context = session.sparkContext
        cores = context.defaultParallelism
        at_once = min(len(tasks), max(1, cores // 2 if beside else cores))
        with translated():
            return context.parallelize(list(tasks), at_once).map(WritePlace(search_path())).collect()

    return run
