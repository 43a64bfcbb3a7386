"""Parameters of streams with keys and of connected streams."""

from __future__ import annotations

from typing import Any

from flintstream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    Types,
    tumbling,
)
from flintstream.errors import TypeMismatchError, UnknownTagError
from tests.capabilities.parameters import ABSENT, Bench, case, named
from tests.capabilities.parameters_streams import CoSay, Sizes, _plus, _timed, doubled, late_of_sort
from tests.capabilities.support import WithSubtask, collect

STREAM, KEYED, CO = "DataStream", "KeyedOperations", "ConnectedStreams"
INT, TEXT = Types.INT(), Types.STRING()


class SayKeyed(KeyedProcessFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def process_element(self, value, ctx):
        yield f"{self._word} {value}"


class CoRepeat(CoFlatMapFunction):
    def __init__(self, times: int) -> None:
        self._times = times

    def flat_map1(self, value):
        return [value] * self._times

    def flat_map2(self, value):
        return [value]


class CoAdd(CoProcessFunction):
    def __init__(self, number: int) -> None:
        self._number = number

    def process_element1(self, value, ctx):
        yield value + self._number

    def process_element2(self, value, ctx):
        yield value


def co(bench: Bench, keyed: bool = True) -> Any:
    env = bench.env()
    pair = env.from_collection([1]).connect(env.from_collection([2]))
    return pair.key_by(lambda n: n, lambda n: n) if keyed else pair


def sees_both(bench: Bench, keys: tuple[Any, Any]) -> list[int]:
    """Return how many different tasks the records of two streams meet in, by their keys."""
    env = bench.env(2)
    left, right = env.from_collection([("a", "x")] * 3), env.from_collection([("b", "a")] * 3)
    tasks = left.connect(right).key_by(*keys).map(CoSame()).map(WithSubtask())
    return len({task for _, task in collect(tasks)})


class CoSame(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


def roll(kind: str) -> Any:
    def program(bench: Bench, position: Any) -> list[Any]:
        return collect(getattr(bench.of((1, 5, 5), (1, 3, 9)).key_by(lambda r: 0), kind)(position))

    return program


def _typed_co(bench: Bench, key_type: Any) -> Any:
    env = bench.env()
    pair = env.from_collection([1]).connect(env.from_collection([2]))
    return pair.key_by(lambda n: n, lambda n: n, **named("key_type", key_type if key_type else ABSENT)).map(CoSame())


case(f"{KEYED}.map.func", lambda b, f: collect(b.of(1).key_by(lambda n: n).map(f)), (str, ["1"]), (doubled, [2]))
case(
    f"{KEYED}.map.output_type",
    lambda b, t: collect(b.of(1).key_by(lambda n: n).map(doubled, t)),
    (None, [2]),
    (Types.DOUBLE(), [2.0]),
)
case(
    f"{KEYED}.flat_map.func",
    lambda b, f: collect(b.of(2).key_by(lambda n: n).flat_map(f)),
    (lambda n: [n] * n, [2, 2]),
    (lambda n: [], []),
)
case(
    f"{KEYED}.flat_map.output_type",
    lambda b, t: collect(b.of(2).key_by(lambda n: n).flat_map(lambda n: [n], t)),
    (None, [2]),
    (Types.DOUBLE(), [2.0]),
)
case(
    f"{KEYED}.filter.func",
    lambda b, f: collect(b.of(1, 2).key_by(lambda n: 0).filter(f)),
    (lambda n: n > 1, [2]),
    (lambda n: n < 2, [1]),
)
case(
    f"{KEYED}.process.func",
    lambda b, w: collect(b.of(1).key_by(lambda n: n).process(SayKeyed(w))),
    ("a", ["a 1"]),
    ("b", ["b 1"]),
)
case(
    f"{KEYED}.process.output_type",
    lambda b, t: collect(b.of(1).key_by(lambda n: n).process(SayKeyed("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{KEYED}.map_with_state.func",
    lambda b, f: collect(b.of(1, 1).key_by(lambda n: n).map_with_state(f)),
    (lambda n, s: (s, n), [None, 1]),
    (lambda n, s: (n, s), [1, 1]),
)
case(
    f"{KEYED}.map_with_state.output_type",
    lambda b, t: collect(b.of(1).key_by(lambda n: n).map_with_state(lambda n, s: (n, n), t)),
    (INT, [1]),
    (TEXT, TypeMismatchError),
)
case(
    f"{KEYED}.reduce.func",
    lambda b, f: collect(b.of(1, 2).key_by(lambda n: 0).reduce(f)),
    (lambda x, y: x + y, [1, 3]),
    (lambda x, y: x - y, [1, -1]),
)
case(f"{KEYED}.sum.position_to_sum", roll("sum"), (1, [(1, 5, 5), (1, 8, 5)]), (2, [(1, 5, 5), (1, 5, 14)]))
case(f"{KEYED}.min.position_to_min", roll("min"), (1, [(1, 5, 5), (1, 3, 5)]), (2, [(1, 5, 5), (1, 5, 5)]))
case(f"{KEYED}.max.position_to_max", roll("max"), (1, [(1, 5, 5), (1, 5, 5)]), (2, [(1, 5, 5), (1, 5, 9)]))
case(f"{KEYED}.min_by.position_to_min_by", roll("min_by"), (1, [(1, 5, 5), (1, 3, 9)]), (2, [(1, 5, 5), (1, 5, 5)]))
case(f"{KEYED}.max_by.position_to_max_by", roll("max_by"), (1, [(1, 5, 5), (1, 5, 5)]), (2, [(1, 5, 5), (1, 3, 9)]))
case(
    f"{KEYED}.window.window_assigner",
    lambda b, size: collect(_timed(b).key_by(lambda n: 0).window(tumbling(size)).reduce(_plus)),
    ("10ms", [6, 12]),
    ("20ms", [19]),
)
case(
    f"{KEYED}.count_window.size",
    lambda b, n: collect(b.of(*"abcd").key_by(lambda c: 0).count_window(n).apply(Sizes())),
    (2, [2, 2]),
    (4, [4]),
)
case(
    f"{KEYED}.count_window.slide",
    lambda b, s: collect(b.of(*"abcdef").key_by(lambda c: 0).count_window(4, s).apply(Sizes())),
    (0, [4]),
    (2, [4, 4]),
)
case(
    f"{KEYED}.delta_window.value",
    lambda b, value: collect(b.of((1, 5), (2, 5), (9, 5)).key_by(lambda r: 0).delta_window(value, 3).apply(Sizes())),
    (0, [2, 1]),
    (lambda record: record[1], [3]),
)
case(
    f"{KEYED}.delta_window.threshold",
    lambda b, n: collect(b.of(1, 2, 9).key_by(lambda n: 0).delta_window(abs, n).apply(Sizes())),
    (0, [1, 1, 1]),
    (7, [2, 1]),
    (8, [3]),
)
case(
    f"{KEYED}.window_until.condition",
    lambda b, f: collect(b.of(1, 2, 9).key_by(lambda n: 0).window_until(f).apply(Sizes())),
    (lambda n: n == 1, [1, 2]),
    (lambda n: n == 2, [2, 1]),
)
case(
    f"{KEYED}.sort_by_event_time.late",
    lambda b, late: late_of_sort(_timed(b).key_by(lambda n: 0), late),
    ("drop", UnknownTagError),
    (OutputTag("late"), [1]),
)
case(
    f"{CO}.key_by.key_selector1", lambda b, k: sees_both(b, (k, lambda r: "a")), (lambda r: "a", 1), (lambda r: "b", 2)
)
case(
    f"{CO}.key_by.key_selector2", lambda b, k: sees_both(b, (lambda r: "a", k)), (lambda r: "a", 1), (lambda r: "b", 2)
)
case(f"{CO}.key_by.key_type", lambda b, t: len(collect(_typed_co(b, t))), (None, 2), (TEXT, TypeMismatchError))
case(f"{CO}.map.func", lambda b, w: sorted(collect(co(b).map(CoSay(w)))), ("a", ["2", "a 1"]), ("b", ["2", "b 1"]))
case(
    f"{CO}.map.output_type",
    lambda b, t: sorted(collect(co(b).map(CoSame(), t))),
    (INT, [1, 2]),
    (TEXT, TypeMismatchError),
)
case(f"{CO}.flat_map.func", lambda b, n: sorted(collect(co(b).flat_map(CoRepeat(n)))), (1, [1, 2]), (3, [1, 1, 1, 2]))
case(
    f"{CO}.flat_map.output_type",
    lambda b, t: sorted(collect(co(b).flat_map(CoRepeat(1), t))),
    (INT, [1, 2]),
    (TEXT, TypeMismatchError),
)
case(f"{CO}.process.func", lambda b, n: sorted(collect(co(b, keyed=False).process(CoAdd(n)))), (0, [1, 2]), (5, [2, 6]))
case(
    f"{CO}.process.output_type",
    lambda b, t: sorted(collect(co(b, keyed=False).process(CoAdd(0), t))),
    (INT, [1, 2]),
    (TEXT, TypeMismatchError),
)
