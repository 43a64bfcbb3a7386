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
    EventTimeTrigger,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ValueStateDescriptor,
    after_count,
    after_watermark,
    approx_count_distinct,
    approx_quantile,
    collect_list,
    count,
    count_distinct,
    each,
    every,
    first_of,
    last_of,
    max_of,
    median,
    min_of,
    session,
    sliding,
    stddev,
    sum_of,
    top_n,
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


class OwnShare(ProcessFunction):
    """Of records that all instances have, each emits its share; were one there twice or not at all, it would show."""

    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        self.instances = runtime_context.get_number_of_parallel_subtasks()

    def process_element(self, value, ctx):
        if value["n"] % self.instances == self.index:
            yield value["key"], value["n"], ctx.timestamp()


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


def every_aggregate() -> dict[str, Any]:
    return {
        "n": count(),
        "total": sum_of("n"),
        "most": max_of("n"),
        "spread": stddev("n"),
        "first": first_of("n"),
        "last": last_of(),
        "kinds": count_distinct("ts"),
        "about": approx_count_distinct("n"),
        "middle": median("n"),
        "near": approx_quantile("n", 0.9),
        "top": top_n(2, "n"),
        "all": collect_list("n"),
    }


class Slowly(EventTimeTrigger):
    """The default trigger under another name, with which windows are computed record by record."""


def columns_of_any_kind(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(tumbling("10ms")), lambda w: w.agg(**every_aggregate()))


def columns_sliding(left: DataStream, right: DataStream) -> Outputs:
    kept = {name: each for name, each in every_aggregate().items() if name in ("n", "total", "most", "spread", "kinds")}
    return with_late(left.key_by("key").window(sliding("9ms", "3ms")), lambda w: w.agg(**kept))


def columns_sliding_in_order(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(sliding("10ms", "4ms")), lambda w: w.agg(**every_aggregate()))


def columns_session(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(session("4ms")), lambda w: w.agg(**every_aggregate()))


def columns_of_columns(left: DataStream, right: DataStream) -> Outputs:
    first = with_late(left.key_by("key").window(session("2ms")), lambda w: w.agg(n=count(), total=sum_of("n")))
    second = with_late(first["main"].key_by("n").window(sliding("20ms", "10ms")), lambda w: w.agg(t=sum_of("total")))
    return {"first late": first["late"], **second}


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


def broadcast(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.union(right).broadcast().process(OwnShare())}


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


class Ordered(KeyedProcessFunction):
    """Emits what it gets with the watermark at that moment."""

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), ctx.timestamp(), value["n"], ctx.timer_service().current_watermark()


def sorted_by_key(left: DataStream, right: DataStream) -> Outputs:
    main = left.key_by("key").sort_by_event_time(late=LATE)
    return {"main": main, "late": main.get_side_output(LATE), "after": main.key_by("key").process(Ordered())}


def sorted_as_a_whole(left: DataStream, right: DataStream) -> Outputs:
    main = left.union(right).sort_by_event_time(late=LATE)
    return {"main": main, "late": main.get_side_output(LATE)}


def windows_by_data(left: DataStream, right: DataStream) -> Outputs:
    keyed = left.key_by("key")
    return {
        "delta": keyed.delta_window("ts", 12).process(Numbers()),
        "until": keyed.window_until(lambda r: r["n"] % 4 == 0).process(Numbers()),
        "in order": left.sort_by_event_time().key_by("key").delta_window("ts", 12).process(Numbers()),
    }


class Numbers(ProcessWindowFunction):
    """Emits a window's records in their order, for windows of any kind."""

    def process(self, key, context, elements):
        yield key, [element["n"] for element in elements], context.current_watermark()


class InPanes(ProcessWindowFunction):
    """Emits a window's records in their order, its pane, and the end of the window as the number `ts`."""

    def process(self, key, context, elements):
        window, pane = context.window(), context.pane()
        numbers = [element["n"] for element in elements]
        yield {
            "key": key,
            "ts": window.max_timestamp(),
            "n": sum(numbers),
            "numbers": numbers,
            "pane": (window.start, pane.timing.name, pane.number, pane.last, context.current_watermark()),
        }


def in_panes(windows: Any) -> Any:
    early = after_count(3) | every("4ms", event_time=True)
    return windows.trigger(after_watermark(early=early, late=each())).allowed_lateness(5)


def panes_tumbling(left: DataStream, right: DataStream) -> Outputs:
    windows = in_panes(left.key_by("key").window(tumbling("10ms"))).accumulating()
    return with_late(windows, lambda w: w.process(InPanes()))


def panes_session(left: DataStream, right: DataStream) -> Outputs:
    windows = in_panes(left.key_by("key").window(session("4ms"))).retracting()
    return with_late(windows, lambda w: w.process(InPanes()))


def panes_on_panes(left: DataStream, right: DataStream) -> Outputs:
    """Early, late and retracted results of windows, in windows again."""
    first = in_panes(left.key_by("key").window(sliding("10ms", "5ms"))).retracting().aggregate(Sum())
    flat = first.map(lambda p: {"key": p.value % 2, "ts": p.window.end - 1, "n": -1 if p.info.is_retraction else 1})
    second = in_panes(flat.key_by("key").window(tumbling("20ms"))).discarding()
    return with_late(second, lambda w: w.process(InPanes()))


def process_after_panes(left: DataStream, right: DataStream) -> Outputs:
    windows = in_panes(left.key_by("key").window(session("3ms"))).discarding()
    main = with_late(windows, lambda w: w.process(InPanes()))
    return {"late": main["late"], "main": main["main"].key_by(lambda r: r["n"] % 2).process(Tally())}


ANY_ORDER: list[Program] = [sums_by_deadline, sums_in_windows, sums_in_columns, sums_of_sums]
"""Give the same results however several splits interleave, as long as nothing is late."""

ALL: list[Program] = [
    timers,
    windows_aggregate,
    windows_process,
    windows_columns,
    columns_of_any_kind,
    columns_sliding,
    columns_sliding_in_order,
    columns_session,
    columns_of_columns,
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
    sorted_by_key,
    sorted_as_a_whole,
    windows_by_data,
    broadcast,
    panes_tumbling,
    panes_session,
    panes_on_panes,
    process_after_panes,
    *ANY_ORDER,
]
