"""What a manager knows, in an embedded database (SQLite): jobs, what is wanted of them, what was seen, their history.

Nothing is only in memory, so a manager may be killed at any moment. Every write is a transaction that first looks
whether the writer still leads: each leader begins with a new term, and who has an old one writes nothing any more. That
is the fence against a leader that slept while another took over. Separate from the manager, which knows no SQL.

Flink: the JobGraphStore and JobResultStore of high availability, and the dashboard's history server.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from flintstream.errors import EnvironmentSetupError, ManagerError, NotLeaderError, UnknownJobError, describe

WAIT_SECONDS = 5.0
_MOST_NOTES = 1_000
MIGRATIONS = (
    """
    CREATE TABLE leader (term INTEGER NOT NULL);
    INSERT INTO leader VALUES (0);
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, submitted_ms INTEGER NOT NULL, queued_ms INTEGER NOT NULL,
        status TEXT NOT NULL, wanted TEXT NOT NULL, start INTEGER NOT NULL,
        root INTEGER NOT NULL, parallelism INTEGER, least INTEGER, most INTEGER, checkpoint_dir TEXT, savepoint TEXT,
        allow_non_restored INTEGER NOT NULL, started_ms INTEGER, ended_ms INTEGER, attempt INTEGER NOT NULL,
        restarts INTEGER NOT NULL, error TEXT, seen_parallelism INTEGER, seen_checkpoint_dir TEXT, guarantee TEXT
    );
    CREATE TABLE notes (
        number INTEGER PRIMARY KEY, job TEXT NOT NULL, at_ms INTEGER NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL
    );
    CREATE INDEX notes_of_job ON notes (job, number);
    CREATE TABLE savepoints (job TEXT NOT NULL, path TEXT NOT NULL, taken_ms INTEGER NOT NULL, PRIMARY KEY (job, path));
    """,
)
"""What brings a database from each version to the next."""


@dataclass(frozen=True)
class Record:
    """A job as the database has it.

    `start` counts how often someone asked for another start (a rescale, a restart), `root` is the start since which the
    job has its own checkpoint directory. `parallelism`, `checkpoint_dir`, `savepoint` are imposed on the program;
    `seen_*` is what its driver reported. Between `least` and `most` parallelism follows the backlog.
    """

    id: str
    name: str
    submitted_ms: int
    queued_ms: int
    status: str = "CREATED"
    wanted: str = "running"
    start: int = 1
    root: int = 1
    parallelism: int | None = None
    least: int | None = None
    most: int | None = None
    checkpoint_dir: str | None = None
    savepoint: str | None = None
    allow_non_restored: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    attempt: int = 0
    restarts: int = 0
    error: str | None = None
    seen_parallelism: int | None = None
    seen_checkpoint_dir: str | None = None
    guarantee: str | None = None


_COLUMNS = tuple(each.name for each in fields(Record))


class Store:
    """The database of one home; safe to use from several threads, and beside other processes.

    Args:
        path: Where it is; made if need be.
        leader_url: Tells where the manager that leads is, for whoever is refused.
    """

    def __init__(self, path: Path, leader_url: Callable[[], str | None] = lambda: None) -> None:
        self._path = path
        self._leader_url = leader_url
        self._lock = threading.RLock()
        with self._told():
            path.touch(mode=0o600)
            self._db = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA synchronous = FULL")
            self._migrate()

    def _migrate(self) -> None:
        with self._transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > len(MIGRATIONS):
                what = f"the manager's database has version {version}, and this release knows {len(MIGRATIONS)}"
                raise EnvironmentSetupError(describe(what, str(self._path), "use the newer release, or another home"))
            for script in MIGRATIONS[version:]:
                for statement in filter(str.strip, script.split(";")):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            what = f"the manager's database cannot be used ({error})"
            raise ManagerError(describe(what, str(self._path), "free space, or mend the directory")) from error

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # A failed COMMIT may already have taken everything back.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _leading(self, term: int) -> Generator[None]:
        """Write as the leader of a term, all of it or nothing.

        Raises:
            NotLeaderError: there is a newer one.
        """
        with self._told(), self._transaction():
            self._check(term)
            yield

    def _check(self, term: int) -> None:
        (newest,) = self._db.execute("SELECT term FROM leader").fetchone()
        if newest != term:
            what = "this manager does not lead any more" if term else "this manager stands by"
            raise NotLeaderError(describe(what, None, "ask the one that leads"), url=self._leader_url())

    def check(self, term: int) -> None:
        """Look whether a term is still the newest.

        Raises:
            NotLeaderError: there is a newer one.
        """
        with self._told(), self._lock:
            self._check(term)

    def lead(self) -> int:
        """Begin a new term, and return it."""
        with self._told(), self._transaction():
            self._db.execute("UPDATE leader SET term = term + 1")
            (term,) = self._db.execute("SELECT term FROM leader").fetchone()
            return term

    def insert(self, term: int, record: Record) -> None:
        """Add a job."""
        with self._leading(term):
            marks = ", ".join("?" * len(_COLUMNS))
            self._db.execute(f"INSERT INTO jobs ({', '.join(_COLUMNS)}) VALUES ({marks})", astuple(record))
            self._note(record.id, record.submitted_ms, record.status, "submitted")

    def update(self, term: int, job: str, note: tuple[int, str] | None = None, **changes: Any) -> Record:
        """Change a job, and return it; `note` is the time and the words of a line in its history."""
        with self._leading(term):
            assert set(changes) <= set(_COLUMNS)
            if changes:
                names = ", ".join(f"{name} = ?" for name in changes)
                self._db.execute(f"UPDATE jobs SET {names} WHERE id = ?", (*changes.values(), job))
            record = self.get(job)
            if note is not None:
                self._note(job, note[0], record.status, note[1])
            return record

    def _note(self, job: str, at_ms: int, status: str, text: str) -> None:
        self._db.execute("INSERT INTO notes (job, at_ms, status, note) VALUES (?, ?, ?, ?)", (job, at_ms, status, text))
        old = "SELECT number FROM notes WHERE job = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
        self._db.execute(f"DELETE FROM notes WHERE job = ? AND number <= ({old})", (job, job, _MOST_NOTES))

    def get(self, job: str) -> Record:
        """Return a job.

        Raises:
            UnknownJobError: there is none.
        """
        with self._told(), self._lock:
            row = self._db.execute(f"SELECT {', '.join(_COLUMNS)} FROM jobs WHERE id = ?", (job,)).fetchone()
        if row is None:
            raise UnknownJobError(describe(f"there is no job {job!r}", None, "list the jobs there are"))
        return Record(*row)

    def all(self) -> list[Record]:
        """Return all jobs, newest first."""
        with self._told(), self._lock:
            query = f"SELECT {', '.join(_COLUMNS)} FROM jobs ORDER BY submitted_ms DESC, rowid DESC"
            return [Record(*row) for row in self._db.execute(query)]

    def delete(self, term: int, job: str) -> None:
        """Forget a job."""
        with self._leading(term):
            for table, column in (("jobs", "id"), ("notes", "job"), ("savepoints", "job")):
                self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (job,))

    def notes(self, job: str) -> list[dict[str, Any]]:
        """Return what happened to a job, oldest first."""
        with self._told(), self._lock:
            query = "SELECT at_ms, status, note FROM notes WHERE job = ? ORDER BY number"
            rows = self._db.execute(query, (job,)).fetchall()
        return [{"at_ms": at_ms, "status": status, "note": text} for at_ms, status, text in rows]

    def add_savepoint(self, term: int, job: str, path: str, taken_ms: int) -> None:
        """Remember a savepoint of a job."""
        with self._leading(term):
            self._db.execute("INSERT OR REPLACE INTO savepoints VALUES (?, ?, ?)", (job, path, taken_ms))

    def savepoints(self, job: str) -> list[tuple[str, int]]:
        """Return the savepoints of a job that were asked of this manager: path and time, oldest first."""
        with self._told(), self._lock:
            query = "SELECT path, taken_ms FROM savepoints WHERE job = ? ORDER BY taken_ms"
            return [(path, taken_ms) for path, taken_ms in self._db.execute(query, (job,))]

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()
