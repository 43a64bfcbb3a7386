"""A sink of your own, exactly once: rows go into a table of SQLite, and a crash at any step shows in none of them.

Writers put rows aside under the name of their attempt. The committer, called when the epoch is committed, moves those
of the attempts that counted in one transaction. Done twice it finds nothing to move; rows of attempts that died stay
where nobody reads. `check_sink` proves that the sink keeps that contract.

It prints:

    the sink keeps 17 rules
    [('ann', 3), ('bob', 1), ('eve', 2)]
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from flintstream import Committer, Sink, SinkWriter, StreamExecutionEnvironment, WriterContext
from flintstream.testing import check_sink


class TableSink(Sink):
    """Adds (name, number) rows to the table `result`."""

    def __init__(self, database: str) -> None:
        self.database = database
        with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS result (name, number)")
            connection.execute("CREATE TABLE IF NOT EXISTS aside (attempt, name, number)")

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return TableWriter(self.database, f"{context.attempt}/{context.subtask}")

    def create_committer(self) -> Committer:
        return TableCommitter(self.database)


class TableWriter(SinkWriter):
    def __init__(self, database: str, attempt: str) -> None:
        self.database = database
        self.attempt = attempt

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            rows = [(self.attempt, *value) for value in values]
            connection.executemany("INSERT INTO aside VALUES (?, ?, ?)", rows)

    def prepare_commit(self) -> str:
        return self.attempt


class TableCommitter(Committer):
    def __init__(self, database: str) -> None:
        self.database = database

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            for attempt in committables:
                move = "INSERT INTO result SELECT name, number FROM aside WHERE attempt = ? ORDER BY rowid"
                connection.execute(move, [attempt])
                connection.execute("DELETE FROM aside WHERE attempt = ?", [attempt])


def rows_in(database: str) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT name, number FROM result ORDER BY rowid").fetchall()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tried, database = str(Path(folder, "tried.db")), str(Path(folder, "shop.db"))
        checked = check_sink(lambda: TableSink(tried), lambda: rows_in(tried), record=lambda n: (f"name {n}", n))
        print(f"the sink keeps {len(checked.rules)} rules")

        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([("ann", 3), ("bob", 1), ("eve", 2)]).sink_to(TableSink(database))
        env.execute("to a table")
        print(sorted(rows_in(database)))


if __name__ == "__main__":
    main()
