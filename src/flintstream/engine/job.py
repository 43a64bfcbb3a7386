"""A running job as the user holds it: status, result and cancellation, whatever runtime runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any

from flintstream.engine.manifest import Manifest
from flintstream.engine.notebook import LiveView, NotebookScreen, at_rest, is_notebook, page_of
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.report import JobWatch
from flintstream.engine.savepoint_desk import SavepointDesk, kind_of
from flintstream.engine.savepoint_take import Notes
from flintstream.engine.tally import results
from flintstream.model.guarantee import Guarantee
from flintstream.model.job import CaughtUp, CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from flintstream.model.job_graph import JobGraph
from flintstream.planner.picture import graph_of
from flintstream.planner.plan import Plan


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
        plan: Plan,
        watch: JobWatch,
    ) -> None:
        self._id = JobID.generate()
        self._body = body
        self._stop = stop
        self._newest = newest
        self._catch_up = catch_up
        self._guarantee = guarantee
        self._desk = desk
        self._plan = plan
        self._watch = watch
        self._status = JobStatus.CREATED
        self._result: Future[JobExecutionResult] = Future()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Run to the end in this thread; failures are in the result, an interrupt is raised."""
        started = time.monotonic()
        self.show(JobStatus.RUNNING)
        try:
            complete = self._body()
        except KeyboardInterrupt:
            self._end(JobStatus.CANCELED)
            self._catch_up.ended(self._epoch, None, is_complete=False)
            self._result.set_result(self._summary(started))
            raise
        except BaseException as error:
            self._end(JobStatus.FAILED)
            self._catch_up.ended(self._epoch, error, is_complete=False)
            self._result.set_exception(error)
            return
        self._end(JobStatus.FINISHED if complete else JobStatus.CANCELED)
        self._catch_up.ended(self._epoch, None, complete)
        self._result.set_result(self._summary(started))

    def _end(self, status: JobStatus) -> None:
        """Say how the job ended; its report is complete before anyone hears of the result."""
        self.show(status)
        self._watch.close()

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
        self._watch.show(status)

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

    def metrics(self) -> dict[str, Any]:
        return self._watch.status()

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return CompletableFuture(self._result)

    def caught_up(self) -> CompletableFuture[CaughtUp]:
        return CompletableFuture(self._catch_up.future)

    def guarantee(self) -> Guarantee:
        return self._guarantee

    def graph(self) -> JobGraph:
        return graph_of(self._plan, at_rest(self._look()))

    def _look(self) -> dict[str, Any]:
        return self._watch.status()

    def __repr__(self) -> str:
        return f"<job {self._plan.name!r}, {self._id}: {self._status.name} behind epoch {self._epoch}>"

    def _repr_html_(self) -> str:
        return page_of(self._plan, self._look())

    def _ipython_display_(self) -> None:
        """Called by IPython for a job that is the value of a cell: show it there until it ends."""
        if not is_notebook():
            # IPython's way to hear that there is nothing special to show.
            raise NotImplementedError
        self.show_in_notebook()

    def show_in_notebook(self) -> threading.Thread:
        """Show the job in the cell at hand until it ends; return the thread that does."""
        return LiveView(NotebookScreen(), self._repr_html_, self._wait_for_end).start()

    def _wait_for_end(self, seconds: float) -> bool:
        wait([self._result], timeout=seconds)
        return self._result.done()

    def newest_manifest(self) -> Manifest | None:
        """Return the newest committed manifest."""
        return self._newest()
