"""Starts a plan on Spark: the session, the checkpoint directory, and the loop that fits its sources."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from flintstream.engine.coordinator import Coordinator
from flintstream.engine.job import RunningJob
from flintstream.engine.loop import EpochLoop
from flintstream.engine.options import JobOptions
from flintstream.engine.progress import listener_of
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.report_files import asked_for, watch_of
from flintstream.engine.restart import Attempt, start_job
from flintstream.engine.savepoint_desk import SavepointDesk
from flintstream.errors import EnvironmentSetupError, describe
from flintstream.planner.plan import Plan
from flintstream.spark.epochs import SparkRunner
from flintstream.spark.failures import check_alive, translated
from flintstream.spark.host import host_of
from flintstream.spark.query import QueryLoop
from flintstream.spark.savepoints import run_on
from flintstream.spark.session import check_session, configure, create_session, runtime_settings
from flintstream.spark.source_kinds import reads_frames
from flintstream.state.storage_remote import storage_at


def submit(plan: Plan, options: JobOptions, background: bool = True) -> RunningJob:
    """Start a job on Spark; with `background` in a thread, else it has ended when this returns."""
    asked_for()  # before there is a JVM, and workers, that would be told too
    session = session_for(plan, options)
    folder = checkpoint_folder(session, options)
    storage = storage_at(folder, options.storage_options, durable=options.checkpoint_dir is not None)
    storage.check()
    catch_up = CatchUp(plan, options.progress)
    desk, watch = SavepointDesk(storage, options, run_on(session)), watch_of(plan, options, host_of(session))

    def make() -> Attempt:
        check_alive(session)
        coordinator = Coordinator(
            plan, storage, options.retained, options.drop_orphans, options.start_from, options.trust_state
        )
        with translated(plan):
            runner = SparkRunner(session, plan, storage)
        loop = EpochLoop(coordinator, options, runner.run_ranges, listener_of(plan, options), catch_up, desk, watch)
        run = loop.run
        if reads_frames(plan):
            query = QueryLoop(session, plan, options, coordinator, runner, loop, folder)
            loop.use(query.run_epoch_tasks)
            run = query.run
        return Attempt(coordinator, loop, run, lambda: runner.close(coordinator.incarnation))

    def tidy_up() -> None:
        if options.checkpoint_dir is None:
            shutil.rmtree(folder, ignore_errors=True)

    return start_job(make, plan, storage, options, catch_up, desk, watch, background=background, at_end=tidy_up)


def session_for(plan: Plan, options: JobOptions) -> SparkSession:
    """Return the user's session, checked, or our own."""
    width = max(op.parallelism for op in plan.operators)
    if options.session is None:
        extra = dict(options.spark_settings)
        if options.master is not None:
            extra["spark.master"] = options.master
        return create_session(width, plan.name, extra)
    check_session(options.session)
    session: SparkSession = options.session.newSession()
    configure(session, runtime_settings(width))
    return session


def checkpoint_folder(session: SparkSession, options: JobOptions) -> str:
    """Return the directory of the job's state; on a cluster it must be one that all machines share."""
    if options.checkpoint_dir is not None:
        return options.checkpoint_dir
    master = str(session.sparkContext.master)
    if not master.startswith("local"):
        what = f"no checkpoint directory is set, and Spark runs on {master}"
        remedy = "set_checkpoint_dir(...) to a directory that the driver and all executors reach"
        raise EnvironmentSetupError(describe(what, None, remedy))
    return str(Path(tempfile.mkdtemp(prefix="flintstream-")))
