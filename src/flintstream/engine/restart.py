"""A job as a series of attempts: one that fails is followed by another, as long as the restart strategy says so.

An attempt has a coordinator and a loop of its own and begins at the newest manifest, so it is the same as a new start
of the program, without the price of one. What outlives attempts is here: the lease, the count of failures, and whoever
asked the job to stop. Apart from the job's handle, because a supervisor's count goes into the same decision.

Flink: ExecutionFailureHandler with its RestartBackoffTimeStrategy; `may_pass` denies a SuppressRestartsException.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from flintstream.engine.coordinator import Coordinator
from flintstream.engine.damage import with_intact
from flintstream.engine.job import RunningJob
from flintstream.engine.lease import Lease, acquire
from flintstream.engine.loop import EpochLoop
from flintstream.engine.manifest import Manifest
from flintstream.engine.notebook import is_notebook
from flintstream.engine.options import JobOptions
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.report import JobWatch
from flintstream.engine.restart_log import RestartLog, of_this_process
from flintstream.engine.savepoint_desk import SavepointDesk
from flintstream.errors import (
    CorruptStateError,
    DefinitionError,
    EnvironmentSetupError,
    FencedError,
    LeaseError,
    LostRuntimeError,
    PlanError,
    StateError,
    describe,
)
from flintstream.model.job import JobStatus
from flintstream.model.restart import NoRestart, RestartStrategyConfiguration, resumed
from flintstream.model.time import format_millis
from flintstream.planner.guarantee import guarantee_of
from flintstream.planner.plan import Plan
from flintstream.state.storage import Storage

_LASTING = (DefinitionError, PlanError, StateError, EnvironmentSetupError, FencedError, LeaseError)
_LOG = logging.getLogger("flintstream")


def may_pass(error: BaseException) -> bool:
    """Whether a failure might not come again if the program is started once more; a wrong program's would."""
    return isinstance(error, Exception) and not isinstance(error, _LASTING)


def now_ms() -> int:
    """Return the time of day, by which failures in several processes can be counted together."""
    return int(time.time() * 1000)


@dataclass
class Attempt:
    """One start of a job: `run` goes on from the coordinator's manifest, `close` gives back what it holds."""

    coordinator: Coordinator
    loop: EpochLoop
    run: Callable[[], bool]
    close: Callable[[], None]


class Attempts:
    """Makes attempts and runs them, one after the other.

    The first one is made at once, so that a program which cannot begin fails where it is submitted.
    """

    def __init__(
        self,
        make: Callable[[], Attempt],
        storage: Storage,
        strategy: RestartStrategyConfiguration | None,
        lease: Lease | None = None,
        log: RestartLog | None = None,
    ) -> None:
        self._make = make
        self._storage = storage
        self._lease = lease
        self._log = of_this_process() if log is None else log
        if strategy is not None:
            self._log.declare(strategy)
        self._strategy = self._log.strategy() or strategy or NoRestart()
        self._backoff = resumed(self._strategy, self._log.failures())
        self._stop = threading.Event()
        self._restarts = 0
        self._failed_to_begin: Exception | None = None
        self.on_status: Callable[[JobStatus], None] = lambda status: None
        self.on_begin: Callable[[Manifest | None], None] = lambda manifest: None
        self.on_failure: Callable[[Exception, bool], None] = lambda error, restarts: None
        self.current: Attempt | None = None
        if lease is not None:
            lease.call_on_loss(self._stop_current)
        try:
            self._begin()
        except BaseException as error:
            if isinstance(self._strategy, NoRestart) or not may_pass(error) or not isinstance(error, Exception):
                self._release()
                raise self._explained(error) from error.__cause__
            self._failed_to_begin = error

    def _begin(self) -> Attempt:
        before, self.current = self.current, self._make()
        if before is not None:
            self.current.coordinator.take_over(before.coordinator)
        return self.current

    def stop(self) -> None:
        """Ask for an end between two epochs, or between two attempts."""
        self._stop.set()
        self._stop_current()

    def _stop_current(self) -> None:
        if self.current is not None:
            self.current.loop.stop()

    def newest(self) -> Manifest | None:
        """Return the newest committed manifest."""
        return None if self.current is None else self.current.coordinator.manifest

    def run(self) -> bool:
        """Run until the end; return whether the input was read to its end."""
        try:
            while True:
                try:
                    return self._run_once()
                except Exception as error:
                    wait_ms = self._wait_after(error)
                    self.on_failure(error, wait_ms is not None)
                    if wait_ms is None:
                        raise self._explained(error) from error.__cause__
                self.on_status(JobStatus.RESTARTING)
                if self._stop.wait(wait_ms / 1000):
                    return False
                self.on_status(JobStatus.RUNNING)
        finally:
            self._release()

    def _run_once(self) -> bool:
        error, self._failed_to_begin = self._failed_to_begin, None
        if error is not None:
            raise error
        attempt = self.current if self.current is not None and not self._restarts else self._begin()
        if self._stop.is_set():
            # Asked for before there was a loop to stop.
            attempt.loop.stop()
        try:
            self.on_begin(attempt.coordinator.recover())
            complete = attempt.run()
            attempt.coordinator.settle()
        finally:
            attempt.close()
        if not complete and self._lease is not None and self._lease.is_lost and not self._stop.is_set():
            what = f"another driver has taken over job {attempt.coordinator.plan.name!r}"
            raise FencedError(describe(what, None, "let that one go on, or stop it and start this one again"))
        return complete

    def _wait_after(self, error: Exception) -> int | None:
        """Return how long to wait before the next attempt; None if there is none."""
        if self._stop.is_set() or isinstance(error, LostRuntimeError) or not may_pass(error):
            return None
        moment = now_ms()
        self._log.failed(moment)
        wait_ms = self._backoff.failed(moment)
        if wait_ms is None:
            if not isinstance(self._strategy, NoRestart):
                error.add_note(f"no further restart by {self._strategy.get_description()}")
            self._log.gave_up(error)
            return None
        self._restarts += 1
        newest = self.newest()
        behind = "from its beginning" if newest is None else f"behind epoch {newest.epoch}"
        _LOG.warning("the job failed (%s); restart %d %s in %s", error, self._restarts, behind, format_millis(wait_ms))
        return wait_ms

    def _explained(self, error: BaseException) -> BaseException:
        return with_intact(error, self._storage) if isinstance(error, CorruptStateError) else error

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()


def start_job(
    make: Callable[[], Attempt],
    plan: Plan,
    storage: Storage,
    options: JobOptions,
    catch_up: CatchUp,
    desk: SavepointDesk,
    watch: JobWatch,
    *,
    background: bool,
    at_end: Callable[[], None] = lambda: None,
) -> RunningJob:
    """Run a job's attempts: with `background` in a thread, else it has ended when this returns."""
    try:
        lease = None
        if options.checkpoint_dir is not None:
            where = options.checkpoint_dir
            lease = acquire(storage, plan.name, where, options.lease_ms, options.tolerable_failures)
        attempts = Attempts(make, storage, options.restart, lease)
    except BaseException as error:
        watch.failed(error, restarted=False)
        watch.show(JobStatus.FAILED)
        watch.close()
        at_end()
        raise

    def body() -> bool:
        try:
            return attempts.run()
        finally:
            desk.close()
            at_end()

    if plan.batch_mode:
        desk.refuse("a job in BATCH mode keeps no state; use RuntimeExecutionMode.STREAMING")
    promise = guarantee_of(plan, options.checkpoint_dir)
    job = RunningJob(body, attempts.stop, attempts.newest, catch_up, promise, desk, plan, watch)
    attempts.on_status, attempts.on_begin = job.show, watch.begin_attempt
    attempts.on_failure = lambda error, restarts: watch.failed(error, restarted=restarts)
    view = job.show_in_notebook() if options.progress and is_notebook() else None
    if background:
        job.start()
    else:
        job.run()
        if view is not None:
            # Its last word belongs into the cell that waited for the job.
            view.join()
    return job
