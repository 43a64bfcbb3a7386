"""A manager's life: its home, its database, the election, and the thread that looks after jobs while it leads.

Apart from what a manager can be asked for, which is `jobs.manager`.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from flintstream.engine.restart import now_ms
from flintstream.errors import EnvironmentSetupError, FlintstreamError, NotLeaderError, describe
from flintstream.jobs.leader import Election, Leader, leader_of
from flintstream.jobs.manager_loop import ManagerLoop
from flintstream.jobs.reports import JobFiles
from flintstream.jobs.spec import JobSpec, check_parallelism, read_spec, token_of
from flintstream.jobs.store import Record, Store
from flintstream.jobs.view import JobView
from flintstream.jobs.waiting import Patience

LOOK_SECONDS = 0.25
KEEP_ENDED = 100
_LOG = logging.getLogger("flintstream")


class ManagerBase:
    """A manager that nobody can ask for anything yet."""

    def __init__(
        self, home: Path, *, jobs_at_once: int | None = None, url: str | None = None, keep_ended: int = KEEP_ENDED
    ) -> None:
        self.home = Path(home).absolute()
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.home / "jobs").mkdir(mode=0o700, exist_ok=True)
            token_of(self.home)
        except OSError as error:
            what = f"the manager's home cannot be used ({error})"
            raise EnvironmentSetupError(describe(what, str(self.home), "mend it, or name another one")) from error
        self.slots = _cores() if jobs_at_once is None else check_parallelism(jobs_at_once)
        self.started_ms = now_ms()
        self._store = Store(self.home / "manager.db", self.leader_url)
        self._loop = ManagerLoop(self.home, self._store, self.slots, keep_ended)
        self._term = 0
        self._wake = threading.Event()
        self._patience = Patience()
        self._specs: dict[str, JobSpec] = {}
        self._election = Election(self.home, self._begin, self._end)
        self._election.announce(url)
        self._thread = threading.Thread(target=self._run, name="flintstream-manager", daemon=True)

    def start(self) -> None:
        """Take part in the election of a leader, and look after jobs whenever this manager leads."""
        self._election.start()
        self._thread.start()

    def _close(self) -> None:
        self._patience.end()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._election.close()
        self._store.close()

    def _begin(self) -> int:
        self._term = self._store.lead()
        self._loop.tidy()
        self._wake.set()
        return self._term

    def _end(self) -> None:
        self._term = 0

    def _run(self) -> None:
        while not self._patience.is_over:
            term = self._term
            if term and self._election.leads_now():
                try:
                    self._loop.look(term)
                except NotLeaderError:
                    # A lease without the newest term is of no use to anybody, and keeps the others out.
                    self._election.resign(term)
                except FlintstreamError as error:
                    _LOG.warning("jobs cannot be looked after: %s", error)
                except Exception:  # a mistake of ours must not leave all jobs alone for ever
                    _LOG.exception("jobs cannot be looked after")
                self._patience.news()
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()

    @property
    def is_leader(self) -> bool:
        """Whether this manager leads, as far as it knows."""
        return self._election.leads

    @property
    def why_not_leader(self) -> str | None:
        """Why this manager could not lead when it was its turn, if it could not."""
        return self._election.problem

    def leader(self) -> Leader | None:
        """Return who leads over this home."""
        return leader_of(self.home)

    def leader_url(self) -> str | None:
        """Return where the manager that leads is to be found."""
        leader = self.leader()
        return None if leader is None else leader.url

    def announce(self, url: str) -> None:
        """Say where this manager is to be found."""
        self._election.announce(url)

    def _leading(self) -> int:
        """Return the term in which this manager leads, or refuse."""
        term = self._term
        if not term or not self._election.leads_now():
            what, remedy = "this manager stands by", "ask the one that leads"
            raise NotLeaderError(describe(what, None, remedy), url=self.leader_url())
        return term

    def folder(self, job: str) -> Path:
        """Return the folder of a job.

        Raises:
            UnknownJobError: there is no such job.
        """
        return self._loop.folder(self._store.get(job).id)

    def _files(self, job: str) -> JobFiles:
        return JobFiles(self.folder(job))

    def _spec(self, job: str) -> JobSpec:
        """Return what was submitted, without secrets; it never changes, so it is read once."""
        if job not in self._specs:
            try:
                self._specs[job] = read_spec(self._loop.folder(job) / "job.json").without_secrets()
            except (OSError, ValueError):
                return JobSpec(module="unknown")
        return self._specs[job]

    def _view(self, record: Record) -> JobView:
        scaling = "manual" if record.least is None else f"auto {record.least}..{record.most}"
        return JobView(
            id=record.id,
            name=record.name,
            status=record.status,
            submitted_ms=record.submitted_ms,
            started_ms=record.started_ms,
            ended_ms=record.ended_ms,
            attempt=record.attempt,
            restarts=record.restarts,
            parallelism=record.seen_parallelism or record.parallelism,
            checkpoint_dir=record.seen_checkpoint_dir,
            error=record.error,
            spec=self._spec(record.id),
            guarantee=record.guarantee,
            wanted=record.wanted,
            scaling=scaling,
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
