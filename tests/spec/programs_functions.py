"""Programs of the transcripts about functions: of one stream and of two, with every kind of state, timers of timers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    DistinctCountStateDescriptor,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    QuantilesStateDescriptor,
    ReducingStateDescriptor,
    ReservoirStateDescriptor,
    TimeDomain,
    TopKStateDescriptor,
    ValueStateDescriptor,
)
from tests.spec.functions import show, show_time
from tests.spec.programs import program


def line(row: Any) -> str:
    return show(row["key"], row["v"])


class Plans(KeyedProcessFunction):
    """Sets a timer `at`; when it fires, it does what `then` says (`set` or `delete`) to the timer `other`."""

    def open(self, runtime_context: Any) -> None:
        self.plans = runtime_context.get_map_state(MapStateDescriptor("plans"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        self._do("set", value["clock"], value["at"], ctx)
        if value["then"] != "nothing":
            self.plans.put((value["clock"], value["at"]), (value["then"], value["other"]))
        return ()

    def _do(self, verb: str, clock: str, at: int, ctx: Any) -> None:
        word = "register" if verb == "set" else "delete"
        getattr(ctx.timer_service(), f"{word}_{clock}_time_timer")(at * 1000)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        clock = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        plan = self.plans.get((clock, timestamp // 1000))
        self.plans.remove((clock, timestamp // 1000))
        if plan is not None:
            self._do(plan[0], clock, plan[1], ctx)
        yield show(ctx.get_current_key(), clock, show_time(timestamp))


@program
def timers_of_timers(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Plans()).uid("plans")


class Sides(CoMapFunction):
    """Says which side a record came from; a zero gives nothing."""

    def map1(self, value: Any) -> str | None:
        return show(value["key"], "left", value["v"]) if value["v"] else None

    def map2(self, value: Any) -> str | None:
        return show(value["key"], "right", value["v"]) if value["v"] else None


@program
def co_map(left: DataStream, right: DataStream) -> DataStream:
    return left.connect(right).map(Sides()).uid("sides")


class Gate(CoFlatMapFunction):
    """The first stream opens and closes a gate for the records of its key in the second."""

    def open(self, runtime_context: Any) -> None:
        self.gate = runtime_context.get_state(ValueStateDescriptor("gate", bool))

    def flat_map1(self, value: Any) -> Iterable[str]:
        if value["v"] == "open":
            self.gate.update(True)
        else:
            self.gate.clear()
        return ()

    def flat_map2(self, value: Any) -> Iterable[str]:
        if self.gate.value():
            yield show(value["key"], "passed", value["v"])
            yield show(value["key"], "and was seen")


@program
def co_flat_map(left: DataStream, right: DataStream) -> DataStream:
    return left.connect(right).key_by("key", "key").flat_map(Gate()).uid("gate")


class Sorting(CoProcessFunction):
    """The first stream goes on, the second to a side output, each with its timestamp."""

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield show(value["key"], show_time(ctx.timestamp()), value["v"])

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield OutputTag("second"), show(value["key"], show_time(ctx.timestamp()), value["v"])


@program
def co_process(left: DataStream, right: DataStream) -> dict[str, DataStream]:
    result = left.connect(right).process(Sorting()).uid("sorting")
    return {"main": result, "second": result.get_side_output(OutputTag("second"))}


class Enrich(KeyedCoProcessFunction):
    """Records of the first stream wait for what the second says of their key; after 10 s nobody waits any more."""

    def open(self, runtime_context: Any) -> None:
        self.known = runtime_context.get_state(ValueStateDescriptor("known"))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        if self.known.value() is not None:
            yield show(value["key"], value["v"], self.known.value())
            return
        self.waiting.add(value["v"])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.known.update(value["v"])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)
        for waiting in self.waiting:
            yield show(value["key"], waiting, value["v"])
        self.waiting.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        for waiting in self.waiting:
            yield OutputTag("unknown"), show(ctx.get_current_key(), waiting)
        self.waiting.clear()
        self.known.clear()


@program
def keyed_co_process(left: DataStream, right: DataStream) -> dict[str, DataStream]:
    result = left.connect(right).key_by("key", "key").process(Enrich()).uid("enrich")
    return {"main": result, "unknown": result.get_side_output(OutputTag("unknown"))}


@program
def map_with_state(stream: DataStream) -> DataStream:
    """How much has come so far; a zero forgets."""

    def total(row: Any, before: int | None) -> tuple[str, int | None]:
        now = (before or 0) + row["v"]
        return show(row["key"], now), now if row["v"] else None

    return stream.key_by("key").map_with_state(total).uid("total")


@program
def rolling(stream: DataStream, by: str) -> DataStream:
    """An aggregate that is updated by every record; `w` is a field beside the one that is aggregated."""
    keyed = stream.key_by("key")
    result = getattr(keyed, by)("v")
    return result.uid("rolling").map(lambda row: show(row["key"], row["v"], row["w"])).uid("as text")


@program
def rolling_reduce(stream: DataStream) -> DataStream:
    joined = stream.key_by("key").reduce(lambda one, other: {**one, "v": f"{one['v']}{other['v']}"})
    return joined.uid("reduce").map(line).uid("as text")


class Changed(FilterFunction):
    """Keeps a record that differs from the one before it of its key; a zero is forgotten."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def filter(self, value: Any) -> bool:
        differs = value["v"] != self.last.value()
        self.last.update(value["v"] or None)
        return differs


class Numbered(MapFunction):
    """Numbers the records of a key up to the third, then from the beginning."""

    def open(self, runtime_context: Any) -> None:
        self.number = runtime_context.get_reducing_state(ReducingStateDescriptor("number", lambda a, b: a + b))

    def map(self, value: Any) -> str:
        self.number.add(1)
        number = self.number.get()
        if number == 3:
            self.number.clear()
        return show(value["key"], f"{number}:{value['v']}")


class InPairs(FlatMapFunction):
    """Every second record of a key gives both, in the order they came."""

    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_list_state(ListStateDescriptor("held"))

    def flat_map(self, value: Any) -> Iterable[str]:
        self.held.add(value["v"])
        held = list(self.held)
        if len(held) == 2:
            self.held.clear()
            yield from (show(value["key"], each) for each in held)


@program
def stateful_filter(stream: DataStream) -> DataStream:
    return stream.key_by("key").filter(Changed()).uid("changed").map(line).uid("as text")


@program
def stateful_map(stream: DataStream) -> DataStream:
    return stream.key_by("key").map(Numbered()).uid("numbered")


@program
def stateful_flat_map(stream: DataStream) -> DataStream:
    return stream.key_by("key").flat_map(InPairs()).uid("pairs")


class Loud(ProcessFunction):
    """Without keys: large numbers go to a side output, the watermark is told."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if value["v"] >= 100:
            yield OutputTag("large"), line(value)
        else:
            yield show(value["key"], value["v"], "at", show_time(ctx.timer_service().current_watermark()))


@program
def process(stream: DataStream) -> dict[str, DataStream]:
    result = stream.process(Loud()).uid("loud")
    return {"main": result, "large": result.get_side_output(OutputTag("large"))}


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Books(KeyedProcessFunction):
    """Puts each number into state of every kind and tells what that holds then; a zero clears it all."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))
        self.greatest = runtime_context.get_reducing_state(ReducingStateDescriptor("greatest", max))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        number = value["v"]
        if number == 0:
            for state in (self.value, self.list, self.map, self.greatest, self.mean):
                state.clear()
        else:
            self.value.update(number)
            self.list.add(number)
            self.map.put(number % 3, (self.map.get(number % 3) or 0) + 1)
            self.greatest.add(number)
            self.mean.add(number)
        pairs = [f"{key}:{held}" for key, held in sorted(self.map.items())]
        parts = (self.value.value(), list(self.list), pairs, self.greatest.get(), self.mean.get())
        yield " ".join([value["key"], *(show(part) or "-" for part in parts)])


@program
def every_kind_of_state(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Books()).uid("books")


class Summaries(KeyedProcessFunction):
    """Adds each number to all summaries; a zero tells what they say, and clears them."""

    def open(self, runtime_context: Any) -> None:
        self.sample = runtime_context.get_summary_state(ReservoirStateDescriptor("sample", 3))
        self.distinct = runtime_context.get_summary_state(DistinctCountStateDescriptor("distinct"))
        self.quantiles = runtime_context.get_summary_state(QuantilesStateDescriptor("quantiles", (0.0, 0.5, 1.0)))
        self.top = runtime_context.get_summary_state(TopKStateDescriptor("top", 2))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        every = (self.sample, self.distinct, self.quantiles, self.top)
        if value["v"]:
            for state in every:
                state.add(value["v"])
            return
        top = [f"{held}x{count}" for held, count in self.top.get()]
        sample, quantiles = len(self.sample.get()), list(self.quantiles.get() or ())
        yield show(value["key"], self.top.count(), sample, self.distinct.get(), quantiles, top)
        for state in every:
            state.clear()


@program
def summaries(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(Summaries()).uid("summaries")
