"""The job manager without its web server: submits, watches, steers and remembers the jobs of one home.

Everything it knows is in a database and in the jobs' folders, and jobs run in processes of their own, so it may be
killed at any moment: the next manager over the same home goes on where it was. Of several managers one leads; the
others answer what can be read, and refuse the rest. What takes long blocks in the caller's thread.

Flink: the JobManager process with its Dispatcher, ResourceManager and one JobMaster (here: keeper) for each job.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flintstream.api import savepoints as savepoint_api
from flintstream.engine.lease import holder
from flintstream.engine.restart import now_ms
from flintstream.errors import InvalidArgumentError, JobStateError, describe
from flintstream.jobs.files import write_json
from flintstream.jobs.logs import PIECE, LogPiece
from flintstream.jobs.manager_base import ManagerBase
from flintstream.jobs.manager_loop import link_logs, orders_of, remove_folder
from flintstream.jobs.manager_overview import overview_of
from flintstream.jobs.orders import SPEC
from flintstream.jobs.seen import FINAL
from flintstream.jobs.spec import JobSpec, check_parallelism, check_program
from flintstream.jobs.store import Record
from flintstream.jobs.view import JobView
from flintstream.state.storage_remote import storage_at

TIMEOUT = 60.0
_NOTHING_LEFT = "nothing is left to be done"


class Manager(ManagerBase):
    """Manages the jobs of one home; thread-safe.

    Args:
        home: The directory of everything that managers over it have in common; made if need be.
        jobs_at_once: How many jobs run at once, others wait; without it as many as this machine has cores.
        url: Where this manager is to be found, for whoever looks for the one that leads.
        keep_ended: How many jobs that have ended are kept in the history.
    """

    def close(self, cancel: bool = False) -> None:
        """Leave; jobs go on, unless `cancel` says otherwise."""
        if cancel and self.is_leader:
            for view in self.jobs():
                if not view.has_ended:
                    self.cancel(view.id)
        self._close()

    def submit(self, spec: JobSpec, files: Path | None = None) -> JobView:
        """Take a job; `files` is a directory with its program, which becomes the job's own.

        Raises:
            InvalidArgumentError: there is no such program.
            NotLeaderError: this manager stands by.
        """
        term, moment = self._leading(), now_ms()
        check_program(spec, files)
        record = Record(uuid.uuid4().hex, spec.shown_name, moment, moment)
        if spec.savepoint is not None:
            savepoint_api.show(spec.savepoint)
            record = replace(record, savepoint=spec.savepoint, allow_non_restored=int(spec.allow_non_restored))
        folder = self._loop.folder(record.id)
        folder.mkdir(mode=0o700)
        if files is not None:
            files.rename(folder / "program")
        write_json(folder / SPEC, spec.to_json(), durable=True)
        orders_of(term, record, spec, folder).write(folder)
        try:
            self._store.insert(term, record)
        except BaseException:
            remove_folder(self.home, record.id)
            raise
        link_logs(self.home, record)
        self._wake.set()
        return self._view(record)

    def jobs(self) -> list[JobView]:
        """Return all jobs, newest first."""
        return [self._view(record) for record in self._store.all()]

    def job(self, job: str) -> JobView:
        """Return a job.

        Raises:
            UnknownJobError: there is none.
        """
        return self._view(self._store.get(job))

    def cancel(self, job: str, *, timeout: float = TIMEOUT) -> JobView:
        """Let a job stop behind its last epoch, and wait until it has.

        Raises:
            JobStateError: it has ended already, or takes longer.
        """
        with self._loop.lock:
            term, record = self._leading(), self._going(job, _NOTHING_LEFT)
            note = now_ms(), "asked to be canceled"
            if record.status == "CREATED":
                note = now_ms(), "canceled before it began"
                changes: dict[str, Any] = {"status": "CANCELED", "ended_ms": now_ms()}
                return self._view(self._store.update(term, job, note, wanted="canceled", **changes))
            self._loop.order(term, self._store.update(term, job, note, wanted="canceled", status="CANCELLING"))
        return self._until_ended(job, timeout)

    def stop(self, job: str, savepoint_dir: str | None = None, drain: bool = False, *, timeout: float = TIMEOUT) -> str:
        """Let a job end with a savepoint, and return where that is.

        Raises:
            JobStateError: it does not run, or takes longer.
            SavepointError: the savepoint cannot be taken; the job goes on.
        """
        where = self._running(job, _NOTHING_LEFT)
        target = savepoint_dir
        path = self._patience.apart(
            lambda: savepoint_api.stop(where, target, drain=drain, timeout=timeout), timeout + 1, "no savepoint"
        )
        with self._loop.lock:
            term = self._leading()
            self._store.add_savepoint(term, job, path, now_ms())
            if self._store.get(job).status not in FINAL:
                record = self._store.update(term, job, (now_ms(), f"stopped with savepoint {path}"), wanted="stopped")
                self._loop.order(term, record)
        self._until_ended(job, timeout)
        return path

    def savepoint(
        self,
        job: str,
        savepoint_dir: str | None = None,
        tags: Sequence[str] = (),
        comment: str = "",
        *,
        timeout: float = TIMEOUT,
    ) -> str:
        """Take a savepoint of a job, which goes on if it runs; return where it is.

        Raises:
            JobStateError: it does not run at this moment, though it will, or takes longer.
            SavepointError: the savepoint cannot be taken.
        """
        term, record = self._leading(), self._store.get(job)
        words = list(tags)
        if record.status in FINAL:
            where, target = self.checkpoint_dir(job), savepoint_dir or str(self._files(job).savepoints_folder)
            path = self._patience.apart(
                lambda: savepoint_api.take(where, target, tags=words, comment=comment), timeout, "no savepoint"
            )
        else:
            where = self._running(job)
            path = self._patience.apart(
                lambda: savepoint_api.trigger(where, savepoint_dir, tags=words, comment=comment, timeout=timeout),
                timeout + 1,
                "no savepoint",
            )
        self._store.add_savepoint(term, job, path, now_ms())
        self._store.update(term, job, (now_ms(), f"savepoint {path}"))
        return path

    def savepoints(self, job: str) -> list[dict[str, Any]]:
        """Return the savepoints of a job, newest first."""
        return self._files(job).savepoints(self._store.savepoints(job))

    def rescale(self, job: str, parallelism: int, *, timeout: float = TIMEOUT) -> JobView:
        """Let a job go on behind its last epoch with another parallelism, and wait until it does.

        Raises:
            JobStateError: it has ended, does not come back, or takes longer.
            InvalidArgumentError: the job cannot have that parallelism.
        """
        with self._loop.lock:
            term, record = self._leading(), self._going(job)
            self._check_width(job, parallelism)
            changes: dict[str, Any] = {"parallelism": parallelism, "least": None, "most": None}
            note = now_ms(), f"asked for parallelism {parallelism}"
            if record.status == "CREATED":
                return self._view(self._store.update(term, job, note, **changes))
            start = self._again(term, record, note, **changes)
        return self._until_back(job, start, timeout)

    def rescale_auto(self, job: str, least: int, most: int) -> JobView:
        """Let a job's parallelism follow its backlog from now on, between two bounds.

        Raises:
            JobStateError: it has ended.
            InvalidArgumentError: the job cannot have that parallelism.
        """
        check_parallelism(least)
        if least > most:
            raise InvalidArgumentError(describe(f"least is {least} and most {most}", None, "exchange them"))
        with self._loop.lock:
            term = self._leading()
            self._going(job)
            self._check_width(job, most)
            note = now_ms(), f"parallelism follows the backlog, {least} to {most}"
            return self._view(self._store.update(term, job, note, least=least, most=most))

    def restart(
        self, job: str, savepoint: str | None = None, allow_non_restored: bool = False, *, timeout: float = TIMEOUT
    ) -> JobView:
        """Start a job again, whether it runs or has ended: behind its last epoch, or from a savepoint.

        With a savepoint it gets a new checkpoint directory, since one that has checkpoints goes on from those.

        Raises:
            JobStateError: it does not come back, or takes longer.
            SavepointError: there is no such savepoint.
        """
        if savepoint is not None:
            savepoint_api.show(savepoint)
        with self._loop.lock:
            term, record = self._leading(), self._store.get(job)
            start = record.start + 1
            changes: dict[str, Any] = {"wanted": "running", "error": None, "ended_ms": None}
            if savepoint is not None:
                own = _own_directory(record, self._loop.folder(job))
                changes |= {"savepoint": savepoint, "allow_non_restored": int(allow_non_restored), "root": start}
                changes["checkpoint_dir"] = None if own is None else f"{own}-restart-{start}"
            note = now_ms(), "asked for another start" + (f" from {savepoint}" if savepoint else "")
            if record.status in FINAL:
                changes |= {"status": "CREATED", "queued_ms": now_ms(), "start": start}
                record = self._store.update(term, job, note, **changes)
                self._loop.order(term, record)
                self._wake.set()
                return self._view(record)
            self._again(term, record, note, **changes)
        return self._until_back(job, start, timeout)

    def forget(self, job: str) -> None:
        """Remove a job that has ended; its savepoints stay.

        Raises:
            JobStateError: it has not ended.
        """

        def is_quiet() -> Record | None:
            record = self._store.get(job)
            return None if record.status in FINAL and self._loop.is_leaving(record) else record

        self._leading()
        self._patience.until(is_quiet, TIMEOUT, f"the keeper of job {job} is not gone")
        with self._loop.lock:
            term, record = self._leading(), self._store.get(job)
            if record.status not in FINAL:
                what = f"job {job} is {record.status}"
                raise JobStateError(describe(what, None, "cancel it first; only jobs that have ended are forgotten"))
            self._loop.forget(term, record)
            self._specs.pop(job, None)

    def status(self, job: str) -> dict[str, Any]:
        """Return the newest report of a job's driver; nothing if there is none yet."""
        record = self._store.get(job)
        return self._files(job).status(record.status)

    def plan(self, job: str) -> dict[str, Any]:
        """Return the plan of a job; nothing if there is none yet."""
        return self._files(job).plan()

    def epochs(self, job: str, since_epoch: int = 0) -> list[dict[str, Any]]:
        """Return a line for every epoch after `since_epoch` that is still known, oldest first."""
        return self._files(job).epochs(since_epoch)

    def exceptions(self, job: str) -> list[dict[str, Any]]:
        """Return the failures of a job, newest first."""
        return self._files(job).exceptions()

    def history(self, job: str) -> list[dict[str, Any]]:
        """Return what happened to a job, oldest first: when, the status since then, and why."""
        return self._store.notes(self._store.get(job).id)

    def log(self, job: str, stream: str, offset: int = 0, limit: int = PIECE) -> LogPiece:
        """Return a piece of what a job printed to "out" or "err"; a negative offset counts from the end."""
        return self._files(job).log(stream, offset, limit)

    def configuration(self, job: str) -> dict[str, Any]:
        """Return the settings of a job, without secrets: those in effect, or before it has begun, those given."""
        found = self.plan(job).get("configuration")
        return found if isinstance(found, dict) else dict(self._spec(job).settings)

    def checkpoint_dir(self, job: str) -> str:
        """Return where a job keeps its state.

        Raises:
            JobStateError: that is not known yet.
        """
        record = self._store.get(job)
        if record.seen_checkpoint_dir is None:
            what = f"job {job} is {record.status} and has no checkpoint directory yet"
            raise JobStateError(describe(what, None, "wait until it runs"))
        return record.seen_checkpoint_dir

    def overview(self) -> dict[str, Any]:
        """Return the manager, its slots and its jobs at a glance."""
        views = self.jobs()
        statuses = [self.status(view.id) for view in views if view.status == "RUNNING"]
        return overview_of(self.slots, self.started_ms, self.is_leader, self.leader(), views, statuses)

    def _going(self, job: str, remedy: str = "restart it first") -> Record:
        """Return a job that has not ended, or refuse."""
        record = self._store.get(job)
        if record.status in FINAL or record.wanted != "running":
            what = f"job {job} is {record.status}"
            raise JobStateError(describe(what, None, remedy if record.status in FINAL else "wait for its end"))
        return record

    def _running(self, job: str, remedy: str = "restart it first") -> str:
        """Return the checkpoint directory of a job that can be asked for something right now, or refuse."""
        self._leading()
        self._going(job, remedy)
        where = self.checkpoint_dir(job)
        if holder(storage_at(where)) is None:
            what = f"job {job} is {self._store.get(job).status}, and its driver does not run at this moment"
            raise JobStateError(describe(what, None, "wait until it runs"))
        return where

    def _check_width(self, job: str, parallelism: int) -> None:
        most = self.plan(job).get("max_parallelism")
        check_parallelism(parallelism)
        if isinstance(most, int) and parallelism > most:
            what = f"parallelism {parallelism} is more than the job's max parallelism"
            raise InvalidArgumentError(describe(what, None, f"give {most} or less"))

    def _again(self, term: int, record: Record, note: tuple[int, str], **changes: Any) -> int:
        """Ask a job's keeper for another start; return its number."""
        start = record.start + 1
        record = self._store.update(term, record.id, note, start=start, status="RESTARTING", **changes)
        self._loop.order(term, record)
        self._wake.set()
        return start

    def _until_back(self, job: str, start: int, timeout: float) -> JobView:
        """Wait until a job runs again."""

        def is_back() -> JobView | None:
            record = self._store.get(job)
            if record.status in FINAL or record.start > start:
                return self._view(record)
            return self._view(record) if record.status == "RUNNING" and self._loop.has_begun(record) else None

        view = self._patience.until(is_back, timeout, f"job {job} does not run again")
        if view.status in FINAL and view.status != "FINISHED":
            why = f": {view.error}" if view.error else ""
            raise JobStateError(
                describe(f"job {job} did not come back, but is {view.status}{why}", None, "look at its log")
            )
        return view

    def _until_ended(self, job: str, timeout: float) -> JobView:
        def has_ended() -> JobView | None:
            view = self.job(job)
            return view if view.has_ended else None

        self._wake.set()
        return self._patience.until(has_ended, timeout, f"job {job} has not ended")


def _own_directory(record: Record, folder: Path) -> str | None:
    """Return the checkpoint directory that the program itself has named, None if it has left that to the manager."""
    seen = record.seen_checkpoint_dir
    if seen is None or ("://" not in seen and Path(seen).is_relative_to(folder / "checkpoints")):
        return None
    return seen.removesuffix(f"-restart-{record.root}")
