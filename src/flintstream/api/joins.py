"""Joins of two streams in windows: those records meet that have one key and fall into one window.

Flink: JoinedStreams and CoGroupedStreams of its Java API; PyFlink has neither. Differs from Flink: a join can be an
outer one (`how`), and late records can go to side outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Self, TypeVar

from flintstream.api.arguments import KeyLike, TypeLike, located, read, read_key, require
from flintstream.api.stream import Origin, Streamlike, add_node
from flintstream.api.windowed import Windowed
from flintstream.errors import DefinitionError, TypeMismatchError, describe
from flintstream.graph.nodes import Exchange
from flintstream.graph.nodes_join import WindowJoinNode
from flintstream.model.functions import Function
from flintstream.model.functions_join import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    JoinKind,
    as_co_group_function,
    as_join_function,
    read_join_kind,
)
from flintstream.model.infer import infer_return_type, infer_yield_type
from flintstream.model.tags import OutputTag
from flintstream.model.typeinfo import TupleTypeInfo, TypeInformation
from flintstream.model.window_assigner import WindowAssigner
from flintstream.ops.conform import TypedKey
from flintstream.ops.join_window import CoGroupWindow, JoinWindow
from flintstream.ops.selectors import KeySource

S = TypeVar("S")
_LATE = "pass OutputTag('late')"


class JoinOperations(Generic[S]):
    """Joins of a stream with another one in windows; `S` is the stream they make."""

    _origin: Origin
    _stream: Streamlike[S]

    def _beside(self, stream: Any) -> Origin:
        raise NotImplementedError

    def join(self, other: Any, how: JoinKind = "inner") -> JoinedStreams[S]:
        """Join with another stream: each record with each of the other stream with the same key in the same window.

        `how` says whose records are results too if they have no partner: of neither stream ("inner"), of this one
        ("left"), of the other one ("right"), of both ("full"); the missing record is None then.

        >>> from flintstream import StreamExecutionEnvironment, monotonous, tumbling
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> orders = env.from_collection([("a", 1), ("b", 2)]).assign_timestamps_and_watermarks(monotonous(on=1))
        >>> bills = env.from_collection([("a", 3), ("a", 12)]).assign_timestamps_and_watermarks(monotonous(on=1))
        >>> both = orders.join(bills, how="left").where(0).equal_to(0).window(tumbling("10ms")).apply()
        >>> sorted(both.execute_and_collect())
        [(('a', 1), ('a', 3)), (('b', 2), None)]
        """
        return JoinedStreams(self._origin, self._beside(other), self._stream.result, read(read_join_kind, how))

    def co_group(self, other: Any) -> CoGroupedStreams[S]:
        """Give all records of both streams with the same key in the same window to one function, those of each apart.

        >>> from flintstream import StreamExecutionEnvironment, monotonous, tumbling
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> left = env.from_collection([("a", 1), ("a", 2)]).assign_timestamps_and_watermarks(monotonous(on=1))
        >>> right = env.from_collection([("a", 3), ("b", 4)]).assign_timestamps_and_watermarks(monotonous(on=1))
        >>> windows = left.co_group(right).where(0).equal_to(0).window(tumbling("10ms"))
        >>> sorted(windows.apply(lambda first, second: [(len(first), len(second))]).execute_and_collect())
        [(0, 1), (2, 1)]
        """
        return CoGroupedStreams(self._origin, self._beside(other), self._stream.result, None)


class TwoStreams(Generic[S]):
    """Two streams on their way to a common window; the keys come one after the other."""

    def __init__(self, first: Origin, second: Origin, result: Callable[[Origin], S], how: JoinKind | None) -> None:
        self._origins = (first, second)
        self._result = result
        self._how: JoinKind | None = how
        self._keys: list[KeySource] = []

    def _with_key(self, key: KeySource) -> Self:
        twin = type(self)(*self._origins, self._result, self._how)
        twin._keys = [*self._keys, key]
        return twin

    def where(self, key_selector: KeyLike, key_type: TypeLike = None) -> Self:
        """Say where the key of the first stream comes from, as in `key_by`."""
        if self._keys:
            what = "where(...) was said already"
            raise located(DefinitionError(describe(what, remedy="call where(...) and then equal_to(...), once each")))
        return self._with_key(read_key(key_selector, (), key_type))

    def equal_to(self, key_selector: KeyLike, key_type: TypeLike = None) -> Self:
        """Say where the key of the second stream comes from, as in `key_by`."""
        if len(self._keys) != 1:
            what = "equal_to(...) needs where(...) before it" if not self._keys else "equal_to(...) was said already"
            raise located(DefinitionError(describe(what, remedy="call where(...) and then equal_to(...), once each")))
        key = read_key(key_selector, (), key_type)
        first = self._keys[0]
        if isinstance(first, TypedKey) and isinstance(key, TypedKey) and first.key_type != key.key_type:
            what = f"the keys are of different types, {first.key_type} and {key.key_type}, and never equal"
            raise located(TypeMismatchError(describe(what, remedy="declare one key_type for both")))
        return self._with_key(key)

    def _keyed(self) -> tuple[Origin, Origin]:
        if len(self._keys) != 2:
            what = "window(...) needs the keys of both streams"
            raise located(DefinitionError(describe(what, remedy="call where(...) and equal_to(...) before it")))
        first, second = (o.over(Exchange("HASH", key)) for o, key in zip(self._origins, self._keys, strict=True))
        return first, second


class JoinedStreams(TwoStreams[S]):
    """Two streams to be joined in windows; get it by `join(...)`."""

    def window(self, assigner: WindowAssigner[Any, Any]) -> JoinedWindows[S]:
        """Put the records of both streams into windows: `window(tumbling("5s"))`."""
        return JoinedWindows(self._keyed(), self._result, assigner, self._how or "inner")


class CoGroupedStreams(TwoStreams[S]):
    """Two streams to be grouped in windows; get it by `co_group(...)`."""

    def window(self, assigner: WindowAssigner[Any, Any]) -> CoGroupedWindows[S]:
        """Put the records of both streams into windows: `window(tumbling("5s"))`."""
        return CoGroupedWindows(self._keyed(), self._result, assigner)


class TwoStreamWindows(Windowed[S]):
    """Windows of two streams, with all that windows of one have; triggers and evictors see `TaggedUnion`s."""

    def __init__(
        self, origins: tuple[Origin, Origin], result: Callable[[Origin], S], assigner: WindowAssigner[Any, Any]
    ) -> None:
        key = origins[0].upstreams[0].exchange.key
        assert key is not None
        super().__init__(Streamlike(origins[0], result), key, assigner)
        self._origins = origins
        self._late_tags: list[OutputTag | None] = [None, None]

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send records of the first stream that are too late to a side output instead of dropping them."""
        self._check_event_time("side_output_left_late_data(...)")
        self._late_tags[0] = require(output_tag, OutputTag, "an OutputTag", _LATE)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send records of the second stream that are too late to a side output instead of dropping them."""
        self._check_event_time("side_output_right_late_data(...)")
        self._late_tags[1] = require(output_tag, OutputTag, "an OutputTag", _LATE)
        return self

    def get_input_type(self) -> TypeInformation | None:
        """Return None: records of two streams go into the windows."""
        return None

    def _add(self, make: Any, *, emits: TypeInformation | None, **attributes: Any) -> S:
        tags = tuple(None if tag is None else tag.tag_id for tag in self._late_tags)
        if None not in tags:
            attributes["late_tag"] = attributes["late_tag"] or tags[0]
        return add_node(self._origins, self._stream.result, WindowJoinNode, emits=emits, late_tags=tags, **attributes)


class JoinedWindows(TwoStreamWindows[S]):
    """Windows in which two streams are joined."""

    def __init__(
        self,
        origins: tuple[Origin, Origin],
        result: Callable[[Origin], S],
        assigner: WindowAssigner[Any, Any],
        how: JoinKind,
    ) -> None:
        super().__init__(origins, result, assigner)
        self._how: JoinKind = how

    def apply(
        self,
        func: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any] | None = None,
        output_type: TypeLike = None,
    ) -> S:
        """Give each pair of a window to a function when it fires; without one, results are tuples of two records.

        A `JoinFunction`, or a plain function of two records, returns one result, a `FlatJoinFunction` yields any
        number of them. Results have the time of the window's last millisecond.
        """
        chosen = read(as_join_function, func)
        emits = type_of_pairs(self._origins, self._how) if func is None else pair_emits(chosen, func)
        return self._declare(emits, output_type, apply=JoinWindow(chosen, self._how))


class CoGroupedWindows(TwoStreamWindows[S]):
    """Windows in which two streams are grouped."""

    def apply(
        self,
        func: CoGroupFunction | Callable[[Any, Any], Iterable[Any] | None],
        output_type: TypeLike = None,
    ) -> S:
        """Call a function with the records of both streams in a window when it fires; either list may be empty."""
        chosen = read(as_co_group_function, func)
        return self._declare(infer_yield_type(func), output_type, apply=CoGroupWindow(chosen))


def pair_emits(function: Function, given: Any) -> TypeInformation | None:
    """Return what a function of pairs emits, as far as its annotations tell."""
    return infer_return_type(given) if isinstance(function, JoinFunction) else infer_yield_type(given)


def type_of_pairs(origins: tuple[Origin, Origin], how: JoinKind) -> TypeInformation | None:
    """Return the type of pairs if it is known; a record that may be missing has none."""
    left, right = (origin.type_info for origin in origins)
    return None if how != "inner" or left is None or right is None else TupleTypeInfo([left, right])
