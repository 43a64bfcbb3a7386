"""Parameters of windowed streams."""

from __future__ import annotations

from typing import Any

from flintstream import (
    AggregateFunction,
    AllWindowFunction,
    CountEvictor,
    CountTrigger,
    EventTimeTrigger,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    Types,
    WatermarkStrategy,
    WindowFunction,
    count,
    max_of,
    min_of,
    monotonous,
    tumbling,
)
from flintstream.errors import InvalidArgumentError, TypeMismatchError, UnknownTagError
from tests.capabilities.parameters import Bench, case, warned
from tests.capabilities.support import collect

INT, TEXT = Types.INT(), Types.STRING()
W, ALL, ANY = "WindowedStream", "AllWindowedStream", "Windowed"


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


case(f"{W}.reduce.reduce_function", lambda b, f: values_of(keyed(b).reduce(f)), (plus, [3, 11]), (minus, [-1, 11]))
case(
    f"{W}.reduce.window_function",
    lambda b, f: collect(keyed(b).reduce(plus, f))[1:],
    (Say("a"), ["a 1"]),
    (SayProcess("b"), ["b 1"]),
)
case(
    f"{W}.reduce.output_type",
    lambda b, t: collect(keyed(b, 1).reduce(plus, Say("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{W}.aggregate.aggregate_function",
    lambda b, n: collect(keyed(b).aggregate(Total(n))),
    (1, [3, 11]),
    (10, [30, 110]),
)
case(
    f"{W}.aggregate.window_function",
    lambda b, f: collect(keyed(b, 1).aggregate(Total(), f)),
    (None, [1]),
    (SayProcess("a"), ["a 1"]),
)
case(
    f"{W}.aggregate.accumulator_type",
    lambda b, t: warned(lambda: keyed(b).aggregate(Total(), accumulator_type=t)),
    (None, False),
    (INT, True),
)
case(
    f"{W}.aggregate.output_type",
    lambda b, t: collect(keyed(b).aggregate(Total(), output_type=t)),
    (INT, [3, 11]),
    (Types.DOUBLE(), [3.0, 11.0]),
)
case(
    f"{W}.apply.window_function",
    lambda b, word: collect(keyed(b).apply(Say(word))),
    ("a", ["a 2", "a 1"]),
    ("b", ["b 2", "b 1"]),
)
case(
    f"{W}.apply.output_type",
    lambda b, t: collect(keyed(b, 1).apply(Say("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{W}.process.process_window_function",
    lambda b, word: collect(keyed(b).process(SayProcess(word))),
    ("a", ["a 2", "a 1"]),
    ("b", ["b 2", "b 1"]),
)
case(
    f"{W}.process.output_type",
    lambda b, t: collect(keyed(b, 1).process(SayProcess("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{W}.agg.aggregates",
    lambda b, a: [first_of(row) for row in collect(keyed(b).agg(**a))],
    ({"x": count()}, [(2,), (1,)]),
    ({"x": max_of("n"), "y": min_of("n")}, [(2, 1), (11, 11)]),
)
case(
    f"{ALL}.agg.aggregates",
    lambda b, a: [tuple(row)[2:] for row in collect(everything(b).agg(**a))],
    ({"x": count()}, [(2,), (1,)]),
    ({"x": max_of("n"), "y": min_of("n")}, [(2, 1), (11, 11)]),
)
case(
    f"{ANY}.trigger.trigger",
    lambda b, t: numbers(b, keyed(b, 1, 2, 3).trigger(t)),
    (EventTimeTrigger.create(), [(0, [1, 2, 3])]),
    (CountTrigger.of(2), [(0, [1, 2])]),
)
case(
    f"{ANY}.evictor.evictor",
    lambda b, n: numbers(b, keyed(b, 1, 2, 3).evictor(CountEvictor.of(n))),
    (1, [(0, [3])]),
    (2, [(0, [2, 3])]),
)
case(
    f"{ANY}.allowed_lateness.time_ms",
    lambda b, t: numbers(b, keyed(b, 1, 15, 2).allowed_lateness(t)),
    (0, [(0, [1]), (10, [15])]),
    ("10ms", [(0, [1]), (0, [1, 2]), (10, [15])]),
)
case(
    f"{ANY}.side_output_late_data.output_tag",
    lambda b, tag: late_of(keyed(b, 1, 15, 2).side_output_late_data(OutputTag(tag)).reduce(plus), "late"),
    ("late", [2]),
    ("other", UnknownTagError),
)
case(
    f"{ANY}.late.how",
    lambda b, how: late_of(keyed(b, 1, 15, 2).late(how).reduce(plus), "late"),
    (OutputTag("late"), [2]),
    ("drop", UnknownTagError),
    ("shout", InvalidArgumentError),
)
case(
    f"{ALL}.reduce.reduce_function", lambda b, f: values_of(everything(b).reduce(f)), (plus, [3, 11]), (minus, [-1, 11])
)
case(
    f"{ALL}.reduce.window_function",
    lambda b, f: collect(everything(b).reduce(plus, f))[1:],
    (SayAll("a"), ["a 1"]),
    (SayProcessAll("b"), ["b 1"]),
)
case(
    f"{ALL}.reduce.output_type",
    lambda b, t: collect(everything(b, 1).reduce(plus, SayAll("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{ALL}.aggregate.aggregate_function",
    lambda b, n: collect(everything(b).aggregate(Total(n))),
    (1, [3, 11]),
    (10, [30, 110]),
)
case(
    f"{ALL}.aggregate.window_function",
    lambda b, f: collect(everything(b, 1).aggregate(Total(), f)),
    (None, [1]),
    (SayAll("a"), ["a 1"]),
)
case(
    f"{ALL}.aggregate.accumulator_type",
    lambda b, t: warned(lambda: everything(b).aggregate(Total(), accumulator_type=t)),
    (None, False),
    (INT, True),
)
case(
    f"{ALL}.aggregate.output_type",
    lambda b, t: collect(everything(b).aggregate(Total(), output_type=t)),
    (INT, [3, 11]),
    (Types.DOUBLE(), [3.0, 11.0]),
)
case(
    f"{ALL}.apply.window_function",
    lambda b, word: collect(everything(b).apply(SayAll(word))),
    ("a", ["a 2", "a 1"]),
    ("b", ["b 2", "b 1"]),
)
case(
    f"{ALL}.apply.output_type",
    lambda b, t: collect(everything(b, 1).apply(SayAll("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{ALL}.process.process_window_function",
    lambda b, word: collect(everything(b).process(SayProcessAll(word))),
    ("a", ["a 2", "a 1"]),
    ("b", ["b 2", "b 1"]),
)
case(
    f"{ALL}.process.output_type",
    lambda b, t: collect(everything(b, 1).process(SayProcessAll("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
