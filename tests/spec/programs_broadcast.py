"""Programs with broadcast state. With one source, the column `side` says whether a record is an event or a rule.

A rule has its name as `key` and a limit as `v`; `off` takes it away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
    MapStateDescriptor,
    OutputTag,
    Types,
    ValueStateDescriptor,
)
from tests.spec.functions import show, show_time
from tests.spec.programs import program

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.INT())
CHANGES = MapStateDescriptor("changes")
TOTAL = ValueStateDescriptor("total", int)
RULE = OutputTag("rule", Types.STRING())
CALM = OutputTag("calm")


def sides(stream: DataStream, rules: DataStream | None) -> tuple[DataStream, DataStream]:
    if rules is not None:
        return stream, rules
    events = stream.filter(lambda row: row["side"] == "event").uid("events")
    return events, stream.filter(lambda row: row["side"] == "rule").uid("rules")


def set_limit(value: Any, ctx: Any) -> None:
    limits, changes = ctx.get_broadcast_state(LIMITS), ctx.get_broadcast_state(CHANGES)
    if value["v"] == "off":
        limits.remove(value["key"])
        changes.remove(value["key"])
    else:
        limits.put(value["key"], value["v"])
        changes[value["key"]] = (changes[value["key"]] or 0) + 1


def exceeded(ctx: Any, amount: int) -> str:
    """Return the names of all limits that an amount is above, in the order of the state."""
    return ",".join(name for name, limit in ctx.get_broadcast_state(LIMITS).items() if amount > limit)


class Check(BroadcastProcessFunction):
    """Says of every event which limits it is above, and how often these were set; calm ones go to a side output."""

    def open(self, runtime_context: Any) -> None:
        self.is_first = runtime_context.get_index_of_this_subtask() == 0

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        names = exceeded(ctx, value["v"])
        changes = ctx.get_broadcast_state(CHANGES)
        if names:
            yield show(value["key"], value["v"], names, sum(changes.get(name) for name in names.split(",")))
        else:
            yield CALM, show(value["key"], value["v"], show_time(ctx.timestamp()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        set_limit(value, ctx)
        if self.is_first:
            yield RULE, show(value["key"], value["v"], len(ctx.get_broadcast_state(LIMITS).keys()))


@program
def limits(stream: DataStream, rules: DataStream | None = None) -> dict[str, DataStream]:
    events, rules = sides(stream, rules)
    main = events.connect(rules.broadcast(LIMITS, CHANGES)).process(Check(), Types.STRING()).uid("check")
    return {"main": main, "calm": main.get_side_output(CALM), "rule": main.get_side_output(RULE)}


class Totals(KeyedBroadcastProcessFunction):
    """Adds up events by key; at a timer 10 s after each it says which limits the sum is above, and forgets it."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        self.total.update((self.total.value() or 0) + value["v"])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        set_limit(value, ctx)
        alert = Alert(value["key"], value["v"])
        ctx.apply_to_keyed_state(TOTAL, alert)
        return alert.found

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        if self.total.value() is not None:
            names = exceeded(ctx, self.total.value()) or "none"
            yield show(ctx.get_current_key(), "timer", self.total.value(), names, show_time(ctx.current_watermark()))
        self.total.clear()


class Alert(KeyedStateFunction):
    """Tells of every key that is above a new limit at once, and takes that much off it."""

    def __init__(self, name: str, limit: Any) -> None:
        self._name = name
        self._limit = limit
        self.found: list[Any] = []

    def process(self, key: Any, state: Any) -> None:
        if self._limit != "off" and state.value() > self._limit:
            self.found.append((RULE, show(key, state.value(), "above", self._name)))
            state.update(state.value() - self._limit)


@program
def totals(stream: DataStream, rules: DataStream | None = None) -> dict[str, DataStream]:
    events, rules = sides(stream, rules)
    main = events.key_by("key").connect(rules.broadcast(LIMITS, CHANGES)).process(Totals()).uid("totals")
    return {"main": main, "rule": main.get_side_output(RULE)}


class Late(KeyedBroadcastProcessFunction):
    """Holds events back for as many seconds of the clock as the rule `delay` says when they come."""

    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        delay = ctx.get_broadcast_state(LIMITS).get("delay")
        if delay is None:
            yield show(ctx.get_current_key(), value["v"], "at once")
            return
        self.held.update(value["v"])
        ctx.timer_service().register_processing_time_timer(ctx.current_processing_time() + delay * 1000)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        set_limit(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        yield show(ctx.get_current_key(), self.held.value(), ctx.time_domain().name.lower(), show_time(timestamp))
        self.held.clear()


@program
def delayed(stream: DataStream) -> DataStream:
    events, rules = sides(stream, None)
    return events.key_by("key").connect(rules.broadcast(LIMITS, CHANGES)).process(Late()).uid("delayed")
