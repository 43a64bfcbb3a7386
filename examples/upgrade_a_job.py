"""A new version of a job goes on from the savepoint of the old one, with other code and another parallelism.

python examples/upgrade_a_job.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/upgrade_a_job.py    in this process

Version 1 adds up what customers have spent. A savepoint is taken of what it has left in its checkpoint directory.
Version 2 also counts their orders, calls its operator by another name, and goes on with the sums.

It prints, in any order:

    v1: Ann 7
    v1: Bob 5
    a savepoint of job 'spending' with 2 entries
    v2: Ann has spent 8 in 1 orders since the upgrade
    v2: Bob has spent 10 in 1 orders since the upgrade
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

from flintstream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    savepoints,
)

Order = tuple[str, int]
MONDAY: list[Order] = [("Ann", 7), ("Bob", 5)]
TUESDAY: list[Order] = [("Ann", 1), ("Bob", 5)]


class Spending(KeyedProcessFunction):
    """Version 1."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.spent = runtime_context.get_state(ValueStateDescriptor("spent"))

    def process_element(self, value: Order, ctx: Any) -> Iterator[str]:
        self.spent.update((self.spent.value() or 0) + value[1])
        yield f"v1: {value[0]} {self.spent.value()}"


class SpendingAndOrders(KeyedProcessFunction):
    """Version 2: it has one state more."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.spent = runtime_context.get_state(ValueStateDescriptor("spent"))
        self.orders = runtime_context.get_state(ValueStateDescriptor("orders"))

    def process_element(self, value: Order, ctx: Any) -> Iterator[str]:
        self.spent.update((self.spent.value() or 0) + value[1])
        self.orders.update((self.orders.value() or 0) + 1)
        yield f"v2: {value[0]} has spent {self.spent.value()} in {self.orders.value()} orders since the upgrade"


def main() -> None:
    """Run version 1, take a savepoint, and run version 2 from it."""
    folder = tempfile.mkdtemp(prefix="flintstream-upgrade-")
    env = StreamExecutionEnvironment.get_execution_environment().set_checkpoint_dir(f"{folder}/v1")
    orders = env.from_collection(MONDAY).uid("monday")
    orders.key_by(lambda order: order[0]).process(Spending()).uid("spending").print().set_parallelism(1)
    env.execute("spending")

    path = savepoints.take(f"{folder}/v1", f"{folder}/savepoints", tags=["v1"])
    document = savepoints.show(path)
    print(f"a savepoint of job {document.job!r} with {document.rows} entries")

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(3)
    env.set_checkpoint_dir(f"{folder}/v2").start_from_savepoint(path, rename={"spending": "spending and orders"})
    orders = env.from_collection(TUESDAY).uid("tuesday")
    spending = orders.key_by(lambda order: order[0]).process(SpendingAndOrders()).uid("spending and orders")
    spending.print().set_parallelism(1)
    env.execute("spending")


if __name__ == "__main__":
    main()
