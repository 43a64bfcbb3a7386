"""Programs that need Python: process functions, two-level programs, triggers, assigners and evictors of the user's own.

A transcript names a program by its function's name, and the others by theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flintstream import (
    DataStream,
    DeltaTrigger,
    Evictor,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MergingWindowAssigner,
    OutputTag,
    ReducingStateDescriptor,
    TimeDomain,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkGenerator,
    WatermarkStrategy,
    WindowAssigner,
    after_count,
    after_watermark,
    tumbling,
)
from flintstream.model.triggers import EventTimeTrigger
from tests.spec.functions import Count, Fold, Show, only, show, show_late, show_time, values

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let transcripts use this program by its name."""
    PROGRAMS[function.__name__] = function
    return function


class Alarms(KeyedProcessFunction):
    """A record's `v` is what to do: `set`, `delete`, both on the clock that it names, at `at` seconds."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        timers = ctx.timer_service()
        verb = "register" if value["v"] == "set" else "delete"
        getattr(timers, f"{verb}_{value['clock']}_time_timer")(value["at"] * 1000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        domain = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield show(ctx.get_current_key(), domain, show_time(timestamp))


@program
def alarms(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Alarms()).uid("alarms")


class Clocks(KeyedProcessFunction):
    """Says of every record its timestamp and both clocks, and the same at a timer 5 s of event time later."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5000)
        yield self._line("record", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        yield self._line("timer", ctx)

    def _line(self, what: str, ctx: Any) -> str:
        timers = ctx.timer_service()
        times = (ctx.timestamp(), timers.current_watermark(), timers.current_processing_time())
        return show(ctx.get_current_key(), what, *map(show_time, times))


@program
def clocks(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Clocks()).uid("clocks")


class Chain(KeyedProcessFunction):
    """Every timer sets another one `v` seconds later, three times in all."""

    def open(self, runtime_context: Any) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left"))
        self.step = runtime_context.get_state(ValueStateDescriptor("step"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        self.left.update(3)
        self.step.update(value["v"] * 1000)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + value["v"] * 1000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        yield show(
            ctx.get_current_key(), show_time(timestamp), "at", show_time(ctx.timer_service().current_watermark())
        )
        if self.left.value() == 1:
            self.left.clear()
            self.step.clear()
        else:
            self.left.update(self.left.value() - 1)
            ctx.timer_service().register_event_time_timer(timestamp + self.step.value())


@program
def chain_of_timers(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Chain()).uid("chain")


class Sorted(KeyedProcessFunction):
    """Emits records in the order of their timestamps once the watermark has passed them; late ones to `late`."""

    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_list_state(ListStateDescriptor("held"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if ctx.timestamp() <= ctx.timer_service().current_watermark():
            yield OutputTag("late"), show_late(value)
            return
        self.held.add((ctx.timestamp(), value["v"]))
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        rest = [each for each in self.held.get() if each[0] != timestamp]
        for _, value in (each for each in self.held.get() if each[0] == timestamp):
            yield show(ctx.get_current_key(), show_time(timestamp), value)
        self.held.update(rest) if rest else self.held.clear()


@program
def sorted_by_timers(stream: DataStream) -> dict[str, DataStream]:
    result = stream.key_by("key").process(Sorted()).uid("sort")
    return {"main": result, "late": result.get_side_output(OutputTag("late"))}


class Silence(KeyedProcessFunction):
    """Alerts when a key has been silent for 10 s by the clock; every record moves the alarm."""

    def open(self, runtime_context: Any) -> None:
        self.alarm = runtime_context.get_state(ValueStateDescriptor("alarm"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        timers = ctx.timer_service()
        if self.alarm.value() is not None:
            timers.delete_processing_time_timer(self.alarm.value())
        self.alarm.update(timers.current_processing_time() + 10_000)
        timers.register_processing_time_timer(self.alarm.value())
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        self.alarm.clear()
        yield show(ctx.get_current_key(), "silent since", show_time(timestamp - 10_000))


@program
def silence(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Silence()).uid("silence")


class Match(KeyedCoProcessFunction):
    """Pairs a record with the next one of the other side; one that finds none within 10 s of event time is alone."""

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[str]:
        return self._take(value, ctx, "left")

    def process_element2(self, value: Any, ctx: Any) -> Iterable[str]:
        return self._take(value, ctx, "right")

    def _take(self, value: Any, ctx: Any, side: str) -> Iterable[str]:
        held = self.waiting.value()
        if held is not None and held[0] != side:
            self.waiting.clear()
            ctx.timer_service().delete_event_time_timer(held[2])
            yield show(ctx.get_current_key(), held[1], "with", value["v"])
        else:
            deadline = ctx.timestamp() + 10_000
            self.waiting.update((side, value["v"], deadline))
            ctx.timer_service().register_event_time_timer(deadline)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        yield show(ctx.get_current_key(), self.waiting.value()[1], "alone")
        self.waiting.clear()


@program
def match(left: DataStream, right: DataStream) -> DataStream:
    return left.connect(right).key_by("key", "key").process(Match()).uid("match")


@program
def watermarks_seen(*streams: DataStream) -> DataStream:
    """Say of every record the watermark of the whole stream when it came."""
    first, *others = streams
    both = first.union(*others) if others else first
    return both.key_by("key").process(Clocks()).uid("clocks")


class Sums(Show):
    """A window's sum as a record, for another window."""

    def __init__(self) -> None:
        super().__init__(only)

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        for element in elements:
            yield {"key": key, "v": element, "group": "even" if element % 2 == 0 else "odd"}


@program
def sort(stream: DataStream) -> dict[str, DataStream]:
    result = stream.key_by("key").sort_by_event_time(late=OutputTag("late")).uid("sort")
    late = result.get_side_output(OutputTag("late")).map(show_late).uid("late as text")
    return {"main": result.map(show_late).uid("as text"), "late": late}


@program
def sort_all(stream: DataStream) -> DataStream:
    """All records in one order, whatever their keys."""
    return stream.sort_by_event_time().uid("sort").map(lambda row: f"[{show_late(row)}]").uid("as text")


@program
def window_of_window(stream: DataStream, lateness: str = "0s") -> DataStream:
    """The greatest 10 s sum of each half minute, by whether the sum is even."""
    first = stream.key_by("key").window(tumbling("10s")).allowed_lateness(lateness)
    sums = first.aggregate(Fold(sum), Sums()).uid("sums")
    second = sums.key_by("group").window(tumbling("30s")).allowed_lateness(lateness)
    return second.aggregate(Fold(max), Show(only)).uid("greatest")


@program
def total_of_panes(stream: DataStream) -> DataStream:
    """Early panes that each show what is new, added up in a larger window: every record counts once."""
    windows = stream.key_by("key").window(tumbling("10s")).trigger(after_watermark(early=after_count(2)))
    sums = windows.discarding().aggregate(Fold(sum), Sums()).uid("sums")
    return sums.key_by("key").window(tumbling("30s")).aggregate(Fold(sum), Show(only)).uid("total")


@program
def corrections_too_late(stream: DataStream) -> dict[str, DataStream]:
    """The first window takes late records, the second does not take the corrections that follow from them."""
    first = stream.key_by("key").window(tumbling("10s")).allowed_lateness("1m")
    sums = first.aggregate(Fold(sum), Sums()).uid("sums")
    late = OutputTag("late")
    second = sums.key_by("key").window(tumbling("20s")).side_output_late_data(late)
    result = second.process(Show(values)).uid("second")
    corrections = result.get_side_output(late).map(lambda row: show(row["key"], row["v"])).uid("late as text")
    return {"main": result, "late": corrections}


@program
def sorted_then_counted(stream: DataStream) -> DataStream:
    """Pairs of records in the order of event time: a count window after a sort does not depend on arrival."""
    ordered = stream.key_by("key").sort_by_event_time().uid("sort")
    return ordered.key_by("key").count_window(2).process(Show(values)).uid("pairs")


@program
def top_of_all(stream: DataStream) -> DataStream:
    """Each key's 10 s sum, then the greatest of all keys of the same window."""
    sums = stream.key_by("key").window(tumbling("10s")).aggregate(Fold(sum), Sums()).uid("sums")
    best = sums.key_by(lambda row: "all").window(tumbling("10s"))
    return best.process(Show(lambda context, rows: max((row["v"], row["key"]) for row in rows)[1])).uid("best")


class Growth(KeyedProcessFunction):
    """Says how a key's sum has grown since its last window, and that a window was missing 15 s after the last one."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        before, _ = self.last.value() or (0, None)
        self.last.update((value["v"], ctx.timestamp()))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 15_000)
        yield show(value["key"], show_time(ctx.timestamp()), f"{value['v'] - before:+d}")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        if self.last.value() is not None and self.last.value()[1] == timestamp - 15_000:
            self.last.clear()
            yield show(ctx.get_current_key(), "missing at", show_time(timestamp))


@program
def process_after_window(stream: DataStream) -> DataStream:
    sums = stream.key_by("key").window(tumbling("10s")).aggregate(Fold(sum), Sums()).uid("sums")
    return sums.key_by("key").process(Growth()).uid("growth")


@program
def both_clocks(stream: DataStream) -> dict[str, DataStream]:
    """Accurate counts by event time, and an alert by processing time, of one stream."""
    keyed = stream.key_by("key")
    return {
        "main": keyed.window(tumbling("1h")).aggregate(Count(), Show(only)).uid("hourly"),
        "alert": keyed.window(TumblingProcessingTimeWindows.of("1s")).aggregate(Count(), Show(only)).uid("alert"),
    }


@program
def split_by_value(stream: DataStream) -> dict[str, DataStream]:
    """A window, and records of the same stream beside it."""
    large = stream.filter(lambda row: row["v"] >= 10).map(show_late)
    return {
        "main": stream.key_by("key").window(tumbling("10s")).process(Show(values)).uid("window"),
        "large": large.uid("large"),
    }


@program
def time_assigned_later(stream: DataStream) -> DataStream:
    """Event time that is assigned behind an exchange: the stream is put in one piece for it."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("2s").with_timestamp_assigner(lambda row, _: row["v"])
    timed = stream.key_by("key").map(lambda row: row).uid("keyed").assign_timestamps_and_watermarks(strategy)
    return timed.uid("time").key_by("key").window(tumbling("10s")).aggregate(Count(), Show(only)).uid("window")


_SEEN = ReducingStateDescriptor("greatest", max, Types.LONG())


class Record(Trigger):
    """Fires whenever a window has a new greatest value, and at its end."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        state = ctx.get_partitioned_state(_SEEN)
        ctx.register_event_time_timer(window.max_timestamp())
        before = state.get()
        state.add(element["v"])
        return TriggerResult.FIRE if before is not None and element["v"] > before else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(_SEEN)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(_SEEN).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


class Timeout(Trigger):
    """Fires and purges when a window has `count` records, or 5 s by the clock after its first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seen = ValueStateDescriptor("seen", Types.LONG())
        self._deadline = ValueStateDescriptor("deadline", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        seen, deadline = ctx.get_partitioned_state(self._seen), ctx.get_partitioned_state(self._deadline)
        if deadline.value() is None:
            deadline.update(ctx.get_current_processing_time() + 5000 - 1)
            ctx.register_processing_time_timer(deadline.value())
        seen.update((seen.value() or 0) + 1)
        if seen.value() < self._count:
            return TriggerResult.CONTINUE
        self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Any) -> None:
        seen, deadline = ctx.get_partitioned_state(self._seen), ctx.get_partitioned_state(self._deadline)
        seen.clear()
        if deadline.value() is not None:
            ctx.delete_processing_time_timer(deadline.value())
            deadline.clear()


def distance(old: Any, new: Any) -> float:
    return abs(new["v"] - old["v"])


TRIGGERS: dict[str, Any] = {"on_record": Record(), "timeout": Timeout, "by_distance": DeltaTrigger.of(10, distance)}


class NoOddThenNoLarge(Evictor):
    def evict_before(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
        elements[:] = [element for element in elements if element.get_value()["v"] % 2 == 0]

    def evict_after(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
        elements[:] = [element for element in elements if element.get_value()["v"] <= 10]


EVICTORS: dict[str, Any] = {"no_odd_then_no_large": NoOddThenNoLarge()}


class ByTier(WindowAssigner):
    """Large values have windows of a second, small ones of ten; a negative one belongs nowhere."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        if element["v"] < 0:
            return []
        size = 1000 if element["v"] >= 100 else 10_000
        start = TimeWindow.get_window_start_with_offset(timestamp, 0, size)
        return [TimeWindow(start, start + size)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class BySameValue(ByTier, MergingWindowAssigner):
    """Stretches of ten seconds that overlap become one."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + 10_000)]

    def merge_windows(self, windows: Any, callback: Any) -> None:
        TimeWindow.merge_windows(windows, callback)


ASSIGNERS: dict[str, Any] = {"by_tier": ByTier(), "own_sessions": BySameValue()}


class Punctuated(WatermarkGenerator):
    """A record with a mark says that event time has come as far as its timestamp."""

    def on_event(self, event: Any, timestamp: int, output: Any) -> None:
        if event["mark"]:
            output.emit_watermark(timestamp)


class Lagging(WatermarkGenerator):
    """Stays behind the newest timestamp but one: what it remembers must survive."""

    def __init__(self) -> None:
        self._newest: list[int] = []

    def on_event(self, event: Any, timestamp: int, output: Any) -> None:
        self._newest = sorted([*self._newest, timestamp])[-2:]

    def on_periodic_emit(self, output: Any) -> None:
        if len(self._newest) == 2:
            output.emit_watermark(self._newest[0])


class Dozing(WatermarkGenerator):
    """A record may say that its split falls asleep; any other one is as far as event time is."""

    def on_event(self, event: Any, timestamp: int, output: Any) -> None:
        if event["v"] == "sleep":
            output.mark_idle()
        else:
            output.emit_watermark(timestamp)


GENERATORS: dict[str, Any] = {
    "dozing": WatermarkStrategy.for_generator(Dozing),
    "punctuated": WatermarkStrategy.for_generator(Punctuated),
    "lagging": WatermarkStrategy.for_generator(Lagging),
}
