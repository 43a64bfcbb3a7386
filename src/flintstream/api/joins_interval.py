"""The interval join of two keyed streams: records of one key meet that are near enough in time.

Flink: KeyedStream.IntervalJoin and IntervalJoined of its Java API; PyFlink has neither. Differs from Flink: a join can
be an outer one (`how`), and records that met none can go to a side output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from flintstream.api.arguments import TypeLike, located, read, read_type, require
from flintstream.api.joins import JoinOperations, pair_emits, type_of_pairs
from flintstream.api.stream import Origin, add_node
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, describe
from flintstream.graph.nodes_join import IntervalJoinNode
from flintstream.model.functions_join import (
    JoinFunction,
    JoinKind,
    ProcessJoinFunction,
    as_process_join_function,
    read_join_kind,
)
from flintstream.model.tags import OutputTag
from flintstream.model.time import DurationLike, to_millis
from flintstream.ops.join_interval import IntervalJoinSpec

S = TypeVar("S")
_LATE = "pass OutputTag('late')"


class KeyedJoinOperations(JoinOperations[S]):
    """Joins of a keyed stream with another keyed stream; `S` is the stream they make."""

    def interval_join(self, other: Any, how: JoinKind = "inner") -> IntervalJoin[S]:
        """Join with another keyed stream: records of one key that are near enough in time.

        `how` says whose records are results too if they met none: of neither stream ("inner"), of this one ("left"), of
        the other one ("right"), of both ("full"). Such a result comes when event time reaches the end of the record's
        interval, and nothing can meet it any more.

        >>> from flintstream import StreamExecutionEnvironment, monotonous
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> clicks = env.from_collection([("a", 1), ("b", 2)]).assign_timestamps_and_watermarks(monotonous(on=1))
        >>> orders = env.from_collection([("a", 4), ("b", 9)]).assign_timestamps_and_watermarks(monotonous(on=1))
        >>> pairs = clicks.key_by(0).interval_join(orders.key_by(0), how="left").between(0, "5ms").process()
        >>> sorted(pairs.execute_and_collect())
        [(('a', 1), ('a', 4)), (('b', 2), None)]
        """
        if not isinstance(other, KeyedJoinOperations):
            what = "an interval join needs keys on both streams"
            raise located(TypeMismatchError(describe(what, remedy="pass another stream with its key_by(...)")))
        return IntervalJoin((self._origin, self._beside(other)), self._stream.result, read(read_join_kind, how))


class IntervalJoin(Generic[S]):
    """Two keyed streams to be joined; get it by `interval_join(...)`."""

    def __init__(self, origins: tuple[Origin, Origin], result: Callable[[Origin], S], how: JoinKind) -> None:
        self._origins = origins
        self._result = result
        self._how: JoinKind = how

    def between(self, lower_bound: DurationLike, upper_bound: DurationLike) -> IntervalJoined[S]:
        """Let two records meet if the right one's time is at least `lower_bound` and at most `upper_bound` later.

        Bounds may be negative: `between("-1h", 0)` is for what came up to an hour before.
        """
        lower, upper = read(to_millis, lower_bound), read(to_millis, upper_bound)
        return IntervalJoined(self._origins, self._result, self._how, lower, upper)


class IntervalJoined(Generic[S]):
    """Two keyed streams and how far apart in time their records may be. As in Flink, its methods change the object."""

    def __init__(
        self, origins: tuple[Origin, Origin], result: Callable[[Origin], S], how: JoinKind, lower: int, upper: int
    ) -> None:
        self._origins = origins
        self._result = result
        self._how: JoinKind = how
        self._bounds = (lower, upper)
        self._excluded = [0, 0]
        self._late: list[OutputTag | None] = [None, None]
        self._unmatched: list[OutputTag | None] = [None, None]

    def lower_bound_exclusive(self) -> Self:
        """Leave out records that are just the lower bound apart."""
        self._excluded[0] = 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """Leave out records that are just the upper bound apart."""
        self._excluded[1] = 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send left records that are behind the watermark to a side output instead of dropping them."""
        self._late[0] = require(output_tag, OutputTag, "an OutputTag", _LATE)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send right records that are behind the watermark to a side output instead of dropping them."""
        self._late[1] = require(output_tag, OutputTag, "an OutputTag", _LATE)
        return self

    def side_output_left_unmatched(self, output_tag: OutputTag) -> Self:
        """Send left records that met none to a side output, when event time reaches the end of their interval."""
        return self._send_unmatched(0, output_tag)

    def side_output_right_unmatched(self, output_tag: OutputTag) -> Self:
        """Send right records that met none to a side output, when event time reaches the end of their interval."""
        return self._send_unmatched(1, output_tag)

    def _send_unmatched(self, side: int, output_tag: OutputTag) -> Self:
        if self._outer[side]:
            what = f"of a {self._how} join, {('left', 'right')[side]} records that met none are results already"
            raise located(DefinitionError(describe(what, remedy="leave the side output or how= out")))
        self._unmatched[side] = require(output_tag, OutputTag, "an OutputTag", "pass OutputTag('unmatched')")
        return self

    @property
    def _outer(self) -> tuple[bool, bool]:
        return self._how in ("left", "full"), self._how in ("right", "full")

    def process(
        self,
        func: ProcessJoinFunction | JoinFunction | Callable[[Any, Any], Any] | None = None,
        output_type: TypeLike = None,
    ) -> S:
        """Give each pair to a function as soon as it is complete; without one, results are tuples of two records.

        A `ProcessJoinFunction` yields any number of results, and knows the times of both records; a `JoinFunction`, or
        a plain function of two records, returns one. A result has the later of the two times, a record that met none
        the time at which that is certain. Without a function no Python object is made of any record.
        """
        function = read(as_process_join_function, func)
        emits = type_of_pairs(self._origins, self._how)
        if function is not None:
            emits = pair_emits(function, func)
        return add_node(
            self._origins,
            self._result,
            IntervalJoinNode,
            emits=emits,
            name="Interval Join",
            shape="interval_join",
            function=function,
            output_type=read_type(output_type),
            join=self._spec(),
        )

    def _spec(self) -> IntervalJoinSpec:
        lower, upper = self._bounds[0] + self._excluded[0], self._bounds[1] - self._excluded[1]
        if lower > upper:
            what = f"no time is between {self._bounds[0]} ms and {self._bounds[1]} ms"
            if any(self._excluded):
                what += " without these bounds"
            remedy = "let the lower bound be less than the upper one"
            raise located(InvalidArgumentError(describe(what, remedy=remedy)))
        late, unmatched = _ids(self._late), _ids(self._unmatched)
        shared = {tag for tag in late if tag is not None} & set(unmatched)
        if shared:
            what = f"side output {shared.pop()!r} is named for late records and for others that met none"
            raise located(DefinitionError(describe(what, remedy="use two tags")))
        return IntervalJoinSpec(lower, upper, self._outer, late, unmatched)


def _ids(tags: list[OutputTag | None]) -> tuple[str | None, str | None]:
    left, right = (None if tag is None else tag.tag_id for tag in tags)
    return left, right
