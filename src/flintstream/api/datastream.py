"""`DataStream` and `KeyedStream`: what can be put behind a stream of records.

Flink: pyflink.datastream.DataStream and KeyedStream. A stream is a view of the program it belongs to: it never changes,
every call adds one operator and returns the stream that this operator makes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

from flintstream.api.arguments import (
    KeyLike,
    TypeLike,
    located,
    read,
    read_key,
    refuse,
    require,
)
from flintstream.api.async_calls import AsyncOperations
from flintstream.api.broadcast import BroadcastConnectedStream, BroadcastStream, broadcast_with
from flintstream.api.collect import CloseableIterator, Mailbox
from flintstream.api.columns import add_columns
from flintstream.api.config import ExecutionConfig
from flintstream.api.connected import ConnectedStreams
from flintstream.api.dead_letters import GoesOn
from flintstream.api.joins import JoinOperations
from flintstream.api.joins_interval import KeyedJoinOperations
from flintstream.api.joins_reference import ReferenceJoins
from flintstream.api.keyed import KeyedOperations, by_count, sorted_by_time
from flintstream.api.no_effect import warn_no_effect
from flintstream.api.program import Program
from flintstream.api.settings import check_count
from flintstream.api.side_outputs import check_emits
from flintstream.api.sink import DataStreamSink, end_in
from flintstream.api.stream import Origin, Streamlike
from flintstream.api.time_trace import TimePlot, trace_time
from flintstream.api.vectorised import add_vectorized
from flintstream.api.windowed import AllWindowedStream
from flintstream.connectors.driver_sinks import CollectSink, PrintSink
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, describe
from flintstream.graph.nodes import Exchange, ProjectNode, TimestampsNode, Upstream
from flintstream.model.connect import Sink
from flintstream.model.delivery import DeliveryGuarantee, Isolation
from flintstream.model.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    as_filter_function,
    as_flat_map_function,
    as_map_function,
    as_partitioner,
    entry_point,
)
from flintstream.model.functions_process import KeyedProcessFunction, ProcessFunction
from flintstream.model.functions_vectorised import Vectorized
from flintstream.model.infer import infer_return_type, infer_yield_type
from flintstream.model.state import MapStateDescriptor
from flintstream.model.tags import OutputTag
from flintstream.model.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flintstream.model.types import Types
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.model.window_assigner import WindowAssigner
from flintstream.ops.adapters import Unchanged
from flintstream.ops.selectors import ConstantKey, KeySource


def _needs_keys(call: str) -> Callable[..., Any]:
    """Return a method that refuses what only streams with keys can do."""

    def refuse(self: Any, *arguments: Any, **named: Any) -> Any:
        alternative = ", or use window_all(...)" if call == "window" else ""
        what, remedy = f"{call}(...) works per key, and this stream has none", f"put key_by(...) before it{alternative}"
        raise located(DefinitionError(describe(what, remedy=remedy)))

    refuse.__name__ = refuse.__qualname__ = call
    refuse.__doc__ = "Refuse: only a stream with keys has this; put `key_by(...)` before it."
    return refuse


class DataStream(AsyncOperations["DataStream"], ReferenceJoins["DataStream"], JoinOperations["DataStream"], GoesOn):
    """A stream of records; get one from an environment's source."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._program = origin.program
        self._stream: Streamlike[DataStream] = Streamlike(origin, DataStream)

    def _operator(self, call: str) -> int:
        only = self._origin.only
        if only is None or only.tag:
            what = f"{call}(...) is said of an operator, and this stream is a view of others"
            raise located(
                DefinitionError(describe(what, remedy="call it right behind map, process or another operator"))
            )
        return only.node

    def get_type(self) -> TypeInformation:
        """Return the type of the records, declared or inferred; a pickled object if it is not known."""
        return self._origin.type_info or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> Program:
        """Return the environment that the stream was declared in."""
        return self._program

    def get_execution_config(self) -> ExecutionConfig:
        """Return the environment's config."""
        return self._program.get_config()

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: TypeLike = None) -> DataStream:
        """Turn each record into one record.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> list(env.from_collection([1, 2]).map(lambda x: x + 1).execute_and_collect())
        [2, 3]
        """
        if isinstance(func, Vectorized):
            return add_vectorized(self._stream, "map", func, output_type)
        function = read(as_map_function, func)
        return self._stream.add_function("Map", "map", function, ("map",), output_type, infer_return_type(func))

    def flat_map(self, func: FlatMapFunction | Callable[[Any], Any], output_type: TypeLike = None) -> DataStream:
        """Turn each record into any number of records: all that the function yields or returns in a list."""
        if isinstance(func, Vectorized):
            return add_vectorized(self._stream, "flat_map", func, output_type)
        function = read(as_flat_map_function, func)
        inferred = infer_yield_type(func)
        return self._stream.add_function("FlatMap", "flat_map", function, ("flat_map",), output_type, inferred)

    def filter(self, func: FilterFunction | Callable[[Any], bool]) -> DataStream:
        """Keep the records for which the function is true."""
        if isinstance(func, Vectorized):
            return add_vectorized(self._stream, "filter", func)
        function = read(as_filter_function, func)
        return self._stream.add_function("Filter", "filter", function, ("filter",), None, self._origin.type_info)

    def process(self, func: ProcessFunction, output_type: TypeLike = None) -> DataStream:
        """Give each record to a function that also sees its time, and emits what it yields, to side outputs too."""
        if isinstance(func, KeyedProcessFunction):
            what = "a KeyedProcessFunction needs keys, and this stream has none"
            raise located(DefinitionError(describe(what, remedy="put key_by(...) before it")))
        function = require(func, ProcessFunction, "a ProcessFunction", "pass a ProcessFunction")
        inferred, methods = infer_yield_type(function), ("process_element",)
        return self._stream.add_function("Process", "process", function, methods, output_type, inferred)

    def key_by(self, key_selector: KeyLike, key_type: TypeLike | str | int = None, *more: str | int) -> KeyedStream:
        """Group records by a key: a function's, or fields by name or position: `key_by("user", "page")`.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> visits = env.from_collection([("u1", "home", 1), ("u1", "home", 2)])
        >>> list(visits.key_by(0, 1).sum(2).execute_and_collect())
        [('u1', 'home', 1), ('u1', 'home', 3)]
        """
        fields = more
        if isinstance(key_type, str | int):
            fields, key_type = (key_type, *more), None
        return KeyedStream(self._origin, read_key(key_selector, fields, key_type))

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream[DataStream]:
        """Put all records into windows; this runs in one instance."""
        key = ConstantKey()
        whole = Streamlike(self._origin.over(Exchange("HASH", key)), DataStream)
        return AllWindowedStream(whole, key, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[DataStream]:
        """Put every `size` records into a window; with `slide` one begins at every `slide`-th; in one instance."""
        return self.window_all(by_count(size, slide))

    def sort_by_event_time(self, late: str | OutputTag = "drop") -> DataStream:
        """Put all records into the order of event time, in one instance; behind `key_by` it sorts by key, in many.

        A record leaves when the watermark has passed it; records with equal timestamps keep their order. One that comes
        after that is late: `late` says whether to "drop" it (it is counted), to "log" it, or is the tag of a side
        output.
        """
        return sorted_by_time(Streamlike(self._origin.over(Exchange("HASH", ConstantKey())), DataStream), late)

    def plot_time(self, path: str | Path | None = None) -> TimePlot:
        """Make a picture of how time went by in this stream: records, watermark and, of a window's results, its panes.

        The file is drawn when the job ends; `draw(...)` of what this returns draws what was seen so far at any time.
        A window that does not emit panes is computed a second time for it. Needs matplotlib: `flintstream[plot]`.
        """
        return trace_time(self._program, self._origin, path)

    def union(self, *streams: DataStream) -> DataStream:
        """Return the records of all these streams as one stream."""
        upstreams = list(self._origin.upstreams)
        types = {self._origin.type_info}
        for stream in streams:
            other = self._beside(stream)
            upstreams += other.upstreams
            types.add(other.type_info)
        return DataStream(Origin(self._program, tuple(upstreams), types.pop() if len(types) == 1 else None))

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams[DataStream]: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream[DataStream]: ...

    def connect(
        self, ds: DataStream | BroadcastStream
    ) -> ConnectedStreams[DataStream] | BroadcastConnectedStream[DataStream]:
        """Put another stream beside this one, to be processed by one function with a method for each."""
        if isinstance(ds, BroadcastStream):
            self._check_program(ds.origin)
            return BroadcastConnectedStream(self._origin, ds, DataStream)
        return ConnectedStreams(self._origin, self._beside(ds), DataStream)

    def _beside(self, stream: DataStream) -> Origin:
        other = require(stream, DataStream, "a DataStream", "pass a stream of the same environment")._origin
        return self._check_program(other)

    def _check_program(self, other: Origin) -> Origin:
        if other.program is not self._program:
            what = "two streams of different environments cannot meet"
            raise located(TypeMismatchError(describe(what, remedy="declare both in one environment")))
        return other

    def project(self, *field_indexes: int) -> DataStream:
        """Keep only these fields of tuples or rows, in this order."""
        known = self._origin.type_info
        inferred: TypeInformation | None = None
        if not field_indexes:
            raise located(InvalidArgumentError(describe("project() got no field", remedy="name one by its position")))
        most = len(known.field_types) - 1 if isinstance(known, TupleTypeInfo | RowTypeInfo) else None
        positions = tuple(check_count("a field's position", index, least=0, most=most) for index in field_indexes)
        if isinstance(known, TupleTypeInfo):
            inferred = TupleTypeInfo([known.field_types[index] for index in positions])
        return self._stream.add(ProjectNode, emits=inferred, name="Projection", positions=positions)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give records their event time, and say how far behind it others may come: `bounded("2s", on="ts")`."""
        remedy = "pass one such as WatermarkStrategy.for_monotonous_timestamps() or bounded('2s', on='ts')"
        strategy = require(watermark_strategy, WatermarkStrategy, "a WatermarkStrategy", remedy)
        if strategy.alignment is not None and strategy.alignment.update_interval_ms is not None:
            warn_no_effect("with_watermark_alignment(update_interval=...)", "alignment is looked at before every epoch")
        emits = self._origin.type_info
        return self._stream.add(TimestampsNode, emits=emits, name="Timestamps/Watermarks", strategy=strategy)

    def _partitioned(self, exchange: Exchange) -> DataStream:
        return DataStream(self._origin.over(exchange))

    def rebalance(self) -> DataStream:
        """Deal records out to the instances of the next operator, in turn."""
        return self._partitioned(Exchange("REBALANCE"))

    def rescale(self) -> DataStream:
        """Deal records out in turn, each instance to its share of the next operator's."""
        return self._partitioned(Exchange("RESCALE"))

    def shuffle(self) -> DataStream:
        """Spread records over the instances of the next operator, as if at random."""
        return self._partitioned(Exchange("SHUFFLE"))

    def forward(self) -> DataStream:
        """Keep records where they are: with the next operator's instance of the same number."""
        return self._partitioned(Exchange("FORWARD", imposed=True))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send every record to every instance of the next operator; with descriptors that one keeps broadcast state.

        Then another stream can be connected with this one, and nothing else: `stream.connect(rules.broadcast(known))`.
        """
        partitioned = self._partitioned(Exchange("BROADCAST"))
        if broadcast_state_descriptor is None:
            return partitioned
        return broadcast_with(self._origin, (broadcast_state_descriptor, *other_broadcast_state_descriptors))

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any] | str | int,
    ) -> DataStream:
        """Send each record to the instance that `partitioner(key, number of instances)` names."""
        chosen = entry_point(read(as_partitioner, partitioner), "partition")
        return self._partitioned(Exchange("CUSTOM", read_key(key_selector), chosen))

    def select(self, *columns: Any, **named: Any) -> DataStream:
        """Keep or compute columns, natively in Spark: `select("id", celsius="(f - 32) / 1.8")`; behind a source."""
        return DataStream(add_columns(self._origin, "select", columns, named))

    def where(self, condition: Any) -> DataStream:
        """Keep the rows that fulfil a Spark condition, natively in Spark: `where("celsius > 20")`; behind a source."""
        return DataStream(add_columns(self._origin, "where", (condition,), {}))

    def with_columns(self, **named: Any) -> DataStream:
        """Add or replace columns by Spark expressions, natively in Spark; behind a source."""
        return DataStream(add_columns(self._origin, "with_columns", (), named))

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return what the operator sent to a side output."""
        tag = require(output_tag, OutputTag, "an OutputTag", "pass the tag that the function yields")
        number = self._operator("get_side_output")
        check_emits(self._program.declarations.node(number), tag)
        side = DataStream(Origin(self._program, (Upstream(number, tag.tag_id),), tag.type_info))
        if tag.type_info is None:
            return side
        return side._stream.add_function(tag.tag_id, "map", Unchanged(), ("map",), tag.type_info)

    def sink_to(
        self,
        sink: Sink,
        *,
        guarantee: DeliveryGuarantee | str | None = None,
        isolation: Isolation | str | None = None,
    ) -> DataStreamSink:
        """Write the stream to a sink; only what ends in one is run. The options are those of `set_delivery`."""
        checked = require(sink, Sink, "a Sink", "pass a Sink, or use print()")
        return self._end(type(checked).__name__, checked).set_delivery(guarantee, isolation)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the stream, each line with the identifier before it."""
        return self._end("Print", PrintSink(sink_identifier, type_info=self._origin.type_info))

    def _end(self, name: str, sink: Sink) -> DataStreamSink:
        return end_in(self._program, self._origin.upstreams, name, sink)

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program, and return this stream's records: an iterator to be closed, or with `limit` a list."""
        if limit is not None:
            check_count("limit", limit)
        mailbox = Mailbox()
        self._end("Collect", CollectSink(mailbox.put))
        results = CloseableIterator(self._program.execute_async(job_execution_name), mailbox)
        if limit is None:
            return results
        with results:
            return [value for _, value in zip(range(limit), results, strict=False)]

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Refuse: a SinkFunction knows no commit."""
        refuse("add_sink", "use sink_to(sink) with a Sink")

    def cache(self) -> DataStream:
        """Refuse: nothing is kept between two jobs."""
        refuse("cache", "write the stream with sink_to(FileSink...) and read it again")

    window = _needs_keys("window")
    count_window = _needs_keys("count_window")
    reduce = _needs_keys("reduce")
    sum = _needs_keys("sum")
    min = _needs_keys("min")
    max = _needs_keys("max")
    min_by = _needs_keys("min_by")
    max_by = _needs_keys("max_by")
    map_with_state = _needs_keys("map_with_state")
    as_queryable_state = _needs_keys("as_queryable_state")
    delta_window = _needs_keys("delta_window")
    window_until = _needs_keys("window_until")
    interval_join = _needs_keys("interval_join")
    temporal_join = _needs_keys("temporal_join")
    regular_join = _needs_keys("regular_join")


class KeyedStream(KeyedOperations[DataStream], KeyedJoinOperations[DataStream], DataStream):  # pyright: ignore[reportIncompatibleMethodOverride]  # as in PyFlink, `process` takes another kind of function
    """A stream whose records are grouped by a key; get it by `key_by(...)`."""

    def __init__(self, origin: Origin, key: KeySource) -> None:
        DataStream.__init__(self, origin.over(Exchange("HASH", key)))
        self._key = key

    def _partitioned(self, exchange: Exchange) -> DataStream:
        what, remedy = "a keyed stream is partitioned by its keys already", "put this before key_by(...)"
        raise located(DefinitionError(describe(what, remedy=remedy)))
