"""Drives one function by hand, whatever its kind.

It is put behind an input of its own, with keys or windows if it needs them, and is then a pipeline like any other.

Flink: KeyedOneInputStreamOperatorTestHarness, KeyedTwoInputStreamOperatorTestHarness, ProcessFunctionTestHarnesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flintstream.api.arguments import KeyLike
from flintstream.api.datastream import DataStream
from flintstream.errors import DefinitionError, TypeMismatchError, describe
from flintstream.graph.location import users_line
from flintstream.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    ReduceFunction,
)
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
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flintstream.model.state import MapStateDescriptor
from flintstream.model.tags import OutputTag
from flintstream.model.window_assigner import WindowAssigner
from flintstream.testing.harness import MAIN, Outputs, PipelineHarness

FUNCTION = "function"
"""The uid of the function under test."""


class FunctionHarness(PipelineHarness):
    """Runs one function step by step, in this process.

    Example:
        >>> from flintstream import KeyedProcessFunction, ValueStateDescriptor
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))
        ...     def process_element(self, value, ctx):
        ...         self.seen.update((self.seen.value() or 0) + 1)
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key(), self.seen.value()
        >>> with FunctionHarness(Count(), key_by=lambda word: word) as harness:
        ...     _ = harness.process("be", timestamp=5), harness.process("be", timestamp=7)
        ...     harness.restart()
        ...     print(harness.state("seen", "be"), [timer.time for timer in harness.timers()])
        ...     print(harness.watermark(2000))
        2 [1005, 1007]
        [('be', 2), ('be', 2)]

    Args:
        function: An object of one of the function classes of `flintstream`. Its inputs are "first" and "second" if it
            has two, and "records" and "broadcast" if it has broadcast state.
        key_by: As for `key_by(...)`; for a function of two keyed inputs a pair, one for each.
        window: The windows of a window function, or of a reduce or aggregate function.
        broadcast: The descriptors of the broadcast state.
        side_outputs: The tags of the side outputs to look at.
        parallelism: With how many instances the function runs.
    """

    def __init__(
        self,
        function: Function,
        *,
        key_by: KeyLike | tuple[KeyLike, KeyLike] | None = None,
        window: WindowAssigner[Any, Any] | None = None,
        broadcast: Sequence[MapStateDescriptor] | MapStateDescriptor = (),
        side_outputs: Sequence[OutputTag] = (),
        parallelism: int = 1,
    ) -> None:
        states = (broadcast,) if isinstance(broadcast, MapStateDescriptor) else tuple(broadcast)
        place = _Place(function, key_by, window, states)

        def pipeline(*streams: DataStream) -> Outputs:
            results = place.declare(streams).uid(FUNCTION)
            return {MAIN: results, **{tag.tag_id: results.get_side_output(tag) for tag in side_outputs}}

        super().__init__(pipeline, inputs=place.inputs(), parallelism=parallelism)

    def _how_to_name_outputs(self) -> str:
        return "name it in side_outputs=[...]"


_TWO = (CoMapFunction, CoFlatMapFunction, CoProcessFunction, KeyedCoProcessFunction)
_BROADCAST = (BroadcastProcessFunction, KeyedBroadcastProcessFunction)
_ONE: tuple[tuple[type[Function], str], ...] = (
    (KeyedProcessFunction, "process"),
    (ProcessFunction, "process"),
    (MapFunction, "map"),
    (FlatMapFunction, "flat_map"),
    (FilterFunction, "filter"),
    (ReduceFunction, "reduce"),
)
_IN_WINDOWS: tuple[tuple[type[Function], str], ...] = (
    (ProcessWindowFunction, "process"),
    (ProcessAllWindowFunction, "process"),
    (WindowFunction, "apply"),
    (AllWindowFunction, "apply"),
    (AggregateFunction, "aggregate"),
    (ReduceFunction, "reduce"),
)
_NEEDS_KEYS = (KeyedProcessFunction, KeyedBroadcastProcessFunction, ProcessWindowFunction, WindowFunction)
_NEEDS_WINDOW = tuple(kind for kind, _ in _IN_WINDOWS if kind is not ReduceFunction)


@dataclass(frozen=True)
class _Place:
    """Where a function stands in the pipeline that is made for it."""

    function: Function
    key_by: Any
    window: WindowAssigner[Any, Any] | None
    broadcast: tuple[MapStateDescriptor, ...]

    def inputs(self) -> tuple[str, ...]:
        """Return the names of the inputs, after a look at what was given."""
        if isinstance(self.function, _NEEDS_KEYS) and self.key_by is None:
            self._refuse("needs keys", "give key_by=")
        if isinstance(self.function, _NEEDS_WINDOW) and self.window is None:
            self._refuse("needs windows", "give window=, such as tumbling('10s')")
        if isinstance(self.function, _BROADCAST):
            if not self.broadcast:
                self._refuse("needs broadcast state", "give broadcast=, the descriptor of its state")
            return ("records", "broadcast")
        if self.broadcast:
            self._refuse("has no broadcast state", "leave broadcast= out")
        if isinstance(self.function, _TWO):
            keyed = self.key_by is not None
            if keyed and not (isinstance(self.key_by, tuple) and len(self._keys()) == len(("first", "second"))):
                self._refuse("has two inputs", "give key_by= a pair, the key of each")
            if isinstance(self.function, KeyedCoProcessFunction) and not keyed:
                self._refuse("needs keys", "give key_by= a pair, the key of each input")
            return ("first", "second")
        if self._method() is None:
            remedy = "pass an object of a function class; for anything else use PipelineHarness"
            self._refuse("is no function that can stand alone", remedy)
        return ("records",)

    def _keys(self) -> tuple[Any, ...]:
        return self.key_by

    def _method(self) -> str | None:
        table = _ONE if self.window is None else _IN_WINDOWS
        return next((name for kind, name in table if isinstance(self.function, kind)), None)

    def _refuse(self, what: str, remedy: str) -> None:
        kind = DefinitionError if isinstance(self.function, Function) else TypeMismatchError  # pyright: ignore[reportUnnecessaryIsInstance]  # a user may give anything
        line = users_line()
        raise kind(describe(f"{type(self.function).__name__} {what}", line, remedy), location=line)

    def declare(self, streams: Sequence[DataStream]) -> DataStream:
        """Put the function behind the streams."""
        function: Any = self.function
        if isinstance(self.function, _BROADCAST):
            first = streams[0] if self.key_by is None else streams[0].key_by(self.key_by)
            return first.connect(streams[1].broadcast(*self.broadcast)).process(function)
        if isinstance(self.function, _TWO):
            connected: Any = streams[0].connect(streams[1])
            if self.key_by is not None:
                connected = connected.key_by(*self._keys())
            calls: dict[type[Function], Callable[[Any], DataStream]] = {
                CoMapFunction: connected.map,
                CoFlatMapFunction: connected.flat_map,
            }
            found = next((call for kind, call in calls.items() if isinstance(self.function, kind)), connected.process)
            return found(function)
        stream: Any = streams[0] if self.key_by is None else streams[0].key_by(self.key_by)
        if self.window is not None:
            stream = stream.window_all(self.window) if self.key_by is None else stream.window(self.window)
        return getattr(stream, self._method() or "")(function)
