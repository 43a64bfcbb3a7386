"""State and an event-time timer: an account's balance, and a note two seconds after each booking that left it negative.

The timer is taken back when the account is balanced again in time.

python examples/account_alerts.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/account_alerts.py    in this process

It prints:

    ann 20
    bob -5
    ann -10
    ann 30
    bob -25
    note at 3: bob has had a negative balance since 1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flintstream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor, bounded

BOOKINGS = [
    {"account": "ann", "time": 0, "amount": 20},
    {"account": "bob", "time": 1000, "amount": -5},
    {"account": "ann", "time": 1000, "amount": -30},
    {"account": "ann", "time": 2000, "amount": 40},
    {"account": "bob", "time": 2000, "amount": -20},
]


class Balance(KeyedProcessFunction):
    """Emits the balance after each booking."""

    def open(self, runtime_context: Any) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", int))
        self.negative_since = runtime_context.get_state(ValueStateDescriptor("negative since", int))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        balance = (self.balance.value() or 0) + value["amount"]
        self.balance.update(balance)
        since = self.negative_since.value()
        if balance < 0 and since is None:
            self.negative_since.update(ctx.timestamp())
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)
        elif balance >= 0 and since is not None:
            self.negative_since.clear()
            ctx.timer_service().delete_event_time_timer(since + 2000)
        yield f"{value['account']} {balance}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        since = self.negative_since.value() // 1000
        yield f"note at {timestamp // 1000}: {ctx.get_current_key()} has had a negative balance since {since}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    bookings = env.from_collection(BOOKINGS).assign_timestamps_and_watermarks(bounded("0s", on="time"))
    for line in bookings.key_by("account").process(Balance()).execute_and_collect("account alerts"):
        print(line)


if __name__ == "__main__":
    main()
