"""Plain callables as function objects, and the contracts that user classes fill in."""

from __future__ import annotations

import inspect
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from flintstream.errors import TypeMismatchError
from flintstream.model import functions as f
from flintstream.model.functions_broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flintstream.model.functions_co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flintstream.model.functions_process import KeyedProcessFunction, ProcessFunction
from flintstream.model.functions_window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flintstream.model.windows import TimeWindow


class Doubler(f.MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


CASES: list[tuple[Callable[..., Any], Callable[..., Any], str, tuple[Any, ...], Any]] = [
    (f.as_map_function, str, "map", (5,), "5"),
    (f.as_flat_map_function, str.split, "flat_map", ("a b",), ["a", "b"]),
    (f.as_filter_function, bool, "filter", (0,), False),
    (f.as_reduce_function, operator.add, "reduce", (1, 2), 3),
    (f.as_key_selector, len, "get_key", ("abc",), 3),
    (f.as_partitioner, operator.mod, "partition", (7, 4), 3),
]


@pytest.mark.parametrize(("convert", "plain", "method", "arguments", "expected"), CASES)
def test_a_callable_becomes_a_function_object_that_keeps_it(
    convert: Any, plain: Any, method: str, arguments: tuple[Any, ...], expected: Any
) -> None:
    function = convert(plain)
    assert getattr(function, method)(*arguments) == expected
    assert function.wrapped is plain
    assert f.entry_point(function, method) is plain
    assert convert(function) is function
    assert pickle.loads(pickle.dumps(function)) == function
    assert function != convert(lambda *_: None)
    with pytest.raises(TypeMismatchError, match="is not a"):
        convert(5)


def test_a_function_object_passes_unchanged_and_its_method_is_the_entry_point() -> None:
    doubler = Doubler()
    assert f.as_map_function(doubler) is doubler
    assert f.entry_point(doubler, "map")(4) == 8


def test_an_attribute_called_wrapped_does_not_change_the_entry_point() -> None:
    doubler = Doubler()
    doubler.wrapped = None  # type: ignore[attr-defined]
    assert f.entry_point(doubler, "map")(4) == 8


def test_a_class_instead_of_its_object_is_refused_with_the_remedy() -> None:
    with pytest.raises(TypeMismatchError, match=r"Doubler is a class.*pass Doubler\("):
        f.as_map_function(Doubler)  # type: ignore[arg-type]


def test_a_function_object_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match="FilterFunction"):
        f.as_filter_function(Doubler())  # type: ignore[arg-type]


def test_function_objects_print_the_name_of_the_callable() -> None:
    assert repr(f.as_key_selector(len)) == "CallableKeySelector(len)"


def test_open_and_close_are_optional() -> None:
    doubler = Doubler()
    assert doubler.open(None) is None
    assert doubler.close() is None


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        (f.MapFunction, {"map": ["value"]}),
        (f.FlatMapFunction, {"flat_map": ["value"]}),
        (f.FilterFunction, {"filter": ["value"]}),
        (f.ReduceFunction, {"reduce": ["value1", "value2"]}),
        (
            f.AggregateFunction,
            {
                "create_accumulator": [],
                "add": ["value", "accumulator"],
                "get_result": ["accumulator"],
                "merge": ["acc_a", "acc_b"],
            },
        ),
        (f.KeySelector, {"get_key": ["value"]}),
        (f.Partitioner, {"partition": ["key", "num_partitions"]}),
        (ProcessFunction, {"process_element": ["value", "ctx"]}),
        (KeyedProcessFunction, {"process_element": ["value", "ctx"]}),
        (CoMapFunction, {"map1": ["value"], "map2": ["value"]}),
        (CoFlatMapFunction, {"flat_map1": ["value"], "flat_map2": ["value"]}),
        (CoProcessFunction, {"process_element1": ["value", "ctx"], "process_element2": ["value", "ctx"]}),
        (KeyedCoProcessFunction, {"process_element1": ["value", "ctx"], "process_element2": ["value", "ctx"]}),
        (WindowFunction, {"apply": ["key", "window", "inputs"]}),
        (AllWindowFunction, {"apply": ["window", "inputs"]}),
        (ProcessWindowFunction, {"process": ["key", "context", "elements"]}),
        (ProcessAllWindowFunction, {"process": ["context", "elements"]}),
        (
            BroadcastProcessFunction,
            {"process_element": ["value", "ctx"], "process_broadcast_element": ["value", "ctx"]},
        ),
        (
            KeyedBroadcastProcessFunction,
            {"process_element": ["value", "ctx"], "process_broadcast_element": ["value", "ctx"]},
        ),
    ],
)
def test_what_a_user_class_must_define_is_what_pyflink_asks_for(kind: Any, methods: dict[str, list[str]]) -> None:
    assert kind.__abstractmethods__ == set(methods)
    for name, parameters in methods.items():
        assert list(inspect.signature(getattr(kind, name)).parameters) == ["self", *parameters]
    with pytest.raises(TypeError, match="abstract"):
        kind()


@pytest.mark.parametrize(
    ("context", "methods"),
    [
        (ProcessFunction.Context, {"timer_service", "timestamp"}),
        (KeyedProcessFunction.Context, {"get_current_key", "timer_service", "timestamp"}),
        (KeyedProcessFunction.OnTimerContext, {"get_current_key", "timer_service", "timestamp", "time_domain"}),
        (KeyedCoProcessFunction.OnTimerContext, {"get_current_key", "timer_service", "timestamp", "time_domain"}),
        (
            ProcessWindowFunction.Context,
            {"window", "current_processing_time", "current_watermark", "pane", "window_state", "global_state"},
        ),
        (ProcessAllWindowFunction.Context, {"window", "pane", "window_state", "global_state"}),
        (
            KeyedBroadcastProcessFunction.OnTimerContext,
            {
                "timestamp",
                "current_processing_time",
                "current_watermark",
                "get_broadcast_state",
                "timer_service",
                "get_current_key",
                "time_domain",
            },
        ),
    ],
)
def test_a_context_offers_what_pyflink_offers(context: Any, methods: set[str]) -> None:
    assert context.__abstractmethods__ == methods


def test_generic_functions_take_type_arguments() -> None:
    class Counter(ProcessWindowFunction[tuple[str, int], int, str, TimeWindow]):
        def process(self, key: str, context: Any, elements: Any) -> list[int]:
            return [len(elements)]

    assert Counter().process("a", None, [1, 2]) == [2]
    assert Counter().clear(None) is None  # type: ignore[arg-type]


def test_on_timer_is_optional() -> None:
    class Silent(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    assert Silent().on_timer(5, None) is None  # type: ignore[arg-type]


def test_pass_through_emits_what_the_window_holds() -> None:
    window = TimeWindow(0, 1)
    assert list(PassThroughWindowFunction[int, str, TimeWindow]().apply("k", window, [1, 2])) == [1, 2]
    assert list(PassThroughAllWindowFunction[int, TimeWindow]().apply(window, [1, 2])) == [1, 2]


def test_the_null_key_selector_puts_everything_under_one_key() -> None:
    assert {f.NullByteKeySelector().get_key(value) for value in ("a", 1, None)} == {0}
