"""What a stream with keys can do: state per key, rolling aggregates, windows.

Flink: KeyedStream. A mixin over the stream that results, so that `datastream.py` can put it and `DataStream` together
without either file importing the other in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from flintstream.api.arguments import TypeLike, read, read_late, require
from flintstream.api.joins_reference import KeyedReferenceJoins
from flintstream.api.queryable_stream import QueryableStateStream, keep_queryable
from flintstream.api.settings import check_count
from flintstream.api.stream import Streamlike
from flintstream.api.vectorised import add_vectorized
from flintstream.api.windowed import WindowedStream
from flintstream.errors import TypeMismatchError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import SortNode
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flintstream.model.assigners_data import DeltaWindows, UntilWindows
from flintstream.model.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ReduceFunction,
    as_filter_function,
    as_flat_map_function,
    as_map_function,
    as_reduce_function,
)
from flintstream.model.functions_process import KeyedProcessFunction
from flintstream.model.functions_vectorised import Vectorized
from flintstream.model.infer import infer_return_type, infer_yield_type
from flintstream.model.state import StateDescriptor
from flintstream.model.tags import OutputTag
from flintstream.model.window_assigner import WindowAssigner
from flintstream.ops.rolling import FieldReduce, Rolling, StatefulMap
from flintstream.ops.selectors import KeySource, field_of_row

S = TypeVar("S")


class KeyedOperations(KeyedReferenceJoins[S]):
    """Operations per key; `S` is the stream they make, which has no keys."""

    _stream: Streamlike[S]
    _key: KeySource

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: TypeLike = None) -> S:
        """Turn each record into one record; the function may keep state per key."""
        if isinstance(func, Vectorized):
            return add_vectorized(self._stream, "map", func, output_type)
        function = read(as_map_function, func)
        return self._stream.add_function("Map", "keyed_map", function, ("map",), output_type, infer_return_type(func))

    def flat_map(self, func: FlatMapFunction | Callable[[Any], Any], output_type: TypeLike = None) -> S:
        """Turn each record into any number of records; the function may keep state per key."""
        if isinstance(func, Vectorized):
            return add_vectorized(self._stream, "flat_map", func, output_type)
        function = read(as_flat_map_function, func)
        inferred = infer_yield_type(func)
        return self._stream.add_function("FlatMap", "keyed_flat_map", function, ("flat_map",), output_type, inferred)

    def filter(self, func: FilterFunction | Callable[[Any], bool]) -> S:
        """Keep the records for which the function is true; it may keep state per key."""
        if isinstance(func, Vectorized):
            return add_vectorized(self._stream, "filter", func)
        function = read(as_filter_function, func)
        inferred = self._stream.origin.type_info
        return self._stream.add_function("Filter", "keyed_filter", function, ("filter",), None, inferred)

    def process(self, func: KeyedProcessFunction, output_type: TypeLike = None) -> S:
        """Give each record to a function that has state and timers per key, and emits what it yields.

        >>> from flintstream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         yield ctx.get_current_key(), self.count.value()
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> counts = env.from_collection(["a", "b", "a"]).key_by(lambda word: word).process(Count())
        >>> list(counts.execute_and_collect())
        [('a', 1), ('b', 1), ('a', 2)]
        """
        remedy = "pass a KeyedProcessFunction, since a ProcessFunction is for streams without keys"
        function = require(func, KeyedProcessFunction, "a KeyedProcessFunction", remedy)
        inferred = infer_yield_type(function)
        methods = ("process_element",)
        return self._stream.add_function("Keyed Process", "keyed_process", function, methods, output_type, inferred)

    def map_with_state(self, func: Callable[[Any, Any], tuple[Any, Any]], output_type: TypeLike = None) -> S:
        """Turn each record into one, with a state per key: `f(value, state or None) -> (output, new state or None)`.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> totals = env.from_collection([("a", 1), ("b", 5), ("a", 2)]).key_by(0)
        >>> totals = totals.map_with_state(lambda r, total: ((r[0], r[1] + (total or 0)), r[1] + (total or 0)))
        >>> list(totals.execute_and_collect())
        [('a', 1), ('b', 5), ('a', 3)]
        """
        if not callable(func):
            line = users_line()
            what = f"{func!r:.100} is not a function"
            raise TypeMismatchError(describe(what, line, "pass f(value, state) -> (output, new state)"), location=line)
        return self._stream.add_function("Map", "keyed_map", StatefulMap(func), ("map",), output_type)

    def reduce(self, func: ReduceFunction | Callable[[Any, Any], Any]) -> S:
        """Fold each record into its key's value, and emit the new value for every record.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> words = env.from_collection([("a", 1), ("b", 1), ("a", 1)])
        >>> list(words.key_by(0).reduce(lambda x, y: (x[0], x[1] + y[1])).execute_and_collect())
        [('a', 1), ('b', 1), ('a', 2)]
        """
        return self._reduce("Reduce", read(as_reduce_function, func))

    def sum(self, position_to_sum: int | str = 0) -> S:
        """Emit, for every record, the first record of its key with the sum so far in the field.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> list(env.from_collection([("a", 1), ("a", 4)]).key_by(0).sum(1).execute_and_collect())
        [('a', 1), ('a', 5)]
        """
        return self._roll("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> S:
        """Emit, for every record, the first record of its key with the least value so far in the field."""
        return self._roll("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> S:
        """Emit, for every record, the first record of its key with the greatest value so far in the field."""
        return self._roll("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> S:
        """Emit, for every record, the record of its key with the least value so far; of equals the first."""
        return self._roll("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> S:
        """Emit, for every record, the record of its key with the greatest value so far; of equals the first."""
        return self._roll("max_by", position_to_max_by)

    def as_queryable_state(
        self,
        queryable_state_name: str,
        state_descriptor: StateDescriptor | None = None,
        uncommitted: bool = False,
    ) -> QueryableStateStream:
        """Keep the newest record of each key where others may look it up while the job runs; the stream ends here.

        Args:
            queryable_state_name: The name under which `QueryableStateClient` and REST find it.
            state_descriptor: What to keep instead: all records in list state, or what a reducing or aggregating state
                makes of them.
            uncommitted: Whether others may also see what the running epoch has changed, which may come to nothing.
        """
        return keep_queryable(self._stream, queryable_state_name, state_descriptor, uncommitted)

    def _roll(self, kind: Rolling, position: Any) -> S:
        if isinstance(position, bool) or not isinstance(position, int | str):
            line = users_line()
            what = f"{position!r:.100} is not a field"
            raise TypeMismatchError(describe(what, line, "give a position or a name"), location=line)
        return self._reduce(kind.replace("_", " ").title(), FieldReduce(kind, position))

    def _reduce(self, name: str, function: ReduceFunction) -> S:
        inferred = self._stream.origin.type_info
        return self._stream.add_function(name, "reduce", function, ("reduce",), None, inferred)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[S]:
        """Put the records of each key into windows: `window(tumbling("5s"))`."""
        return WindowedStream(self._stream, self._key, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[S]:
        """Put every `size` records of a key into a window; with `slide` a window begins at every `slide`-th."""
        return WindowedStream(self._stream, self._key, by_count(size, slide))

    def delta_window(self, value: Callable[[Any], Any] | str | int, threshold: float) -> WindowedStream[S]:
        """Put the records of a key into one window until a value has changed by more than `threshold`.

        `value` is a function of a record, or a field. The record that has changed so much since the first one of the
        window begins the next window. What is open at the end of the input gives its result then.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> speeds = env.from_collection([("car", 50), ("car", 58), ("car", 61), ("car", 49)]).key_by(0)
        >>> list(speeds.delta_window(1, 10).reduce(lambda x, y: (x[0], max(x[1], y[1]))).execute_and_collect())
        [('car', 58), ('car', 61), ('car', 49)]
        """
        function = partial(field_of_row, field=value) if isinstance(value, str | int) else value
        return self.window(read(lambda chosen: DeltaWindows(threshold, chosen), function))

    def window_until(self, condition: Callable[[Any], bool]) -> WindowedStream[S]:
        """Put the records of a key into one window until one fulfils the condition, which is the window's last.

        As in `window_until(lambda record: record["type"] == "logout")`. What is open at the end of the input gives its
        result then.
        """
        return self.window(read(UntilWindows, condition))

    def sort_by_event_time(self, late: str | OutputTag = "drop") -> S:
        """Put the records of each key into the order of event time: each leaves when the watermark has passed it.

        Records with equal timestamps keep their order. A record that comes after the watermark has passed it is late:
        `late` says whether to "drop" it (it is counted), to "log" it, or to send it to the side output of a tag.

        >>> from flintstream import StreamExecutionEnvironment, bounded
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> arrived = [{"id": "a", "ts": 3}, {"id": "a", "ts": 1}, {"id": "a", "ts": 2}]
        >>> stream = env.from_collection(arrived).assign_timestamps_and_watermarks(bounded("5ms", on="ts"))
        >>> [record["ts"] for record in stream.key_by("id").sort_by_event_time().execute_and_collect()]
        [1, 2, 3]
        """
        return sorted_by_time(self._stream, late)


def sorted_by_time(stream: Streamlike[S], late: Any) -> S:
    """Put a sort behind a stream that travels by keys."""
    logs, tag = read_late(late)
    tag_id = None if tag is None else tag.tag_id
    emits = stream.origin.type_info
    return stream.add(SortNode, emits=emits, name="Sort", late_tag=tag_id, logs_late=logs)


def by_count(size: int, slide: int) -> WindowAssigner[Any, Any]:
    """Return windows of so many records, tumbling if they do not slide."""
    check_count("the window's size", size)
    check_count("the window's slide", slide, least=0)
    return CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)
