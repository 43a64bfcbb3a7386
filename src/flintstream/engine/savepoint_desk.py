"""Where savepoints of a running job are asked for, and made while the job goes on.

Epochs never wait for a savepoint: between two of them the newest manifest is pinned, so that nothing it names is
deleted, and a thread of its own writes it out. Only a stop waits, since nothing comes after it. One desk serves a job
for as long as it runs, however often it is started again. A savepoint that fails is the failure of whoever asked.

Flink: CheckpointCoordinator.triggerSavepoint and StopWithSavepointTerminationManager.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from flintstream.engine import requests
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.savepoint_format import savepoint_storage
from flintstream.engine.savepoint_take import (
    Notes,
    RunTasks,
    folder_name,
    new_id,
    run_here,
    spark_files,
    write_savepoint,
)
from flintstream.errors import FlintstreamError, InvalidArgumentError, SavepointError, describe
from flintstream.state.storage import Storage

LOOK_EVERY = 0.3
"""Seconds between two looks for requests of other processes."""
_LOG = logging.getLogger("flintstream")


def _new_future() -> Future[str]:
    return Future()


@dataclass(eq=False)
class Ask:
    """A savepoint that someone waits for; with `stop` the job ends with it, with `drain` event time does before."""

    directory: str
    notes: Notes
    stop: bool = False
    drain: bool = False
    answer: Future[str] = field(default_factory=_new_future)


class SavepointDesk:
    """Serves one job, whose checkpoint directory is `storage`; `run` runs the tasks that write a savepoint."""

    def __init__(self, storage: Storage, options: JobOptions | None = None, run: RunTasks = run_here) -> None:
        chosen = options or JobOptions()
        takes_requests = chosen.checkpoint_dir is not None
        self._storage = storage
        self._directory = chosen.savepoint_dir
        self._options = chosen.storage_options
        self._refusal: str | None = None
        self._run = run
        self._asked: list[Ask] = []
        self._stop: Ask | None = None
        self._cancelled = False
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._takes_requests = takes_requests
        self._looked = 0.0
        for stale in requests.begin(storage) if takes_requests else ():
            requests.answer(storage, stale.id, error="the job was started after this was asked")

    def refuse(self, why: str) -> None:
        """Refuse whatever is asked from now on."""
        self._refusal = why

    def ask(self, directory: str | None, notes: Notes, stop: bool = False, drain: bool = False) -> Future[str]:
        """Ask for a savepoint at the end of the epoch at hand; the answer is its path."""
        if self._refusal is not None:
            raise SavepointError(describe("there are no savepoints of this job", None, self._refusal))
        where = directory or self._directory
        if where is None:
            remedy = "name one, or set 'execution.checkpointing.savepoint-dir'"
            raise InvalidArgumentError(describe("there is no directory for savepoints", None, remedy))
        asked = Ask(str(where), notes, stop, drain)
        with self._lock:
            if self._is_closed or self._stop is not None:
                what = "the job has ended" if self._is_closed else "the job is being stopped with a savepoint already"
                asked.answer.set_exception(SavepointError(describe(what, None, "take it of its checkpoint directory")))
            elif stop:
                self._stop = asked
            else:
                self._asked.append(asked)
        return asked.answer

    @property
    def has_work(self) -> bool:
        """Whether someone waits for a savepoint."""
        return bool(self._asked) or self._stop is not None

    @property
    def wants_stop(self) -> bool:
        """Whether the job is to end with a savepoint, or to be cancelled."""
        return self._stop is not None or self._cancelled

    def attend(self, coordinator: Coordinator) -> None:
        """Called between two epochs, or beside them: begin what was asked, of the newest manifest that is published."""
        self._look()
        while self._asked and coordinator.committed is not None:
            manifest = coordinator.committed
            # Beside an epoch that is being committed, the one before may be deleted at this moment.
            if coordinator.garbage.pin(manifest):
                with self._lock:
                    asked = self._asked.pop(0)
                self._begin(asked, coordinator, manifest)

    def conclude(self, coordinator: Coordinator, drain: Callable[[], None]) -> bool:
        """Called between two epochs if a stop is wanted: return whether the job ends now.

        A job whose savepoint cannot be written goes on, unless its event time has come to its end.
        """
        self.attend(coordinator)
        stop = self._stop
        if stop is None:
            return self._cancelled
        if stop.drain:
            drain()
        manifest = coordinator.committed
        is_pinned = manifest is not None and coordinator.garbage.pin(manifest)
        assert manifest is not None and is_pinned
        self._write(stop, coordinator, manifest, self._files_of_spark(manifest, stop))
        with self._lock:
            self._stop = None
        return stop.drain or stop.answer.exception() is None

    @property
    def is_cancelled(self) -> bool:
        """Whether another process has cancelled the job."""
        return self._cancelled

    def _begin(self, asked: Ask, coordinator: Coordinator, manifest: Manifest) -> None:
        extra = self._files_of_spark(manifest, asked)
        thread = threading.Thread(
            target=self._write, args=(asked, coordinator, manifest, extra), name="flintstream-savepoint", daemon=True
        )
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _files_of_spark(self, manifest: Manifest, asked: Ask) -> dict[str, bytes]:
        try:
            return spark_files(self._storage, manifest)
        except (OSError, FlintstreamError) as error:
            asked.answer.set_exception(SavepointError(f"Spark's own checkpoint cannot be read ({error})"))
            return {}

    def _write(self, asked: Ask, coordinator: Coordinator, manifest: Manifest, extra: dict[str, bytes]) -> None:
        started = time.monotonic()
        try:
            if asked.answer.done():
                return
            savepoint_id = new_id()
            path = f"{asked.directory.rstrip('/')}/{folder_name(manifest.incarnation, savepoint_id)}"
            target = savepoint_storage(path, self._options)
            document = write_savepoint(
                self._storage, manifest, target, asked.notes, self._run, extra, savepoint_id, beside=not asked.stop
            )
        except Exception as error:  # whatever it is, the job goes on and whoever asked is told
            _LOG.warning("a savepoint of job %r could not be taken: %s", manifest.job, error)
            asked.answer.set_exception(_told(error))
        else:
            seconds = time.monotonic() - started
            told = f"{document.rows:,} rows in {seconds:.1f} s"
            _LOG.info("savepoint of job %r after epoch %s: %s (%s)", manifest.job, manifest.epoch, path, told)
            asked.answer.set_result(path)
        finally:
            coordinator.garbage.release(manifest)

    def _look(self) -> None:
        """Take in what other processes ask."""
        now = time.monotonic()
        if not self._takes_requests or now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        try:
            found = requests.pending(self._storage)
        except OSError as error:
            _LOG.warning("requests cannot be read: %s", error)
            return
        for each in found:
            self._serve(each)

    def _serve(self, request: requests.Request) -> None:
        if request.kind == requests.CANCEL:
            self._cancelled = True
            requests.answer(self._storage, request.id)
            return
        stop = request.kind == requests.STOP
        notes = Notes(kind_of(stop, request.drain), request.tags, request.comment)
        try:
            future = self.ask(request.savepoint_directory, notes, stop, request.drain)
        except FlintstreamError as error:
            requests.answer(self._storage, request.id, error=str(error))
            return

        def tell(done: Future[str]) -> None:
            error = done.exception()
            if error is None:
                requests.answer(self._storage, request.id, path=done.result())
            else:
                requests.answer(self._storage, request.id, error=str(error))

        future.add_done_callback(tell)

    def close(self) -> None:
        """The job is over: let savepoints be written that have begun, and refuse the others."""
        with self._lock:
            self._is_closed = True
            left = [*self._asked, *([] if self._stop is None else [self._stop])]
            self._asked, self._stop = [], None
        for thread in self._threads:
            thread.join()
        for each in left:
            error = SavepointError(describe("the job has ended", None, "take it of its checkpoint directory"))
            each.answer.set_exception(error)


def kind_of(stop: bool, drain: bool) -> str:
    """Return the word for how a savepoint came about."""
    return "drain" if drain else "stop" if stop else "savepoint"


def _told(error: Exception) -> Exception:
    if isinstance(error, FlintstreamError):
        return error
    return SavepointError(describe(f"the savepoint could not be written ({type(error).__name__}: {error})"))
