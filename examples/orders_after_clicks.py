"""Which orders follow a click of the same user within an hour? An interval join, and what it never found.

Clicks without an order are known as such when event time has passed their hour, and state is empty after it.

It prints, in any order:

    ada clicked at minute 0 and ordered at minute 60
    ada clicked at minute 70 and ordered at minute 75
    bob clicked at minute 10 and ordered nothing
    eve clicked at minute 80 and ordered nothing
"""

from __future__ import annotations

from typing import Any

from flintstream import DataStream, StreamExecutionEnvironment, monotonous

MINUTE = 60_000
CLICKS = [("ada", 0), ("bob", 10), ("ada", 70), ("eve", 80)]
ORDERS = [("ada", 60), ("bob", 71), ("ada", 75), ("dan", 200)]


def visits(env: StreamExecutionEnvironment, rows: list[tuple[str, int]]) -> DataStream:
    """Return (user, time) as a stream with its event time."""
    records = [{"user": user, "ts": minute * MINUTE} for user, minute in rows]
    return env.from_collection(records).assign_timestamps_and_watermarks(monotonous(on="ts"))


def tell(click: dict[str, Any], order: dict[str, Any] | None) -> str:
    """Say what became of a click."""
    outcome = "nothing" if order is None else f"at minute {order['ts'] // MINUTE}"
    return f"{click['user']} clicked at minute {click['ts'] // MINUTE} and ordered {outcome}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks, orders = visits(env, CLICKS).key_by("user"), visits(env, ORDERS).key_by("user")
    outcomes = clicks.interval_join(orders, how="left").between(0, "1h").process(tell)
    for outcome in outcomes.execute_and_collect("orders after clicks"):
        print(outcome)


if __name__ == "__main__":
    main()
