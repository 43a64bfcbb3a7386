"""Parameters of windows, of event time, and of state."""

from __future__ import annotations

from typing import Any

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AllWindowFunction,
    CountEvictor,
    CountTrigger,
    EventTimeTrigger,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
    avg,
    bounded,
    count,
    max_of,
    min_of,
    monotonous,
    session,
    sliding,
    sum_of,
    tumbling,
)
from flintstream.errors import TypeMismatchError, UnknownTagError, UnsupportedError
from tests.capabilities.parameters import ABSENT, Bench, case, named, warned
from tests.capabilities.support import collect

INT, TEXT = Types.INT(), Types.STRING()


def timestamp(record: dict[str, int], _: int) -> int:
    return record["ts"]


def stream(bench: Bench, *stamps: int, strategy: WatermarkStrategy | None = None) -> Any:
    """Return records with these timestamps, also as `n`, all of one key; by default none may be late."""
    records = bench.of(*({"id": "k", "ts": ts, "n": ts, "other": -ts} for ts in stamps))
    return records.assign_timestamps_and_watermarks(strategy or monotonous(on="ts"))


def keyed(bench: Bench, *stamps: int, assigner: Any = None, **rest: Any) -> Any:
    return stream(bench, *(stamps or (1, 2, 11)), **rest).key_by("id").window(assigner or tumbling("10ms"))


def everything(bench: Bench, *stamps: int, **rest: Any) -> Any:
    return stream(bench, *(stamps or (1, 2, 11)), **rest).window_all(tumbling("10ms"))


def numbers(bench: Bench, windows: Any) -> list[Any]:
    """Return start and records of every window that fires."""
    return collect(windows.apply(Records()))


class Records(WindowFunction):
    def apply(self, key, window, inputs):
        yield window.start, [record["n"] for record in inputs]


class Say(WindowFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def apply(self, key, window, inputs):
        yield f"{self._word} {len(list(inputs))}"


class SayProcess(ProcessWindowFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def process(self, key, context, elements):
        yield f"{self._word} {len(list(elements))}"


class SayAll(AllWindowFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def apply(self, window, inputs):
        yield f"{self._word} {len(list(inputs))}"


class AllRecords(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.start, [record["n"] for record in inputs]


class SayProcessAll(ProcessAllWindowFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def process(self, context, elements):
        yield f"{self._word} {len(list(elements))}"


class Total(AggregateFunction):
    def __init__(self, factor: int = 1) -> None:
        self._factor = factor

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + self._factor * value["n"]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def plus(x: dict[str, int], y: dict[str, int]) -> dict[str, int]:
    return {**x, "n": x["n"] + y["n"]}


def minus(x: dict[str, int], y: dict[str, int]) -> dict[str, int]:
    return {**x, "n": x["n"] - y["n"]}


def values_of(results: Any) -> list[int]:
    return [result["n"] for result in collect(results)]


def late_of(results: Any, tag: str) -> list[int]:
    return [record["n"] for record in collect(results.get_side_output(OutputTag(tag)))]


def first_of(row: Any) -> Any:
    return tuple(row)[3:]


def fold(aggregate: Any) -> Any:
    def program(bench: Bench, field: Any) -> list[Any]:
        return [first_of(row) for row in collect(keyed(bench).agg(x=aggregate(field)))]

    return program


class Keep(KeyedProcessFunction):
    """Puts a value into state that a descriptor describes, and gives back what the state holds then."""

    def __init__(self, kind: str, descriptor: Any, value: Any) -> None:
        self._kind, self._descriptor, self._value = kind, descriptor, value

    def open(self, runtime_context):
        self._state = getattr(runtime_context, f"get_{self._kind}")(self._descriptor)

    def process_element(self, value, ctx):
        if self._kind == "state":
            self._state.update(self._value)
            yield self._state.value()
        elif self._kind == "map_state":
            self._state.put(*self._value)
            yield list(self._state.items())
        else:
            self._state.add(self._value)
            yield self._state.get()


def kept(kind: str, descriptor: Any, value: Any) -> Any:
    return lambda bench: collect(bench.of(1).key_by(lambda n: n).process(Keep(kind, descriptor, value)))


class ByName(KeyedProcessFunction):
    """Uses two states; if they have one name, they are one state."""

    def __init__(self, make: Any, getter: str) -> None:
        self._make, self._getter = make, getter

    def open(self, runtime_context):
        get = getattr(runtime_context, self._getter)
        self._first, self._second = get(self._make("one")), get(self._make("other"))

    def process_element(self, value, ctx):
        if self._getter == "get_state":
            self._first.update(1)
            yield self._second.value()
        elif self._getter == "get_map_state":
            self._first.put("a", 1)
            yield self._second.get("a")
        else:
            self._first.add(1)
            yield list(self._second.get() or ()) if self._getter == "get_list_state" else self._second.get()


def shared(make: Any, getter: str) -> Any:
    """Return a program whose value says whether a second state has the first one's name."""

    def program(bench: Bench, name: str) -> list[Any]:
        return collect(bench.of(1).key_by(lambda n: n).process(ByName(lambda each: make(name if each == "other" else each), getter)))

    return program


def expiring(bench: Bench, ttl: Any) -> Any:
    descriptor = ValueStateDescriptor("x")
    if ttl is not ABSENT:
        descriptor.enable_time_to_live(ttl)
    return kept("state", descriptor, 1)(bench)


W, ALL, ANY = "WindowedStream", "AllWindowedStream", "Windowed"

case(f"{W}.reduce.reduce_function", lambda b, f: values_of(keyed(b).reduce(f)), (plus, [3, 11]), (minus, [-1, 11]))
case(f"{W}.reduce.window_function", lambda b, f: collect(keyed(b).reduce(plus, f))[1:], (Say("a"), ["a 1"]), (SayProcess("b"), ["b 1"]))
case(f"{W}.reduce.output_type", lambda b, t: collect(keyed(b, 1).reduce(plus, Say("a"), t)), (TEXT, ["a 1"]), (INT, TypeMismatchError))
case(f"{W}.aggregate.aggregate_function", lambda b, n: collect(keyed(b).aggregate(Total(n))), (1, [3, 11]), (10, [30, 110]))
case(f"{W}.aggregate.window_function", lambda b, f: collect(keyed(b, 1).aggregate(Total(), f)), (None, [1]), (SayProcess("a"), ["a 1"]))
case(f"{W}.aggregate.accumulator_type", lambda b, t: warned(lambda: keyed(b).aggregate(Total(), accumulator_type=t)), (None, False), (INT, True))
case(f"{W}.aggregate.output_type", lambda b, t: collect(keyed(b).aggregate(Total(), output_type=t)), (INT, [3, 11]), (Types.DOUBLE(), [3.0, 11.0]))
case(f"{W}.apply.window_function", lambda b, word: collect(keyed(b).apply(Say(word))), ("a", ["a 2", "a 1"]), ("b", ["b 2", "b 1"]))
case(f"{W}.apply.output_type", lambda b, t: collect(keyed(b, 1).apply(Say("a"), t)), (TEXT, ["a 1"]), (INT, TypeMismatchError))
case(f"{W}.process.process_window_function", lambda b, word: collect(keyed(b).process(SayProcess(word))), ("a", ["a 2", "a 1"]), ("b", ["b 2", "b 1"]))
case(f"{W}.process.output_type", lambda b, t: collect(keyed(b, 1).process(SayProcess("a"), t)), (TEXT, ["a 1"]), (INT, TypeMismatchError))
case(f"{W}.agg.aggregates", lambda b, a: [first_of(row) for row in collect(keyed(b).agg(**a))], ({"x": count()}, [(2,), (1,)]), ({"x": max_of("n"), "y": min_of("n")}, [(2, 1), (11, 11)]))
case(f"{ANY}.trigger.trigger", lambda b, t: numbers(b, keyed(b, 1, 2, 3).trigger(t)), (EventTimeTrigger.create(), [(0, [1, 2, 3])]), (CountTrigger.of(2), [(0, [1, 2])]))
case(f"{ANY}.evictor.evictor", lambda b, n: numbers(b, keyed(b, 1, 2, 3).evictor(CountEvictor.of(n))), (1, [(0, [3])]), (2, [(0, [2, 3])]))
case(f"{ANY}.allowed_lateness.time_ms", lambda b, t: numbers(b, keyed(b, 1, 15, 2).allowed_lateness(t)), (0, [(0, [1]), (10, [15])]), ("10ms", [(0, [1]), (0, [1, 2]), (10, [15])]))
case(f"{ANY}.side_output_late_data.output_tag", lambda b, tag: late_of(keyed(b, 1, 15, 2).side_output_late_data(OutputTag(tag)).reduce(plus), "late"), ("late", [2]), ("other", UnknownTagError))

case(f"{ALL}.reduce.reduce_function", lambda b, f: values_of(everything(b).reduce(f)), (plus, [3, 11]), (minus, [-1, 11]))
case(f"{ALL}.reduce.window_function", lambda b, f: collect(everything(b).reduce(plus, f))[1:], (SayAll("a"), ["a 1"]), (SayProcessAll("b"), ["b 1"]))
case(f"{ALL}.reduce.output_type", lambda b, t: collect(everything(b, 1).reduce(plus, SayAll("a"), t)), (TEXT, ["a 1"]), (INT, TypeMismatchError))
case(f"{ALL}.aggregate.aggregate_function", lambda b, n: collect(everything(b).aggregate(Total(n))), (1, [3, 11]), (10, [30, 110]))
case(f"{ALL}.aggregate.window_function", lambda b, f: collect(everything(b, 1).aggregate(Total(), f)), (None, [1]), (SayAll("a"), ["a 1"]))
case(f"{ALL}.aggregate.accumulator_type", lambda b, t: warned(lambda: everything(b).aggregate(Total(), accumulator_type=t)), (None, False), (INT, True))
case(f"{ALL}.aggregate.output_type", lambda b, t: collect(everything(b).aggregate(Total(), output_type=t)), (INT, [3, 11]), (Types.DOUBLE(), [3.0, 11.0]))
case(f"{ALL}.apply.window_function", lambda b, word: collect(everything(b).apply(SayAll(word))), ("a", ["a 2", "a 1"]), ("b", ["b 2", "b 1"]))
case(f"{ALL}.apply.output_type", lambda b, t: collect(everything(b, 1).apply(SayAll("a"), t)), (TEXT, ["a 1"]), (INT, TypeMismatchError))
case(f"{ALL}.process.process_window_function", lambda b, word: collect(everything(b).process(SayProcessAll(word))), ("a", ["a 2", "a 1"]), ("b", ["b 2", "b 1"]))
case(f"{ALL}.process.output_type", lambda b, t: collect(everything(b, 1).process(SayProcessAll("a"), t)), (TEXT, ["a 1"]), (INT, TypeMismatchError))

case("tumbling.size", lambda b, t: numbers(b, keyed(b, assigner=tumbling(t))), ("10ms", [(0, [1, 2]), (10, [11])]), ("20ms", [(0, [1, 2, 11])]))
case("tumbling.offset", lambda b, t: numbers(b, keyed(b, assigner=tumbling("10ms", t))), (0, [(0, [1, 2]), (10, [11])]), ("2ms", [(-8, [1]), (2, [2, 11])]))
case("sliding.size", lambda b, t: numbers(b, keyed(b, 1, assigner=sliding(t, "10ms"))), ("10ms", [(0, [1])]), ("20ms", [(-10, [1]), (0, [1])]))
case("sliding.slide", lambda b, t: numbers(b, keyed(b, 1, assigner=sliding("10ms", t))), ("10ms", [(0, [1])]), ("5ms", [(-5, [1]), (0, [1])]))
case("sliding.offset", lambda b, t: numbers(b, keyed(b, 1, assigner=sliding("10ms", "10ms", t))), (0, [(0, [1])]), ("1ms", [(1, [1])]))
case("session.gap", lambda b, t: numbers(b, keyed(b, 1, 6, assigner=session(t))), ("4ms", [(1, [1]), (6, [6])]), ("5ms", [(1, [1, 6])]))
case("bounded.max_out_of_orderness", lambda b, t: numbers(b, keyed(b, 1, 15, 2, strategy=bounded(t, on="ts"))), (0, [(0, [1]), (10, [15])]), ("20ms", [(0, [1, 2]), (10, [15])]))
case("bounded.on", lambda b, field: numbers(b, keyed(b, 1, 15, strategy=bounded(0, on=field))), ("ts", [(0, [1]), (10, [15])]), ("other", [(-10, [1])]))
case("monotonous.on", lambda b, field: numbers(b, keyed(b, 1, 15, strategy=monotonous(on=field))), ("ts", [(0, [1]), (10, [15])]), ("other", [(-10, [1])]))
case("WatermarkStrategy.for_bounded_out_of_orderness.max_out_of_orderness", lambda b, t: numbers(b, keyed(b, 1, 15, 2, strategy=WatermarkStrategy.for_bounded_out_of_orderness(t).with_timestamp_column("ts"))), (0, [(0, [1]), (10, [15])]), ("20ms", [(0, [1, 2]), (10, [15])]))
case("WatermarkStrategy.with_timestamp_assigner.timestamp_assigner", lambda b, f: numbers(b, keyed(b, 1, strategy=WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(f))), (timestamp, [(0, [1])]), (lambda r, _: r["ts"] + 10, [(10, [1])]))
case("WatermarkStrategy.with_timestamp_column.column", lambda b, c: numbers(b, keyed(b, 1, strategy=WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(c))), ("ts", [(0, [1])]), ("other", [(-10, [1])]))
case("sum_of.field", fold(sum_of), ("n", [(3,), (11,)]), ("other", [(-3,), (-11,)]))
case("min_of.field", fold(min_of), ("n", [(1,), (11,)]), ("other", [(-2,), (-11,)]))
case("max_of.field", fold(max_of), ("n", [(2,), (11,)]), ("other", [(-1,), (-11,)]))
case("avg.field", fold(avg), ("n", [(1.5,), (11.0,)]), ("other", [(-1.5,), (-11.0,)]))

case("ValueStateDescriptor.__init__.name", shared(ValueStateDescriptor, "get_state"), ("one", [1]), ("two", [None]))
case("ListStateDescriptor.__init__.name", shared(ListStateDescriptor, "get_list_state"), ("one", [[1]]), ("two", [[]]))
case("MapStateDescriptor.__init__.name", shared(MapStateDescriptor, "get_map_state"), ("one", [1]), ("two", [None]))
case("ReducingStateDescriptor.__init__.name", shared(lambda n: ReducingStateDescriptor(n, max), "get_reducing_state"), ("one", [1]), ("two", [None]))
case("AggregatingStateDescriptor.__init__.name", shared(lambda n: AggregatingStateDescriptor(n, Count()), "get_aggregating_state"), ("one", [1]), ("two", [None]))
case("ValueStateDescriptor.__init__.value_type_info", lambda b, t: kept("state", ValueStateDescriptor("x", t), 1)(b), (None, [1]), (INT, [1]), (TEXT, TypeMismatchError))
case("ListStateDescriptor.__init__.elem_type_info", lambda b, t: kept("list_state", ListStateDescriptor("x", t), 1)(b), (None, [[1]]), (TEXT, TypeMismatchError))
case("MapStateDescriptor.__init__.key_type_info", lambda b, t: kept("map_state", MapStateDescriptor("x", t, None), ("k", 1))(b), (None, [[("k", 1)]]), (INT, TypeMismatchError))
case("MapStateDescriptor.__init__.value_type_info", lambda b, t: kept("map_state", MapStateDescriptor("x", None, t), ("k", 1))(b), (None, [[("k", 1)]]), (TEXT, TypeMismatchError))
case("ReducingStateDescriptor.__init__.reduce_function", lambda b, f: kept("reducing_state", ReducingStateDescriptor("x", f), 1)(b), (max, [1]), (1, TypeMismatchError))
case("ReducingStateDescriptor.__init__.type_info", lambda b, t: kept("reducing_state", ReducingStateDescriptor("x", max, t), 1)(b), (None, [1]), (TEXT, TypeMismatchError))
case("AggregatingStateDescriptor.__init__.agg_function", lambda b, n: kept("aggregating_state", AggregatingStateDescriptor("x", Count(n)), 1)(b), (1, [1]), (5, [5]))
case("AggregatingStateDescriptor.__init__.state_type_info", lambda b, t: kept("aggregating_state", AggregatingStateDescriptor("x", Count(), t), 1)(b), (None, [1]), (TEXT, TypeMismatchError))
case("StateDescriptor.enable_time_to_live.ttl_config", expiring, (ABSENT, [1]), (StateTtlConfig.new_builder(Time.seconds(1)).build(), UnsupportedError))


class Count(AggregateFunction):
    def __init__(self, step: int = 1) -> None:
        self._step = step

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + self._step

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b
