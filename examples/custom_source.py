"""A source of your own: a table of SQLite, read by the numbers of its rows.

A source says which splits it has and reads ranges of positions; a job remembers the positions, and goes on from there
when it starts again. `check_source` proves that the source keeps that contract.

It prints:

    the source keeps 13 rules
    ann 30
    bob 5
    ann 42
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from flintstream import Split, SplitSource, StreamExecutionEnvironment
from flintstream.testing import check_source


class TableSource(SplitSource):
    """Rows of a table that is only added to, in blocks; a row's position is its number."""

    BLOCK = 100_000

    def __init__(self, database: str, table: str) -> None:
        self.database = database
        self.table = table

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        ((last,),) = self.query(f"SELECT coalesce(max(rowid), 0) FROM {self.table}")
        starts = range(1, last + 1, self.BLOCK)
        return [Split(n, start, min(start + self.BLOCK, last + 1)) for n, start in enumerate(starts)]

    def read(self, split: int, start: int, end: int) -> list[tuple]:
        return self.query(f"SELECT * FROM {self.table} WHERE rowid >= ? AND rowid < ? ORDER BY rowid", start, end)

    def query(self, statement: str, *arguments: int) -> list[tuple]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(statement, arguments).fetchall()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder, "shop.db"))
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("CREATE TABLE orders (customer TEXT, price INTEGER)")
            connection.executemany("INSERT INTO orders VALUES (?, ?)", [("ann", 30), ("bob", 5), ("ann", 12)])

        checked = check_source(lambda: TableSource(database, "orders"))
        print(f"the source keeps {len(checked.rules)} rules")

        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        orders = env.from_source(TableSource(database, "orders"), source_name="orders")
        orders.key_by(0).sum(1).map(lambda order: f"{order[0]} {order[1]}").print()
        env.execute("revenue by customer")


if __name__ == "__main__":
    main()
