"""An A/B test: two versions of a job from one savepoint over one read of the log, compared.

The shop counts what each customer spends, and rewards those above a limit. What if refunds counted, too? Production is
stopped with a savepoint; then both versions begin with its state and read what has come since. Nothing that production
writes to is touched.

It prints:

    rewards: 1 rows are the same, 1 only in today, 0 only in with refunds, 1 differ
      only in today
        customer  spent
        bob       104
      differ
        customer  spent (today)  spent (with refunds)
        eve       130            110
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from flintstream import CollectSink, LogPart, LogSource, StreamExecutionEnvironment, TimedRecords, experiment

Order = tuple[str, int]
BEFORE: list[Order] = [("ann", 60), ("bob", 90), ("eve", 80)]
SINCE: list[Order] = [("ann", 50), ("bob", -7), ("bob", 7), ("eve", -10), ("eve", 40)]


class Orders(LogSource):
    """A log of orders that goes on for ever, with one part."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self.orders = orders

    @property
    def is_bounded(self) -> bool:
        return False

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        return [] if known else [LogPart("orders")]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(names, len(self.orders))

    def read_part(self, name: str, start: int, end: int) -> TimedRecords:
        return TimedRecords(list(self.orders[start:end]), list(range(start, end)))


def shop(orders: Sequence[Order], refunds: bool) -> Callable[[StreamExecutionEnvironment], None]:
    """Return a version of the program."""

    def declare(env: StreamExecutionEnvironment) -> None:
        amounts = env.from_source(Orders(orders)).uid("orders")
        amounts = amounts.map(lambda order: order if refunds else (order[0], abs(order[1]))).uid("amounts")
        spent = amounts.key_by(0).sum(1).uid("spent")
        rewarded = spent.filter(lambda row: row[1] > 100).uid("rewarded")
        rows = rewarded.map(lambda row: {"customer": row[0], "spent": row[1]}).uid("rows")
        rows.sink_to(CollectSink()).uid("rewards")

    return declare


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = StreamExecutionEnvironment.get_execution_environment()
        shop(BEFORE, refunds=False)(env)
        client = env.execute_async("production")
        client.caught_up().result()
        savepoint: Any = client.stop_with_savepoint(False, folder).result()

        today, tomorrow = shop(BEFORE + SINCE, refunds=False), shop(BEFORE + SINCE, refunds=True)
        names = ("today", "with refunds")
        print(experiment(env, today, tomorrow, names=names, savepoint=savepoint, key="customer"))


if __name__ == "__main__":
    main()
