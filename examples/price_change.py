"""An order costs what its item cost when it was placed, though the price has changed since: a join with versions.

The price of a pen changes at 12:00. The order of 11:59 arrives last, long after the change, and still gets the old one.
At 12:30 the cup is no longer sold.

It prints, in any order:

    11:50  cup  5
    11:59  pen  2
    12:00  pen  3
    12:10  pen  3
    12:40  cup  no price
"""

from __future__ import annotations

from typing import Any

from flintstream import StreamExecutionEnvironment, bounded

MINUTE = 60_000
PRICES = [("pen", "11:00", 2), ("cup", "11:00", 5), ("pen", "12:00", 3), ("cup", "12:30", None)]
ORDERS = [("cup", "11:50"), ("pen", "12:10"), ("cup", "12:40"), ("pen", "12:00"), ("pen", "11:59")]


def time_of_day(clock: str) -> int:
    hours, minutes = clock.split(":")
    return (int(hours) * 60 + int(minutes)) * MINUTE


def priced(order: dict[str, Any], price: dict[str, Any] | None) -> str:
    return f"{order['clock']}  {order['item']}  {'no price' if price is None else price['price']}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    up_to_an_hour_late = bounded("1h", on="ts")
    orders = env.from_collection([{"item": item, "clock": at, "ts": time_of_day(at)} for item, at in ORDERS])
    prices = env.from_collection([{"item": item, "ts": time_of_day(at), "price": price} for item, at, price in PRICES])
    orders = orders.assign_timestamps_and_watermarks(up_to_an_hour_late)
    prices = prices.assign_timestamps_and_watermarks(up_to_an_hour_late)
    versions = prices.key_by("item")
    join = orders.key_by("item").temporal_join(versions, how="left").ends_when(lambda price: price["price"] is None)
    for line in join.apply(priced).execute_and_collect("price change"):
        print(line)


if __name__ == "__main__":
    main()
