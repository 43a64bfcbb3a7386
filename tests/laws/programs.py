"""Programs for the batching law: between them they use timers, windows of every shape, state, unions, two inputs.

Every program takes two streams of `{"key", "ts", "n"}` and returns its outputs by name, late records included. What it
emits tells as much as possible about when it was emitted: contents in order, and the watermark at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream import (
    AggregateFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ValueStateDescriptor,
    count,
    max_of,
    min_of,
    session,
    sliding,
    sum_of,
    tumbling,
)

Outputs = dict[str, DataStream]
Program = Callable[[DataStream, DataStream], Outputs]
LATE = OutputTag("late")


def with_late(windows: Any, finish: Callable[[Any], DataStream]) -> Outputs:
    main = finish(windows.side_output_late_data(LATE))
    return {"main": main, "late": main.get_side_output(LATE)}


class Timers(KeyedProcessFunction):
    """Emits on every record and on timers, some of which are deleted again."""

    def open(self, runtime_context):
        self.held = runtime_context.get_list_state(ListStateDescriptor("held"))
        self.alarm = runtime_context.get_state(ValueStateDescriptor("alarm"))

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        self.held.add(value["n"])
        timers.register_event_time_timer(ctx.timestamp() + 4)
        timers.register_event_time_timer(ctx.timestamp() // 10 * 10 + 9)
        if self.alarm.value() is not None and value["n"] % 3 == 0:
            timers.delete_event_time_timer(self.alarm.value())
        self.alarm.update(ctx.timestamp() + 4)
        if value["n"] % 2:
            yield "record", value["key"], value["n"], timers.current_watermark()

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, list(self.held.get()), ctx.timer_service().current_watermark()
        if timestamp % 10 == 9:
            self.held.clear()


class Contents(ProcessWindowFunction):
    """Emits a window's records in their order, and how often it has fired."""

    def process(self, key, context, elements):
        fired = context.window_state().get_state(ValueStateDescriptor("fired"))
        fired.update((fired.value() or 0) + 1)
        window = context.window()
        values = [element["n"] for element in elements]
        yield key, window.start, window.end, values, fired.value(), context.current_watermark()

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("fired")).clear()


class Merged(ProcessWindowFunction):
    """Emits a window's records in their order; windows that merge have no state of their own."""

    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, [element["n"] for element in elements], context.current_watermark()


class Bare(ProcessWindowFunction):
    """Emits a window's contents, whatever they are, and the window's end as the number `ts`."""

    def process(self, key, context, elements):
        for element in elements:
            yield {"key": key, "ts": context.window().max_timestamp(), "n": element}


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value["n"]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Tally(KeyedProcessFunction):
    """Counts what it has seen of each kind, and emits all of it every time and once more at a timer."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value, ctx):
        self.seen.put(value["n"], (self.seen.get(value["n"]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value["ts"] + 7)
        yield ctx.get_current_key(), value["ts"], sorted(self.seen.items()), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, sorted(self.seen.items()), "timer"


class Pairs(KeyedCoProcessFunction):
    """Puts the newest record of the left stream beside each of the right, and forgets it at a timer."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left"))

    def process_element1(self, value, ctx):
        self.left.update(value["n"])
        ctx.timer_service().register_event_time_timer(value["ts"] + 6)

    def process_element2(self, value, ctx):
        yield value["key"], self.left.value(), value["n"], ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "forgot", self.left.value(), timestamp
        self.left.clear()


class SumsByDeadline(KeyedProcessFunction):
    """Emits, at every tenth millisecond, the sum of what belongs before it: the same however splits interleave."""

    def open(self, runtime_context):
        self.held = runtime_context.get_list_state(ListStateDescriptor("held"))

    def process_element(self, value, ctx):
        self.held.add((ctx.timestamp(), value["n"]))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 10 * 10 + 9)

    def on_timer(self, timestamp, ctx):
        due = [n for at, n in self.held.get() if at <= timestamp]
        self.held.update([(at, n) for at, n in self.held.get() if at > timestamp])
        yield ctx.get_current_key(), timestamp, len(due), sum(due)


class Twice(ProcessFunction):
    def process_element(self, value, ctx):
        yield OutputTag("odd") if value["n"] % 2 else OutputTag("even"), value["n"]
        yield value["key"], value["n"], ctx.timestamp(), ctx.timer_service().current_watermark()


def timers(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.key_by("key").process(Timers())}


def windows_aggregate(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(tumbling("10ms")), lambda w: w.aggregate(Sum(), Bare()))


def windows_process(left: DataStream, right: DataStream) -> Outputs:
    windows = left.key_by("key").window(tumbling("10ms")).allowed_lateness(5)
    return with_late(windows, lambda w: w.process(Contents()))


def windows_columns(left: DataStream, right: DataStream) -> Outputs:
    windows = left.key_by("key").window(tumbling("10ms"))
    return with_late(windows, lambda w: w.agg(n=count(), total=sum_of("n"), least=min_of("n"), most=max_of("n")))


def windows_sliding(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(sliding("9ms", "3ms")), lambda w: w.process(Contents()))


def windows_session(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(session("4ms")), lambda w: w.process(Merged()))


def windows_count(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.key_by("key").count_window(3).reduce(lambda x, y: {**y, "n": x["n"] * 10 + y["n"]})}


def windows_all(left: DataStream, right: DataStream) -> Outputs:
    return with_late(
        left.window_all(tumbling("10ms")), lambda w: w.reduce(lambda x, y: {**x, "n": x["n"] * 3 + y["n"]})
    )


def rolling(left: DataStream, right: DataStream) -> Outputs:
    reduced = left.key_by("key").reduce(lambda x, y: {**y, "n": x["n"] * 3 + y["n"]})
    return {"reduce": reduced, "min_by": left.key_by("key").min_by("n")}


def window_on_window(left: DataStream, right: DataStream) -> Outputs:
    first = with_late(left.key_by("key").window(tumbling("5ms")), lambda w: w.aggregate(Sum(), Bare()))
    second = with_late(
        first["main"].key_by(lambda r: r["n"] % 2).window(tumbling("20ms")), lambda w: w.process(Contents())
    )
    return {"first late": first["late"], **second}


def process_after_window(left: DataStream, right: DataStream) -> Outputs:
    windows = with_late(left.key_by("key").window(tumbling("10ms")), lambda w: w.aggregate(Sum(), Bare()))
    return {"late": windows["late"], "main": windows["main"].key_by(lambda r: r["n"] % 2).process(Tally())}


def union(left: DataStream, right: DataStream) -> Outputs:
    both = left.union(right.map(lambda r: {**r, "n": -r["n"]}))
    windows = with_late(both.key_by("key").window(tumbling("10ms")), lambda w: w.process(Contents()))
    return {**windows, "timers": both.key_by("key").process(Timers())}


def diamond(left: DataStream, right: DataStream) -> Outputs:
    """A stream that meets itself: its records come by two ways."""
    minus = left.map(lambda r: {**r, "n": -r["n"] - 1}).filter(lambda r: r["n"] % 3)
    both = left.filter(lambda r: r["n"] % 4).union(minus)
    side = left.connect(minus).key_by("key", "key").process(Pairs())
    windows = with_late(both.key_by("key").window(tumbling("10ms")), lambda w: w.process(Contents()))
    return {
        **windows,
        "rolling": both.key_by("key").reduce(lambda x, y: {**y, "n": x["n"] * 3 + y["n"]}),
        "pairs": side,
    }


def connect(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.connect(right).key_by("key", "key").process(Pairs())}


def spread(left: DataStream, right: DataStream) -> Outputs:
    split = left.flat_map(lambda r: [r] * (r["n"] % 3)).rebalance().process(Twice())
    keyed = split.get_side_output(OutputTag("odd")).key_by(lambda n: n % 2).reduce(lambda x, y: x * 3 + y)
    return {"main": split, "odd": keyed, "even": split.get_side_output(OutputTag("even"))}


def sums_by_deadline(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.union(right).key_by("key").process(SumsByDeadline())}


def sums_in_windows(left: DataStream, right: DataStream) -> Outputs:
    windows = left.union(right).key_by("key").window(tumbling("10ms"))
    return with_late(windows, lambda w: w.aggregate(Sum(), Bare()))


def sums_in_columns(left: DataStream, right: DataStream) -> Outputs:
    windows = left.union(right).key_by("key").window(tumbling("10ms"))
    return with_late(windows, lambda w: w.agg(n=count(), total=sum_of("n"), least=min_of("n"), most=max_of("n")))


def sums_of_sums(left: DataStream, right: DataStream) -> Outputs:
    first = with_late(left.union(right).key_by("key").window(tumbling("5ms")), lambda w: w.aggregate(Sum(), Bare()))
    second = with_late(first["main"].key_by("key").window(tumbling("20ms")), lambda w: w.aggregate(Sum(), Bare()))
    return {"first late": first["late"], **second}


ANY_ORDER: list[Program] = [sums_by_deadline, sums_in_windows, sums_in_columns, sums_of_sums]
"""Give the same results however several splits interleave, as long as nothing is late."""

ALL: list[Program] = [
    timers,
    windows_aggregate,
    windows_process,
    windows_columns,
    windows_sliding,
    windows_session,
    windows_count,
    windows_all,
    rolling,
    window_on_window,
    process_after_window,
    union,
    diamond,
    connect,
    spread,
    *ANY_ORDER,
]
