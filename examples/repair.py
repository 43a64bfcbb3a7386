"""Repair: a bug is mended, and so is what it wrote; corrections only, and shown before they are sent.

A job keeps the stock of a warehouse in a table. Its version of last night took returned goods for sold ones, and
counted those of a test. The mended program is replayed over the same log; what it would have written otherwise is sent.

It prints:

    in the table: {'pens': 5, 'cups': 6, 'test': 1}
    stock: 0 inserts, 1 updates, 1 deletes to send (nothing was sent); 1 rows are right, 0 were left alone
      do      item  pieces was  pieces
      update  pens  5           9
      delete  test  1
    in the table: {'pens': 9, 'cups': 6}
"""

from __future__ import annotations

from collections.abc import Callable

from flintstream import DictSink, StreamExecutionEnvironment, repair

MOVES = [
    ("pens", 10, "in"),
    ("cups", 8, "in"),
    ("pens", 3, "out"),
    ("cups", 2, "out"),
    ("pens", 2, "back"),
    ("test", 1, "in"),
]
STOCK = DictSink("item")


def change(move: tuple[str, int, str], mended: bool) -> tuple[str, int]:
    item, pieces, way = move
    comes_in = way in (("in", "back") if mended else ("in",))
    return item, pieces if comes_in else -pieces


def warehouse(mended: bool) -> Callable[[StreamExecutionEnvironment], None]:
    """Return the program, with the bug or without it."""

    def declare(env: StreamExecutionEnvironment) -> None:
        moves = env.from_collection(MOVES).uid("moves")
        real = moves.filter(lambda move: not mended or move[0] != "test").uid("real")
        stock = real.map(lambda move: change(move, mended)).uid("changes").key_by(0).sum(1).uid("sums")
        stock.map(lambda row: {"item": row[0], "pieces": row[1]}).uid("rows").sink_to(STOCK).uid("stock")

    return declare


def show() -> None:
    print("in the table:", {item: row["pieces"] for item, row in STOCK.table.items()})


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    warehouse(mended=False)(env)
    env.execute("last night")
    show()
    found = repair(env, warehouse(mended=True), wrong=warehouse(mended=False))
    print(found)
    found.apply()
    show()


if __name__ == "__main__":
    main()
