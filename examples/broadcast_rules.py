"""Fraud rules that change while payments go on: the rules are broadcast, the payments are grouped by card.

Two kinds of rule: a single payment above a limit, and the sum of a card's payments within ten minutes above one. A rule
that comes, changes or is withdrawn holds for every card at once, from its place in the log on. When a rule for sums
comes, cards that are above it already are told at once.

It prints, in any order:

    09:01  anna  payment of 1200 is above 1000 (large)
    09:04  anna  1350 within ten minutes is above 1300 (sum)
    09:04  bob  1400 within ten minutes is above 1300 (sum)
    09:05  bob  1600 within ten minutes is above 1300 (sum)
    09:06  carl  payment of 700 is above 500 (large)
    09:20  anna  payment of 900 is above 500 (large)
    09:22  anna  1500 within ten minutes is above 1300 (sum)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flintstream import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    monotonous,
)

MINUTE = 60_000
TEN_MINUTES = 10 * MINUTE
LOG = [
    {"at": "09:00", "rule": "large", "limit": 1000},
    {"at": "09:01", "card": "anna", "amount": 1200},
    {"at": "09:02", "card": "anna", "amount": 150},
    {"at": "09:02", "card": "bob", "amount": 700},
    {"at": "09:03", "card": "bob", "amount": 700},
    {"at": "09:04", "rule": "sum", "limit": 1300},
    {"at": "09:05", "card": "bob", "amount": 200},
    {"at": "09:05", "rule": "large", "limit": 500},
    {"at": "09:06", "card": "carl", "amount": 700},
    {"at": "09:20", "card": "anna", "amount": 900},
    {"at": "09:21", "rule": "large", "limit": None},
    {"at": "09:22", "card": "anna", "amount": 600},
    {"at": "09:23", "card": "carl", "amount": 900},
]
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
SPENT = ValueStateDescriptor("spent")


class Detect(KeyedBroadcastProcessFunction):
    """Keeps the rules in every instance, and for every card what it spent within ten minutes, and since when."""

    def open(self, runtime_context: Any) -> None:
        self.spent = runtime_context.get_state(SPENT)

    def process_element(
        self, value: dict[str, Any], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[str]:
        since, total = self.spent.value() or (value["ts"], 0)
        if value["ts"] >= since + TEN_MINUTES:
            since, total = value["ts"], 0
        self.spent.update((since, total + value["amount"]))
        ctx.timer_service().register_event_time_timer(since + TEN_MINUTES)
        for name, limit in ctx.get_broadcast_state(RULES).items():
            amount = value["amount"] if name == "large" else total + value["amount"]
            if amount > limit:
                yield alert(value["at"], value["card"], name, amount, limit)

    def process_broadcast_element(
        self, value: dict[str, Any], ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterator[str]:
        rules, limit = ctx.get_broadcast_state(RULES), value["limit"]
        if limit is None:
            rules.remove(value["rule"])
            return
        rules.put(value["rule"], limit)
        if value["rule"] == "sum":
            sums: dict[str, int] = {}
            ctx.apply_to_keyed_state(SPENT, lambda card, spent: sums.update({card: spent.value()[1]}))
            for card, total in sums.items():
                if total > limit:
                    yield alert(value["at"], card, "sum", total, limit)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> None:
        if self.spent.value() is not None and timestamp >= self.spent.value()[0] + TEN_MINUTES:
            self.spent.clear()


def alert(at: str, card: str, rule: str, amount: int, limit: int) -> str:
    what = f"payment of {amount}" if rule == "large" else f"{amount} within ten minutes"
    return f"{at}  {card}  {what} is above {limit} ({rule})"


def with_time(entry: dict[str, Any]) -> dict[str, Any]:
    hours, minutes = entry["at"].split(":")
    return {**entry, "ts": (int(hours) * 60 + int(minutes)) * MINUTE}


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    log = env.from_collection(LOG).map(with_time).assign_timestamps_and_watermarks(monotonous(on="ts"))
    rules = log.filter(lambda entry: "rule" in entry).broadcast(RULES)
    payments = log.filter(lambda entry: "card" in entry).key_by("card")
    for line in payments.connect(rules).process(Detect(), Types.STRING()).execute_and_collect("fraud"):
        print(line)


if __name__ == "__main__":
    main()
