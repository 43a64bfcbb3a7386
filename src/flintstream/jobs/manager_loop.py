"""What a leading manager does all the time: look at every job, and bring what is closer to what is wanted.

It remembers nothing that matters: each look begins with the database and the jobs' folders, so a manager that was just
started, or has just taken over, does the same as one that has been there all along. Whether it still leads is asked
before every round, and the database asks again before every write.

Flink: the Dispatcher, which recovers, runs and archives jobs, and the ResourceManager, which gives out slots.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flintstream.api.settings import DEFAULT_NAME
from flintstream.engine.restart import now_ms
from flintstream.errors import FlintstreamError, NotLeaderError, UnknownJobError
from flintstream.jobs.files import read_json
from flintstream.jobs.keeper import working_directory
from flintstream.jobs.keeper_process import Keepers, last_words
from flintstream.jobs.orders import ERR, KEEPER, OUT, REPORT, SPEC, KeeperState, Orders
from flintstream.jobs.rescale import Load, Scaling, decide
from flintstream.jobs.seen import FINAL, changes_of, is_of
from flintstream.jobs.spec import MOST_NAME, JobSpec, read_spec
from flintstream.jobs.store import Record, Store
from flintstream.model.restart import PREFIX

_LOG = logging.getLogger("flintstream")


class ManagerLoop:
    """Looks after the jobs of a home, for a manager of one term.

    Args:
        home: The home.
        store: Its database.
        slots: How many jobs may run at once.
        keep_ended: How many jobs that have ended are kept.
    """

    def __init__(self, home: Path, store: Store, slots: int, keep_ended: int) -> None:
        self._home = home
        self._store = store
        self._slots = slots
        self._keep_ended = keep_ended
        self._keepers = Keepers()
        self._scalings: dict[str, Scaling] = {}
        self._seen: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}
        self.lock = threading.RLock()
        """Held by whoever looks at a job and then changes it."""

    def folder(self, job: str) -> Path:
        """Return the folder of a job."""
        return self._home / "jobs" / job

    def tidy(self) -> None:
        """Remove what submissions left behind that were never completed."""
        known = {record.id for record in self._store.all()}
        for folder in (self._home / "jobs").iterdir():
            if folder.name not in known and not (folder / "savepoints").exists() and not (folder / KEEPER).exists():
                remove_folder(self._home, folder.name)

    def look(self, term: int) -> None:
        """Look at all jobs once.

        Raises:
            NotLeaderError: another manager leads by now.
        """
        self._store.check(term)
        records = self._store.all()
        with self.lock:
            self._keepers.reap()
        for record in records:
            if record.status not in FINAL:
                self._guarded(self._look_at, term, record)
        records = self._store.all()
        used = sum(record.status not in (*FINAL, "CREATED") for record in records)
        waiting = sorted((each for each in records if each.status == "CREATED"), key=lambda each: each.queued_ms)
        for record in waiting[: max(0, self._slots - used)]:
            self._guarded(self._begin, term, record)
        for record in [each for each in records if each.status in FINAL][self._keep_ended :]:
            if not self.is_leaving(record):
                self._guarded(self.forget, term, record)

    def is_leaving(self, record: Record) -> bool:
        """Whether the keeper of a job that has ended is still about to go, and may write into its folder."""
        state = KeeperState.read(self.folder(record.id))
        return state is not None and bool(state.keeper) and state.is_here()

    def _guarded(self, action: Callable[[int, Record], None], term: int, record: Record) -> None:
        """Let no job be the reason why others are not looked after."""
        try:
            with self.lock:
                action(term, self._store.get(record.id))
        except NotLeaderError:
            raise
        except UnknownJobError:
            return  # someone has forgotten it meanwhile
        except (FlintstreamError, OSError) as error:
            _LOG.warning("job %s cannot be looked after: %s", record.id, error)
        except Exception:
            _LOG.exception("job %s cannot be looked after", record.id)

    def _look_at(self, term: int, record: Record) -> None:
        if record.status in FINAL:
            return
        folder = self.folder(record.id)
        state = KeeperState.read(folder)
        is_alive = self._keepers.is_alive(record.id, state)
        spec = read_spec(folder / SPEC)
        report, plan = self._document(folder, "status.json"), self._document(folder, "plan.json")
        changes = changes_of(record, state, is_alive, report, plan, working_directory(folder, spec))
        changes |= name_of(record, spec, plan)
        if changes:
            record = self._write(term, record, changes)
        if record.status in FINAL:
            self._keepers.forget(record.id)
            return
        self.order(term, record)
        if not is_alive and record.status != "CREATED":
            self._keep(term, record)
        elif record.status == "RUNNING" and record.least is not None:
            self._scale(term, record, report)

    def _document(self, folder: Path, name: str) -> dict[str, Any]:
        """Return a part of a driver's report, read again only if it is another file than last time."""
        path = folder / REPORT / name
        try:
            found = path.stat()
        except OSError:
            return {}
        mark = found.st_mtime_ns, found.st_ino
        known = self._seen.get(str(path))
        if known is None or known[0] != mark:
            known = self._seen[str(path)] = mark, read_json(path)
        return known[1]

    def _write(self, term: int, record: Record, changes: dict[str, Any]) -> Record:
        moment, status = now_ms(), changes.get("status")
        if status in FINAL:
            changes["ended_ms"] = changes.get("ended_ms") or moment
        note = (moment, changes.get("error") or _why(status)) if status is not None else None
        return self._store.update(term, record.id, note, **changes)

    def order(self, term: int, record: Record) -> None:
        """Tell a job's keeper what is wanted, if it does not know."""
        folder = self.folder(record.id)
        orders = orders_of(term, record, read_spec(folder / SPEC), folder)
        if Orders.read(folder) != orders:
            orders.write(folder)

    def _begin(self, term: int, record: Record) -> None:
        """Give a job that waits a slot."""
        if record.status != "CREATED":
            return
        self.order(term, record)
        record = self._store.update(term, record.id, (now_ms(), "has a slot"), status="INITIALIZING")
        self._keep(term, record)

    def _keep(self, term: int, record: Record) -> None:
        """See to it that a job has a keeper."""
        folder = self.folder(record.id)
        if self._keepers.cannot_begin(record.id):
            error = last_words(folder)
            self._store.update(term, record.id, (now_ms(), error), status="FAILED", error=error, ended_ms=now_ms())
            self._keepers.forget(record.id)
            return
        self._keepers.start(record.id, folder)

    def _scale(self, term: int, record: Record, report: dict[str, Any]) -> None:
        assert record.least is not None and record.most is not None
        now = now_ms()
        before = self._scalings.get(record.id) or Scaling(now)
        has = record.parallelism or record.seen_parallelism
        if has is None:
            return
        self._scalings[record.id], wanted = decide(before, now, Load.of(report), has, record.least, record.most)
        if wanted is not None and wanted != has:
            note = f"parallelism {wanted} instead of {has}, by its backlog"
            record = self._store.update(
                term, record.id, (now, note), parallelism=wanted, start=record.start + 1, status="RESTARTING"
            )
            self.order(term, record)

    def has_begun(self, record: Record) -> bool:
        """Whether the driver that runs was started by the newest orders."""
        state = KeeperState.read(self.folder(record.id))
        return state is not None and state.start >= record.start and is_of(self._report(record), state)

    def _report(self, record: Record) -> dict[str, Any]:
        return self._document(self.folder(record.id), "status.json")

    def forget(self, term: int, record: Record) -> None:
        """Remove all of a job but its savepoints."""
        self._store.delete(term, record.id)
        self._keepers.forget(record.id)
        self._scalings.pop(record.id, None)
        remove_folder(self._home, record.id)


def name_of(record: Record, spec: JobSpec, plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the name that the program gives its job, if whoever submitted it gave it none."""
    given = plan.get("name")
    if spec.name is not None or not isinstance(given, str):
        return {}
    # A program may say anything; what users may not say is shortened to what they may.
    name = "".join(each if each.isprintable() else " " for each in given[:MOST_NAME]).strip()
    return {} if name in ("", DEFAULT_NAME, record.name) else {"name": name}


def orders_of(term: int, record: Record, spec: JobSpec, folder: Path) -> Orders:
    """Return what the keeper of a job is told."""
    settings = {
        "flintstream.checkpoint-root": str(folder / "checkpoints" / str(record.root)),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        **{key: value for key, value in spec.settings.items() if not key.startswith(PREFIX)},
    }
    if spec.name is not None:
        settings["pipeline.name"] = spec.name
    if spec.master is not None:
        settings["spark.master"] = spec.master
    imposed: dict[str, str] = {}
    parallelism = record.parallelism or spec.parallelism
    if parallelism is not None:
        imposed["parallelism.default"] = str(parallelism)
    if record.checkpoint_dir is not None:
        imposed["execution.checkpointing.dir"] = record.checkpoint_dir
    if record.savepoint is not None:
        imposed["execution.state-recovery.path"] = record.savepoint
    if record.allow_non_restored:
        imposed["execution.state-recovery.ignore-unclaimed-state"] = "true"
    return Orders(term, record.wanted, record.start, settings, imposed)


def link_logs(home: Path, record: Record) -> None:
    """Make a job's logs reachable as `<home>/log/<name>-<id>.out` and `.err`."""
    (home / "log").mkdir(mode=0o700, exist_ok=True)
    plain = re.sub(r"[^\w.-]+", "-", record.name).strip(".-")[:80] or "job"
    for end, target in (("out", OUT), ("err", ERR)):
        with suppress(FileExistsError):
            (home / "log" / f"{plain}-{record.id[:8]}.{end}").symlink_to(Path("..") / "jobs" / record.id / target)


def remove_folder(home: Path, job: str) -> None:
    """Remove a job's folder; its savepoints stay, if it has any."""
    for link in (home / "log").glob(f"*-{job[:8]}.*"):
        link.unlink(missing_ok=True)
    folder = home / "jobs" / job
    savepoints = folder / "savepoints"
    keeps = savepoints.is_dir() and any(savepoints.iterdir())
    for path in folder.iterdir() if folder.is_dir() else ():
        if keeps and path == savepoints:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _why(status: Any) -> str:
    words = {
        "RECONCILING": "its keeper is gone; it is being taken up again",
        "RESTARTING": "its driver is started again",
        "INITIALIZING": "its driver is being started",
        "CANCELLING": "it was told to stop behind its last epoch",
    }
    return words.get(str(status), str(status).lower())
