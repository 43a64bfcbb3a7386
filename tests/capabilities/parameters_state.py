"""Parameters of state descriptors."""

from __future__ import annotations

from typing import Any

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from flintstream.errors import TypeMismatchError
from tests.capabilities.parameters import Bench, case
from tests.capabilities.support import collect

INT, TEXT = Types.INT(), Types.STRING()


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
        return collect(
            bench.of(1)
            .key_by(lambda n: n)
            .process(ByName(lambda each: make(name if each == "other" else each), getter))
        )

    return program


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


case("ValueStateDescriptor.__init__.name", shared(ValueStateDescriptor, "get_state"), ("one", [1]), ("two", [None]))
case("ListStateDescriptor.__init__.name", shared(ListStateDescriptor, "get_list_state"), ("one", [[1]]), ("two", [[]]))
case("MapStateDescriptor.__init__.name", shared(MapStateDescriptor, "get_map_state"), ("one", [1]), ("two", [None]))
case(
    "ReducingStateDescriptor.__init__.name",
    shared(lambda n: ReducingStateDescriptor(n, max), "get_reducing_state"),
    ("one", [1]),
    ("two", [None]),
)
case(
    "AggregatingStateDescriptor.__init__.name",
    shared(lambda n: AggregatingStateDescriptor(n, Count()), "get_aggregating_state"),
    ("one", [1]),
    ("two", [None]),
)
case(
    "ValueStateDescriptor.__init__.value_type_info",
    lambda b, t: kept("state", ValueStateDescriptor("x", t), 1)(b),
    (None, [1]),
    (INT, [1]),
    (TEXT, TypeMismatchError),
)
case(
    "ListStateDescriptor.__init__.elem_type_info",
    lambda b, t: kept("list_state", ListStateDescriptor("x", t), 1)(b),
    (None, [[1]]),
    (TEXT, TypeMismatchError),
)
case(
    "MapStateDescriptor.__init__.key_type_info",
    lambda b, t: kept("map_state", MapStateDescriptor("x", t, None), ("k", 1))(b),
    (None, [[("k", 1)]]),
    (INT, TypeMismatchError),
)
case(
    "MapStateDescriptor.__init__.value_type_info",
    lambda b, t: kept("map_state", MapStateDescriptor("x", None, t), ("k", 1))(b),
    (None, [[("k", 1)]]),
    (TEXT, TypeMismatchError),
)
case(
    "ReducingStateDescriptor.__init__.reduce_function",
    lambda b, f: kept("reducing_state", ReducingStateDescriptor("x", f), 1)(b),
    (max, [1]),
    (1, TypeMismatchError),
)
case(
    "ReducingStateDescriptor.__init__.type_info",
    lambda b, t: kept("reducing_state", ReducingStateDescriptor("x", max, t), 1)(b),
    (None, [1]),
    (TEXT, TypeMismatchError),
)
case(
    "AggregatingStateDescriptor.__init__.agg_function",
    lambda b, n: kept("aggregating_state", AggregatingStateDescriptor("x", Count(n)), 1)(b),
    (1, [1]),
    (5, [5]),
)
case(
    "AggregatingStateDescriptor.__init__.state_type_info",
    lambda b, t: kept("aggregating_state", AggregatingStateDescriptor("x", Count(), t), 1)(b),
    (None, [1]),
    (TEXT, TypeMismatchError),
)
