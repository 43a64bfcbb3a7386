"""The programs that are crashed: without state, windows, a process function with timers, a join, a pattern.

Each has steps in its functions (`function` before an exchange, `result` behind it), and while it changes its state
(`update`). Each writes to two sinks. With ballast the state is too large to travel with the commit, so that tasks write
changelogs of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flintstream import (
    AggregateFunction,
    DataStream,
    FileSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    bounded,
    tumbling,
)
from flintstream.cep import CEP, Pattern
from tests.faults.points import Points
from tests.faults.ports import FaultySink, FaultySource, ParcelSink

PARALLELISM = 2
BALLAST = 4_000
Program = Callable[[DataStream, DataStream, Points], DataStream]


class Touch(MapFunction):
    """Passes records on, with a step at each."""

    def __init__(self, points: Points, step: str) -> None:
        self._points = points
        self._step = step

    def map(self, value: Any) -> Any:
        self._points.reach(self._step)
        return value


def brief(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as it is written: without its ballast, but with a trace of it."""
    return {"key": record["key"], "ts": record["ts"], "n": record["n"], "weight": sum(record["ballast"])}


def stateless(left: DataStream, right: DataStream, points: Points) -> DataStream:
    some = left.union(right).filter(lambda record: record["n"] % 3 != 0).uid("some")
    return some.rebalance().map(Touch(points, "result")).uid("touched").map(brief).uid("brief")


class Collected(AggregateFunction):
    """Keeps the records of a window."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        self._points.reach("update")
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [*a, *b]


class Summed(ProcessWindowFunction):
    def __init__(self, points: Points) -> None:
        self._points = points

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        self._points.reach("result")
        (records,) = elements
        weight = sum(brief(record)["weight"] for record in records)
        numbers = ",".join(str(record["n"]) for record in records)
        yield {"key": key, "ts": context.window().start, "numbers": numbers, "weight": weight}


def windows(left: DataStream, right: DataStream, points: Points) -> DataStream:
    windowed = left.union(right).key_by("key").window(tumbling("2s"))
    return windowed.aggregate(Collected(points), Summed(points)).uid("windows")


class Remember(KeyedProcessFunction):
    """Holds records back for a second of event time, and counts all it has seen of a key."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def open(self, runtime_context: Any) -> None:
        self._held = runtime_context.get_list_state(ListStateDescriptor("held"))
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self._seen.update((self._seen.value() or 0) + 1)
        self._points.reach("update")
        self._held.add(value)
        ctx.timer_service().register_event_time_timer(value["ts"] // 1_000 * 1_000 + 1_999)
        if self._seen.value() % 10 == 0:
            yield {"key": value["key"], "ts": value["ts"], "n": value["n"], "weight": -self._seen.value()}

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        self._points.reach("result")
        yield from map(brief, self._held.get())
        self._held.clear()


def timers(left: DataStream, right: DataStream, points: Points) -> DataStream:
    return left.union(right).key_by("key").process(Remember(points)).uid("timers")


class Paired(ProcessJoinFunction):
    """Numbers the pairs of a key."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def open(self, runtime_context: Any) -> None:
        self._pairs = runtime_context.get_state(ValueStateDescriptor("pairs"))

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        self._points.reach("result")
        self._pairs.update((self._pairs.value() or 0) + 1)
        self._points.reach("update")
        both = brief(left)["weight"] + brief(right)["weight"]
        yield {"key": left["key"], "left": left["n"], "right": right["n"], "pair": self._pairs.value(), "weight": both}


def join(left: DataStream, right: DataStream, points: Points) -> DataStream:
    joined = left.key_by("key").interval_join(right.key_by("key")).between("-2s", "500ms")
    return joined.process(Paired(points)).uid("join")


class Falls:
    """The condition that a record's number is lower than all before it in the match, by one of three rests."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def __call__(self, record: Any, ctx: Any) -> bool:
        self._points.reach("update")
        return all(record["n"] % 3 < earlier["n"] % 3 for earlier in ctx.get_events_for_pattern("first"))


class Told:
    def __init__(self, points: Points) -> None:
        self._points = points

    def __call__(self, match: dict[str, list[Any]]) -> dict[str, Any]:
        self._points.reach("result")
        first, last = brief(match["first"][0]), brief(match["last"][0])
        weight = first["weight"] + last["weight"]
        return {"key": first["key"], "first": first["n"], "last": last["n"], "weight": weight}


def pattern(left: DataStream, right: DataStream, points: Points) -> DataStream:
    falling = Pattern.begin("first").followed_by("last").where(Falls(points)).within("3s")
    return CEP.pattern(left.union(right).key_by("key"), falling).select(Told(points)).uid("pattern")


PROGRAMS: dict[str, Program] = {
    "stateless": stateless,
    "windows": windows,
    "timers": timers,
    "join": join,
    "pattern": pattern,
}


def declare(
    env: StreamExecutionEnvironment, program: str, points: Points, output: Path, large: bool, deterministic: bool
) -> None:
    """Declare a program over two sources, with two sinks."""
    env.set_parallelism(PARALLELISM).deterministic_order(deterministic)
    both: list[DataStream] = []
    for name in ("left", "right"):
        source = FaultySource(points, name, ballast=BALLAST if large else 1)
        stream = env.from_source(source, bounded("300ms", on="ts"), name).uid(name)
        both.append(stream.map(Touch(points, "function")).uid(f"{name} touched"))
    results = PROGRAMS[program](*both, points)
    results.sink_to(FaultySink(FileSink.json(output / "files"), points)).uid("files")
    results.sink_to(FaultySink(ParcelSink(str(output / "parcels")), points)).uid("parcels")
