"""A running job as the user holds it: status, result and cancellation, whatever runtime runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from flintstream.engine.manifest import Manifest
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.savepoint_desk import SavepointDesk, kind_of
from flintstream.engine.savepoint_take import Notes
from flintstream.engine.tally import results
from flintstream.model.guarantee import Guarantee
from flintstream.model.job import CaughtUp, CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus


class RunningJob(JobClient):
    """Runs `body` (until it returns whether the input was read to its end), here or in a thread of its own."""

    def __init__(
        self,
        body: Callable[[], bool],
        stop: Callable[[], None],
        newest: Callable[[], Manifest | None],
        catch_up: CatchUp,
        guarantee: Guarantee,
        desk: SavepointDesk,
    ) -> None:
        self._id = JobID.generate()
        self._body = body
        self._stop = stop
        self._newest = newest
        self._catch_up = catch_up
        self._guarantee = guarantee
        self._desk = desk
        self._status = JobStatus.CREATED
        self._result: Future[JobExecutionResult] = Future()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Run to the end in this thread; failures are in the result, an interrupt is raised."""
        started = time.monotonic()
        self._status = JobStatus.RUNNING
        try:
            complete = self._body()
        except KeyboardInterrupt:
            self._status = JobStatus.CANCELED
            self._catch_up.ended(self._epoch, None, is_complete=False)
            self._result.set_result(self._summary(started))
            raise
        except BaseException as error:
            self._status = JobStatus.FAILED
            self._catch_up.ended(self._epoch, error, is_complete=False)
            self._result.set_exception(error)
            return
        self._status = JobStatus.FINISHED if complete else JobStatus.CANCELED
        self._catch_up.ended(self._epoch, None, complete)
        self._result.set_result(self._summary(started))

    def _summary(self, started: float) -> JobExecutionResult:
        return JobExecutionResult(self._id, int((time.monotonic() - started) * 1000), self._results())

    @property
    def _epoch(self) -> int:
        manifest = self._newest()
        return 0 if manifest is None else manifest.epoch

    def _results(self) -> dict[str, Any]:
        """Return what the manifest counts, and what only this driver knows."""
        found = results(self._newest())
        for uid, metrics in self._catch_up.metrics().items():
            found[uid] = {**found.get(uid, {}), **metrics}
        return found

    def show(self, status: JobStatus) -> None:
        """Say where the job is while it runs: between two attempts, say."""
        self._status = status

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="flintstream-job", daemon=True)
        self._thread.start()

    def get_job_id(self) -> JobID:
        return self._id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self._status)

    def cancel(self) -> CompletableFuture[None]:
        """Ask the job to end between two epochs; the future completes when it has."""
        self._stop()
        ended: Future[None] = Future()
        self._result.add_done_callback(lambda _: ended.set_result(None))
        return CompletableFuture(ended)

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, *, tags: Sequence[str] = (), comment: str = ""
    ) -> CompletableFuture[str]:
        return CompletableFuture(self._desk.ask(savepoint_directory, Notes("savepoint", tuple(tags), comment)))

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        tags: Sequence[str] = (),
        comment: str = "",
    ) -> CompletableFuture[str]:
        drain = bool(advance_to_end_of_event_time)
        notes = Notes(kind_of(stop=True, drain=drain), tuple(tags), comment)
        asked = self._desk.ask(savepoint_directory, notes, stop=True, drain=drain)
        ended: Future[str] = Future()

        def tell(done: Future[str]) -> None:
            error = done.exception()
            if error is not None:
                ended.set_exception(error)
            else:
                self._result.add_done_callback(lambda _: ended.set_result(done.result()))

        asked.add_done_callback(tell)
        return CompletableFuture(ended)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed(self._results())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return CompletableFuture(self._result)

    def caught_up(self) -> CompletableFuture[CaughtUp]:
        return CompletableFuture(self._catch_up.future)

    def guarantee(self) -> Guarantee:
        return self._guarantee

    def newest_manifest(self) -> Manifest | None:
        """Return the newest committed manifest."""
        return self._newest()
