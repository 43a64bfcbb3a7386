"""Windowed streams: windows of a keyed stream, or of a whole stream, until a function says what to compute.

Flink: WindowedStream and AllWindowedStream. As in PyFlink, `trigger` and its kin change the object and return it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast

from flintstream.api.aggregates import computed_by
from flintstream.api.arguments import TypeLike, read, read_late, read_type, require
from flintstream.api.no_effect import warn_no_effect
from flintstream.api.program import Program
from flintstream.api.settings import check_duration
from flintstream.api.stream import Streamlike
from flintstream.errors import DefinitionError, TypeMismatchError, UnsupportedError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import AggregateNode, WindowNode
from flintstream.model.evictors import Evictor
from flintstream.model.functions import AggregateFunction, Function, ReduceFunction, as_reduce_function
from flintstream.model.functions_vectorised import VectorizedAggregateFunction
from flintstream.model.functions_window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flintstream.model.infer import infer_return_type, infer_yield_type
from flintstream.model.panes import PaneMode, Panes
from flintstream.model.queryable import Queryable
from flintstream.model.tags import OutputTag
from flintstream.model.time import DurationLike
from flintstream.model.trigger_terms import simplified
from flintstream.model.triggers import EventTimeTrigger, Trigger
from flintstream.model.typeinfo import TypeInformation
from flintstream.model.window_assigner import WindowAssigner
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_record import OnlyAggregate, OnlyResults, RecordAggregates, ResultRows
from flintstream.ops.conform import TypedKey
from flintstream.ops.selectors import KeySource
from flintstream.ops.window import check_merging
from flintstream.ops.window_choice import is_columnar
from flintstream.ops.window_columns import names_of_key

S = TypeVar("S")
AggregateLike: TypeAlias = AggregateFunction | VectorizedAggregateFunction | Aggregate
"""An aggregate of the user's, record by record or on columns, or a built-in one such as `median("price")`."""


class Windowed(Generic[S]):
    """What both kinds share. `S` is the stream that the window's function makes."""

    _functions: tuple[type[Function], type[Function]]

    def __init__(self, stream: Streamlike[S], key: KeySource, window_assigner: WindowAssigner[Any, Any]) -> None:
        self._stream = stream
        self._key = key
        remedy = "pass one such as TumblingEventTimeWindows.of(...) or tumbling('5s')"
        self._assigner: WindowAssigner[Any, Any] = require(
            window_assigner, cast("type[WindowAssigner[Any, Any]]", WindowAssigner), "a window assigner", remedy
        )
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None
        self._logs_late = False
        self._panes: Panes | None = None
        self._queryable: Queryable | None = None

    def get_execution_environment(self) -> Program:
        """Return the environment that the stream was declared in."""
        return self._stream.origin.program

    def get_input_type(self) -> TypeInformation | None:
        """Return the type of the records that go into the windows, None if it is not known."""
        return self._stream.origin.type_info

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Let this trigger say when windows fire, instead of the assigner's own.

        Triggers such as `after_watermark(early=every("1s"), late=each())` are combined by `|`, `&`, `then` and
        `repeat`; Flink's, and those you write, can be parts of such an expression.
        """
        kind = cast("type[Trigger[Any, Any]]", Trigger)
        self._trigger = simplified(require(trigger, kind, "a trigger", "pass one such as after_count(5)"))
        read(lambda chosen: check_merging(self._assigner, chosen), self._trigger)
        return self

    def accumulating(self) -> Self:
        """Let a window that fires again show all its records again; so it is by default, but panes are counted now."""
        return self._with_panes(PaneMode.ACCUMULATING)

    def discarding(self) -> Self:
        """Let a window forget its records when it fires, so that each pane shows only what came since the last.

        A pane without new records gives no result. Of a window without an end nothing is kept when it has fired.
        """
        return self._with_panes(PaneMode.DISCARDING)

    def retracting(self) -> Self:
        """Let a window that fires again take back what it gave before: that comes first, marked as a retraction.

        Results are emitted as `Pane`s, as by `with_pane()`. A window that others became takes back what each of them
        gave. If a trigger purges a window, what it gave stands: what comes then are other records.
        """
        self._with_panes(PaneMode.RETRACTING)
        return self.with_pane()

    def with_pane(self) -> Self:
        """Emit each result as a `Pane`: the `value`, the `window` and `info`, which says which of its panes it is.

        >>> from flintstream import StreamExecutionEnvironment, after_count, after_watermark, monotonous, tumbling
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> stream = env.from_collection([("a", 1), ("a", 4), ("a", 5), ("a", 12)])
        >>> windows = stream.assign_timestamps_and_watermarks(monotonous(on=1)).key_by(0).window(tumbling("10ms"))
        >>> trigger = after_watermark(early=after_count(2))
        >>> sums = windows.trigger(trigger).with_pane().reduce(lambda x, y: ("a", x[1] + y[1]))
        >>> [(pane.value, pane.info.timing.name, pane.info.number) for pane in sums.execute_and_collect()]
        [(('a', 5), 'EARLY', 0), (('a', 10), 'ON_TIME', 1), (('a', 12), 'ON_TIME', 0)]
        """
        self._panes = Panes(PaneMode.ACCUMULATING if self._panes is None else self._panes.mode, shown=True)
        return self

    def _with_panes(self, mode: PaneMode) -> Self:
        shown = self._panes is not None and self._panes.shown
        self._panes = Panes(mode, shown)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Let this evictor remove records from a window before or after its function sees them."""
        kind = cast("type[Evictor[Any, Any]]", Evictor)
        self._evictor = require(evictor, kind, "an evictor", "pass one such as CountEvictor.of(...)")
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """Keep windows this long after event time has passed them; a late record fires its window again."""
        self._check_event_time("allowed_lateness(...)")
        self._lateness_ms = check_duration("the allowed lateness", time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send records that are too late to a side output instead of dropping them."""
        self._late_tag = require(output_tag, OutputTag, "an OutputTag", "pass OutputTag('late')")
        return self

    def late(self, how: str | OutputTag) -> Self:
        """Say what becomes of records that are too late: "drop", "log", or the tag of a side output.

        However that may be, they are counted. "log" logs each with its key, its timestamp, the watermark and the
        windows it missed, in the driver, once the epoch it came in is committed; a side output gets them all the same.
        """
        self._check_event_time("late(...)")
        logs, tag = read_late(how)
        self._logs_late = logs
        self._late_tag = tag or (self._late_tag if logs else None)
        return self

    def _check_event_time(self, call: str) -> None:
        if not self._assigner.is_event_time():
            line = users_line()
            what = f"{self._assigner} is not of event time, where no record is late"
            raise DefinitionError(describe(what, line, f"leave {call} out"), location=line)

    def _reduce(
        self, reduce_function: ReduceFunction | Callable[[Any, Any], Any], window_function: Any, output_type: Any
    ) -> S:
        function = read(as_reduce_function, reduce_function)
        emits = self.get_input_type() if window_function is None else infer_yield_type(window_function)
        return self._declare(emits, output_type, reduce=function, apply=self._window_function(window_function))

    def _aggregate(
        self, aggregate_function: AggregateLike, window_function: Any, accumulator_type: Any, output_type: Any
    ) -> S:
        if isinstance(aggregate_function, VectorizedAggregateFunction):
            aggregate_function = computed_by(aggregate_function)
        if isinstance(aggregate_function, Aggregate):
            return self._aggregate_columns(aggregate_function, window_function, output_type)
        remedy = "pass an AggregateFunction, or use reduce(...)"
        function = require(aggregate_function, AggregateFunction, "an AggregateFunction", remedy)
        if read_type(accumulator_type) is not None:
            warn_no_effect("accumulator_type", "accumulators are stored as what they are")
        emits = infer_return_type(function) if window_function is None else infer_yield_type(window_function)
        return self._declare(emits, output_type, aggregate=function, apply=self._window_function(window_function))

    def _aggregate_columns(self, aggregate: Aggregate, window_function: Any, output_type: Any) -> S:
        """Emit what an aggregate on columns gives, and nothing else; `window_function` takes results one by one."""
        if window_function is not None:
            function, emits = self._window_function(window_function), infer_yield_type(window_function)
            only = OnlyAggregate([aggregate])
            return self._declare(emits, output_type, [("", aggregate)], aggregate=only, apply=function)
        if not self._is_columnar():
            each = RecordAggregates([aggregate])
            return self._declare(None, output_type, [("", aggregate)], aggregate=each, apply=OnlyResults())
        return self._add_columns({"result": aggregate}, is_bare=True, output_type=read_type(output_type))

    def _apply(self, window_function: Any, kind: type[Function], output_type: Any) -> S:
        function = require(window_function, kind, f"a {kind.__name__}", f"pass a {kind.__name__}")
        return self._declare(infer_yield_type(function), output_type, apply=function)

    def _window_function(self, function: Any) -> Function | None:
        if function is None:
            return None
        names = " or a ".join(kind.__name__ for kind in self._functions)
        return require(function, self._functions, f"a {names}", f"pass a {names}")

    def _agg(self, aggregates: Mapping[str, Aggregate]) -> S:
        line = users_line()
        if not aggregates:
            raise DefinitionError(describe("agg() got no aggregate", line, "name one: agg(n=count())"), location=line)
        for name, aggregate in aggregates.items():
            if not isinstance(cast("object", aggregate), Aggregate):
                what = f"{name}={aggregate!r:.100} is not a built-in aggregate"
                remedy = "use count(), sum_of, avg and so on, computed_by(...), or aggregate(AggregateFunction)"
                raise TypeMismatchError(describe(what, line, remedy), location=line)
        key = self._key.source if isinstance(self._key, TypedKey) else self._key
        if not self._is_columnar():
            rows = ResultRows(names_of_key(key), list(aggregates))
            each = RecordAggregates(list(aggregates.values()))
            return self._declare(None, None, list(aggregates.items()), aggregate=each, apply=rows)
        return self._add_columns(aggregates)

    def _add_columns(self, aggregates: Mapping[str, Aggregate], **attributes: Any) -> S:
        """Put aggregates on columns behind the stream."""
        return self._stream.add(
            AggregateNode,
            name="Aggregate",
            assigner=self._assigner,
            key=self._key.source if isinstance(self._key, TypedKey) else self._key,
            aggregates=tuple(aggregates.items()),
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
            logs_late=self._logs_late,
            **self._marked(
                [("", each) if attributes.get("is_bare") else (name, each) for name, each in aggregates.items()]
            ),
            **attributes,
        )

    def _add(self, make: Callable[..., WindowNode], *, emits: TypeInformation | None, **attributes: Any) -> S:
        """Put the window's node behind what goes into it."""
        return self._stream.add(make, emits=emits, **attributes)

    def _is_columnar(self) -> bool:
        plain = self._trigger is None or type(self._trigger) is EventTimeTrigger
        general = not plain or self._evictor is not None or self._lateness_ms or self._panes is not None
        return not general and is_columnar(self._assigner)

    def _declare(
        self,
        emits: TypeInformation | None,
        output_type: Any,
        results: Sequence[tuple[str, Aggregate]] = (),
        **functions: Function | None,
    ) -> S:
        shows_panes = self._panes is not None and self._panes.shown
        if shows_panes and output_type is not None:
            line = users_line()
            what = f"the output is declared as {output_type}, but its records are Panes"
            raise DefinitionError(describe(what, line, "leave output_type out"), location=line)
        return self._add(
            WindowNode,
            emits=None if shows_panes else emits,
            name=type(self._assigner).__name__,
            output_type=read_type(output_type),
            assigner=self._assigner,
            trigger=self._trigger,
            evictor=self._evictor,
            allowed_lateness_ms=self._lateness_ms,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
            logs_late=self._logs_late,
            panes=self._panes,
            **self._marked(results),
            **functions,
        )

    def _marked(self, results: Sequence[tuple[str, Aggregate]]) -> dict[str, Any]:
        """Return the mark of windows that others may look into, with the aggregates that make their results."""
        if self._queryable is None:
            return {}
        if any(aggregate.kind == "computed_by" for _, aggregate in results):
            line = users_line()
            what = "windows are to be queryable, but their results take a function of yours on columns"
            raise UnsupportedError(describe(what, line, "use an AggregateFunction, or leave it out"), location=line)
        told = tuple((name, each.kind, each.field, tuple(each.options)) for name, each in results)
        return {"queryable": replace(self._queryable, results=told)}


class WindowedStream(Windowed[S]):
    """Windows of each key; get it by `key_by(...).window(...)`."""

    _functions = (WindowFunction, ProcessWindowFunction)

    def set_queryable(self, queryable_state_name: str, uncommitted: bool = False) -> Self:
        """Let others look into windows that are open: what each holds so far for a key, see `QueryableStateClient`.

        Windows with built-in aggregates, and reduced ones, show the result that they would give now; others their
        accumulator, or their records. With `uncommitted` others may also see what the running epoch has changed.
        """
        self._queryable = read(lambda name: Queryable.of(name, uncommitted), queryable_state_name)
        return self

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any] | None = None,
        output_type: TypeLike = None,
    ) -> S:
        """Fold the records of each window into one value as they come; `window_function` makes results of it.

        >>> from flintstream import StreamExecutionEnvironment, WatermarkStrategy, tumbling
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])
        >>> stream = env.from_collection([("a", 1), ("a", 4), ("a", 12)]).assign_timestamps_and_watermarks(timed)
        >>> sums = stream.key_by(0).window(tumbling("10ms")).reduce(lambda x, y: (x[0], x[1] + y[1]))
        >>> list(sums.execute_and_collect())
        [('a', 5), ('a', 12)]
        """
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateLike,
        window_function: WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any] | None = None,
        accumulator_type: TypeLike = None,
        output_type: TypeLike = None,
    ) -> S:
        """Fold the records of each window into an accumulator; its result is emitted, or given to `window_function`."""
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(self, window_function: WindowFunction[Any, Any, Any, Any], output_type: TypeLike = None) -> S:
        """Keep all records of each window, and call the function with them when it fires."""
        return self._apply(window_function, WindowFunction, output_type)

    def process(
        self, process_window_function: ProcessWindowFunction[Any, Any, Any, Any], output_type: TypeLike = None
    ) -> S:
        """Keep all records of each window, and call the function with them, the clocks and state when it fires."""
        return self._apply(process_window_function, ProcessWindowFunction, output_type)

    def agg(self, **aggregates: Aggregate) -> S:
        """Compute built-in aggregates: `agg(mean=avg("temperature"), n=count())`.

        Emits a row of the key's fields, `window_start` and `window_end` if the window has borders in time, and the
        aggregates by their names. Event-time windows with the default trigger are computed on columns, others record by
        record, with the same results; `explain()` says which.
        """
        return self._agg(aggregates)


class AllWindowedStream(Windowed[S]):
    """Windows of a whole stream, computed in one instance; get it by `window_all(...)`."""

    _functions = (AllWindowFunction, ProcessAllWindowFunction)

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: AllWindowFunction[Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any] | None = None,
        output_type: TypeLike = None,
    ) -> S:
        """Fold the records of each window into one value as they come; `window_function` makes results of it."""
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateLike,
        window_function: AllWindowFunction[Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any] | None = None,
        accumulator_type: TypeLike = None,
        output_type: TypeLike = None,
    ) -> S:
        """Fold the records of each window into an accumulator; its result is emitted, or given to `window_function`."""
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(self, window_function: AllWindowFunction[Any, Any, Any], output_type: TypeLike = None) -> S:
        """Keep all records of each window, and call the function with them when it fires."""
        return self._apply(window_function, AllWindowFunction, output_type)

    def process(
        self, process_window_function: ProcessAllWindowFunction[Any, Any, Any], output_type: TypeLike = None
    ) -> S:
        """Keep all records of each window, and call the function with them and with state when it fires."""
        return self._apply(process_window_function, ProcessAllWindowFunction, output_type)

    def agg(self, **aggregates: Aggregate) -> S:
        """Compute built-in aggregates; emits rows of `window_start`, `window_end` and the aggregates by their names."""
        return self._agg(aggregates)
