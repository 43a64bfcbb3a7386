"""State as a table: what customers spent before the job existed becomes its state; afterwards its state is a table.

The history is a batch table, written as a savepoint that the job starts from. Then one total is found to be wrong: the
difference between two savepoints shows what the repair changes.

It prints:

    ann has spent 120
    bob has spent 55
    {'customer': 'ann', 'total': 120}
    {'customer': 'bob', 'total': 55}
    {'customer': 'eve', 'total': 7}
    different: eve had 7, has 70
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flintstream import (
    KeyedProcessFunction,
    RuntimeContext,
    SavepointWriter,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    savepoint,
)

TOTAL = ValueStateDescriptor("total", int)
HISTORY = pa.table({"customer": ["ann", "bob", "eve"], "total": [100, 50, 7]})


class Spent(KeyedProcessFunction):
    """Adds an order to what its customer has spent."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        total = (self._total.value() or 0) + value[1]
        self._total.update(total)
        yield f"{value[0]} has spent {total}"


def main() -> None:
    folder = tempfile.mkdtemp()
    writer = SavepointWriter.new_savepoint().with_state("spent", TOTAL, HISTORY, key="customer")
    history = writer.write(f"{folder}/history")

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.set_checkpoint_dir(f"{folder}/checkpoints")
    env.start_from_savepoint(history)
    orders = env.from_collection([("ann", 20), ("bob", 5)])
    for line in orders.key_by(0).process(Spent()).uid("spent").execute_and_collect("orders"):
        print(line)

    # Without `arrow=True` this is a Spark DataFrame.
    totals = (
        savepoint(f"{folder}/checkpoints").state("spent", "total", arrow=True).rename_columns(["customer", "total"])
    )
    for row in totals.sort_by("customer").to_pylist():
        print(row)

    repaired = pa.table({"key": ["ann", "bob", "eve"], "value": [120, 55, 70]})
    writer = SavepointWriter.from_existing_savepoint(f"{folder}/checkpoints").with_state("spent", TOTAL, repaired)
    diff = savepoint(f"{folder}/checkpoints").diff(writer.write(f"{folder}/repaired"))
    for row in diff.state("spent", "total", arrow=True).to_pylist():
        print(f"{row['change']}: {row['key']} had {row['here_value']}, has {row['there_value']}")


if __name__ == "__main__":
    main()
