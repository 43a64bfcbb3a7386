"""A running job as the user holds it: status, result and cancellation, whatever runtime runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from flintstream.engine.manifest import Manifest
from flintstream.engine.tally import results
from flintstream.model.job import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus


class RunningJob(JobClient):
    """Runs `body` (until it returns whether the input was read to its end), here or in a thread of its own."""

    def __init__(
        self, body: Callable[[], bool], stop: Callable[[], None], newest: Callable[[], Manifest | None]
    ) -> None:
        self._id = JobID.generate()
        self._body = body
        self._stop = stop
        self._newest = newest
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
            self._result.set_result(self._summary(started))
            raise
        except BaseException as error:
            self._status = JobStatus.FAILED
            self._result.set_exception(error)
            return
        self._status = JobStatus.FINISHED if complete else JobStatus.CANCELED
        self._result.set_result(self._summary(started))

    def _summary(self, started: float) -> JobExecutionResult:
        return JobExecutionResult(self._id, int((time.monotonic() - started) * 1000), results(self._newest()))

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

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed(results(self._newest()))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return CompletableFuture(self._result)

    def newest_manifest(self) -> Manifest | None:
        """Return the newest committed manifest."""
        return self._newest()
