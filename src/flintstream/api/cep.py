"""`CEP.pattern(stream, pattern)`: look for a pattern in a stream, per key if it has keys, otherwise in one instance.

Flink: CEP and PatternStream of org.apache.flink.cep; PyFlink has neither, so these are Java's names in Python's
spelling. As with windowed streams, the methods that set something change the object and return it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from flintstream.api.arguments import TypeLike, read, read_type, require
from flintstream.api.datastream import DataStream, KeyedStream
from flintstream.api.stream import Streamlike
from flintstream.errors import TypeMismatchError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import Exchange, PatternNode
from flintstream.model.cep import Pattern
from flintstream.model.cep_functions import (
    Match,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    Selection,
    TimedSelection,
    as_selection,
)
from flintstream.model.functions import Function
from flintstream.model.infer import infer_return_type, infer_yield_type
from flintstream.model.tags import OutputTag
from flintstream.model.typeinfo import TypeInformation
from flintstream.ops.selectors import ConstantKey

Select: TypeAlias = PatternSelectFunction | Callable[[Match], Any]
FlatSelect: TypeAlias = PatternFlatSelectFunction | Callable[[Match], Any]
Timeout: TypeAlias = PatternTimeoutFunction | Callable[[Match, int], Any]
FlatTimeout: TypeAlias = PatternFlatTimeoutFunction | Callable[[Match, int], Any]


class CEP:
    """Where looking for patterns begins."""

    @staticmethod
    def pattern(input: DataStream, pattern: Pattern) -> PatternStream:
        """Look for a pattern in a stream; records are taken in the order of event time.

        >>> from flintstream import StreamExecutionEnvironment, monotonous
        >>> from flintstream.cep import CEP, Pattern
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> readings = [{"id": "a", "ts": 1, "t": 20}, {"id": "b", "ts": 2, "t": 50}, {"id": "a", "ts": 3, "t": 45}]
        >>> stream = env.from_collection(readings).assign_timestamps_and_watermarks(monotonous(on="ts"))
        >>> def jumps(reading, ctx):
        ...     return reading["t"] - ctx.get_events_for_pattern("low")[0]["t"] > 20
        >>> rise = Pattern.begin("low").followed_by("high").where(jumps).within("1min")
        >>> alarms = CEP.pattern(stream.key_by("id"), rise).select(lambda m: (m["low"][0]["t"], m["high"][0]["t"]))
        >>> list(alarms.execute_and_collect())
        [(20, 45)]
        """
        stream = require(input, DataStream, "a stream", "pass a DataStream or a KeyedStream")
        wanted = require(pattern, Pattern, "a pattern", "begin one by Pattern.begin(...)")
        read(lambda each: each.check(), wanted)
        return PatternStream(stream, wanted)


class PatternStream:
    """The matches of a pattern, until a function says what to make of them."""

    def __init__(self, stream: DataStream, pattern: Pattern) -> None:
        origin = stream._origin  # pyright: ignore[reportPrivateUsage]  # streams are one family
        if not isinstance(stream, KeyedStream):
            origin = origin.over(Exchange("HASH", ConstantKey()))
        self._stream = Streamlike(origin, DataStream)
        self._pattern = pattern
        self._by_clock = False
        self._late_tag: OutputTag | None = None
        self._miss_tag: OutputTag | None = None

    def in_event_time(self) -> PatternStream:
        """Take records in the order of event time, each when the watermark has passed it; this is the default."""
        self._by_clock = False
        return self

    def in_processing_time(self) -> PatternStream:
        """Take records as they come, and measure `within` by the clock."""
        self._by_clock = True
        return self

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Send records that come after the watermark has passed them to a side output, instead of dropping them."""
        self._late_tag = _tag(late_data_output_tag)
        return self

    def near_misses(self, output_tag: OutputTag) -> PatternStream:
        """Send a `NearMiss` to a side output for every partial match that comes to nothing, and say why."""
        self._miss_tag = _tag(output_tag)
        return self

    def select(
        self,
        function: Select,
        output_type: TypeLike = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_timeout_function: Timeout | None = None,
    ) -> DataStream:
        """Turn each match, a dict from stage to its records, into one record.

        Partial matches that `within` has ended can go to a side output: `pattern_timeout_function(match, time)` says
        as what.
        """
        selection = read(lambda each: as_selection(each, PatternSelectFunction, "select", False), function)
        timeout = None
        if pattern_timeout_function is not None:
            timeout = read(
                lambda each: as_selection(each, PatternTimeoutFunction, "timeout", False), pattern_timeout_function
            )
        inferred = None if isinstance(function, Function) else infer_return_type(function)
        return self._select(selection, timeout, timed_out_partial_matches_tag, output_type, inferred)

    def flat_select(
        self,
        function: FlatSelect,
        output_type: TypeLike = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_flat_timeout_function: FlatTimeout | None = None,
    ) -> DataStream:
        """Turn each match into any number of records, and partial matches that timed out likewise."""
        selection = read(lambda each: as_selection(each, PatternFlatSelectFunction, "flat_select", True), function)
        timeout, given = None, pattern_flat_timeout_function
        if given is not None:
            timeout = read(lambda each: as_selection(each, PatternFlatTimeoutFunction, "timeout", True), given)
        inferred = None if isinstance(function, Function) else infer_yield_type(function)
        return self._select(selection, timeout, timed_out_partial_matches_tag, output_type, inferred)

    def process(self, pattern_process_function: PatternProcessFunction, output_type: TypeLike = None) -> DataStream:
        """Give each match to a function, which emits what it yields.

        If it also extends `TimedOutPartialMatchHandler`, it gets the partial matches that `within` has ended, too.
        """
        remedy = "pass a PatternProcessFunction, or use select(...) for a plain function"
        function = require(pattern_process_function, PatternProcessFunction, "a PatternProcessFunction", remedy)
        return self._add(function, output_type, None, None)

    def _select(
        self,
        selection: Selection,
        timeout: Selection | None,
        tag: OutputTag | None,
        output_type: Any,
        inferred: TypeInformation | None,
    ) -> DataStream:
        if (timeout is None) != (tag is None):
            line = users_line()
            what = "partial matches that timed out need both a function and the tag of a side output"
            raise TypeMismatchError(describe(what, line, "give both, or none"), location=line)
        if timeout is None or tag is None:
            return self._add(selection, output_type, inferred, None)
        return self._add(TimedSelection(selection, timeout, _tag(tag)), output_type, inferred, tag)

    def _add(
        self,
        function: PatternProcessFunction,
        output_type: Any,
        inferred: TypeInformation | None,
        timeout_tag: OutputTag | None,
    ) -> DataStream:
        late, miss = (None if tag is None else tag.tag_id for tag in (self._late_tag, self._miss_tag))
        tags = [tag.tag_id for tag in (self._late_tag, self._miss_tag, timeout_tag) if tag is not None]
        return self._stream.add(
            PatternNode,
            emits=inferred,
            name="Pattern",
            output_type=read_type(output_type),
            pattern=self._pattern,
            function=function,
            by_clock=self._by_clock,
            late_tag=late,
            miss_tag=miss,
            tags=tuple(tags),
        )


def _tag(tag: Any) -> OutputTag:
    return require(tag, OutputTag, "an OutputTag", "pass OutputTag('name')")
