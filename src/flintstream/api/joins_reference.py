"""Joins of a stream with reference data: versions of another stream, a system outside, a table, all of another stream.

Mixins over the stream that results, so that `keyed.py` and `datastream.py` stay what they are. As with windowed
streams, what sets something changes the object and returns it, and `apply` adds the operator. As everywhere, a result
`(tag, value)` goes to the side output of the tag.

Flink: the temporal, lookup and regular joins of its SQL; its DataStreams have none of them, so names are those of SQL
in Python's spelling, and side outputs those of `IntervalJoined`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

from flintstream.api.arguments import KeyLike, TypeLike, located, read, read_key, read_type, require
from flintstream.api.settings import check_count
from flintstream.api.static_tables import join_with_table
from flintstream.api.stream import Origin, Streamlike, add_node
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, describe
from flintstream.graph.nodes import FunctionNode
from flintstream.model.functions_join import CallableJoin, JoinFunction, PairUp, read_function
from flintstream.model.functions_lookup import (
    AsyncLookupFunction,
    LookupCache,
    LookupFunction,
    answers_many,
    as_lookup,
)
from flintstream.model.infer import infer_return_type
from flintstream.model.joins_reference import JoinDeclaration, RegularJoin, TemporalJoin
from flintstream.model.tags import OutputTag
from flintstream.model.time import DurationLike, to_millis
from flintstream.ops.lookup import LookupJoin

S = TypeVar("S")
Join = JoinFunction | Callable[[Any, Any], Any] | None
"""What makes a result of two records: a JoinFunction, `f(left, right)`, or nothing, which gives pairs."""
ASYNC_CAPACITY = 100


class ReferenceJoined(Generic[S]):
    """Two or one streams that are to be joined by one operator."""

    def __init__(self, origins: Sequence[Origin], result: Callable[[Origin], S], how: str) -> None:
        self._origins = tuple(origins)
        self._result = result
        self._how = how
        self._unmatched: list[OutputTag | None] = [None, None]

    def side_output_left_unmatched(self, output_tag: OutputTag) -> Self:
        """Send records that have met nothing, and are no results therefore, to a side output."""
        return self._send_unmatched(0, output_tag)

    def _send_unmatched(self, side: int, output_tag: OutputTag) -> Self:
        if self._how in (("left", "right")[side], "full"):
            what = f"of a {self._how} join, {('left', 'right')[side]} records that met nothing are results already"
            raise located(DefinitionError(describe(what, remedy="leave the side output or how= out")))
        self._unmatched[side] = require(output_tag, OutputTag, "an OutputTag", "pass OutputTag('unmatched')")
        return self

    def _declare(self, name: str, shape: str, join: JoinDeclaration, output_type: TypeLike) -> S:
        changes = isinstance(join, RegularJoin) and join.changes
        emits = None if changes else infer_return_type(join.combine)
        return add_node(
            self._origins,
            self._result,
            FunctionNode,
            emits=emits,
            name=name,
            shape=shape,
            function=join,
            output_type=read_type(output_type),
        )


class TemporalJoined(ReferenceJoined[S]):
    """Records that will meet the version of their key; get it by `temporal_join(...)`."""

    def __init__(self, origins: Sequence[Origin], result: Callable[[Origin], S], how: str, as_of: str) -> None:
        super().__init__(origins, result, how)
        self._by_clock = as_of == "processing"
        self._ends: Callable[[Any], Any] | None = None
        self._late: list[OutputTag | None] = [None, None]

    def ends_when(self, condition: Callable[[Any], Any]) -> Self:
        """Say which records of the other stream end a version and are none themselves: a deletion, a withdrawal."""
        if not callable(condition):
            what = f"{condition!r:.100} is not a condition"
            raise located(TypeMismatchError(describe(what, remedy="pass f(version) that is true for the end of one")))
        self._ends = condition
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send records that come after the watermark has passed them to a side output; otherwise they are counted."""
        self._late[0] = self._tag(output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send versions that come after the watermark has passed them to a side output as well.

        Such a version is valid for the records still to come; those before it were joined without it.
        """
        self._late[1] = self._tag(output_tag)
        return self

    def _tag(self, output_tag: OutputTag) -> OutputTag:
        tag = require(output_tag, OutputTag, "an OutputTag", "pass OutputTag('late')")
        if self._by_clock:
            what = 'nothing is late in a join as_of="processing"'
            raise located(DefinitionError(describe(what, remedy="leave the side output out, or join by event time")))
        return tag

    def apply(self, func: Join = None, output_type: TypeLike = None) -> S:
        """Make a result of each record and its version, None if it has none; without a function, a pair."""
        late, unmatched = ids(self._late), ids(self._unmatched)
        join = TemporalJoin(self._how, self._by_clock, self._ends, late, read(as_joining, func), unmatched)
        return self._declare("Temporal Join", "temporal_join", join, output_type)


class RegularJoined(ReferenceJoined[S]):
    """Two streams whose records all meet; get it by `regular_join(...)`."""

    def __init__(
        self, origins: Sequence[Origin], result: Callable[[Origin], S], how: str, ttl: int | None, by_clock: bool
    ) -> None:
        super().__init__(origins, result, how)
        self._ttl, self._by_clock = ttl, by_clock
        self._changes = False

    def side_output_right_unmatched(self, output_tag: OutputTag) -> Self:
        """Send records of the other stream that have met nothing to a side output, when their time is over."""
        return self._send_unmatched(1, output_tag)

    def changelog(self) -> Self:
        """Give results as `Change`s: an unmatched record at once, and its deletion when it meets another."""
        self._changes = True
        return self

    def apply(self, func: Join = None, output_type: TypeLike = None) -> S:
        """Make a result of each two records; of an unmatched one with None. Without a function, a pair."""
        is_outer = self._how != "inner" and not self._changes
        if self._ttl is None and (is_outer or any(self._unmatched)):
            what = f"a {self._how} join that keeps records for ever never knows that one has met nothing"
            remedy = "set ttl=, or call changelog() for results that may be taken back"
            raise located(DefinitionError(describe(what, remedy=remedy)))
        function, unmatched = read(as_joining, func), ids(self._unmatched)
        join = RegularJoin(self._how, self._ttl, self._by_clock, self._changes, function, unmatched)
        return self._declare("Regular Join", "regular_join", join, output_type)


class LookupJoined(ReferenceJoined[S]):
    """Records that will meet rows of a system outside; get it by `lookup_join(...)`."""

    def __init__(self, origin: Origin, result: Callable[[Origin], S], lookup: Any, on: KeyLike, how: str) -> None:
        super().__init__([origin], result, how)
        self._lookup, self._key = read(as_lookup, lookup), read_key(on)
        self._cache: LookupCache | None = None
        self._retries = self._delay = 0
        self._capacity: int | None = None

    def with_cache(self, cache: LookupCache) -> Self:
        """Remember what was found, in each worker: `with_cache(LookupCache(10_000, expire_after_write="10min"))`."""
        self._cache = require(cache, LookupCache, "a LookupCache", "pass LookupCache(...)")
        return self

    def with_retries(self, retries: int, delay: DurationLike = 0) -> Self:
        """Try a lookup that fails again, so many times, after a while; then the job fails with its error."""
        self._retries = check_count("retries", retries, least=0)
        self._delay = read(to_millis, delay)
        if self._delay < 0:
            raise located(InvalidArgumentError(describe(f"delay is {delay!r}", remedy="give 0 or more")))
        return self

    def with_capacity(self, capacity: int) -> Self:
        """Let so many lookups be under way at once in a task; those of an ordinary function run in threads."""
        self._capacity = check_count("capacity", capacity)
        if answers_many(self._lookup):
            what = "the function is asked for all keys of a batch in one call, so capacity would change nothing"
            raise located(DefinitionError(describe(what, remedy="leave with_capacity(...) or lookup_many out")))
        return self

    def apply(self, func: Join = None, output_type: TypeLike = None) -> S:
        """Make a result of each record and each of its rows; None if it has none. Without a function, a pair."""
        default = ASYNC_CAPACITY if isinstance(self._lookup, AsyncLookupFunction) else 1
        capacity = default if self._capacity is None else self._capacity
        settings = (self._cache, self._retries, self._delay, capacity)
        function, unmatched = read(as_joining, func), ids(self._unmatched)
        join = LookupJoin(self._how, self._lookup, self._key, *settings, function, unmatched)
        return self._declare("Lookup Join", "lookup_join", join, output_type)


class ReferenceJoins(Generic[S]):
    """Joins of any stream; `S` is the stream they make."""

    _stream: Streamlike[S]

    def lookup_join(
        self,
        lookup: LookupFunction | AsyncLookupFunction | Callable[[Any], Any],
        on: KeyLike,
        how: str = "inner",
    ) -> LookupJoined[S]:
        """Join each record with the rows that a system outside has for its key: a database, a service.

        `lookup` is a LookupFunction, an AsyncLookupFunction or `f(key)`, `async def` too; `on` is the key, as in
        `key_by`; `how` is "inner" or "left". What comes back may change from moment to moment: an epoch that is run
        again asks again, and gives what it is told then.

        >>> from flintstream import LookupCache, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> names = {1: "Ada", 2: "Bob"}
        >>> orders = env.from_collection([(1, "pen"), (3, "ink"), (1, "cup")])
        >>> named = orders.lookup_join(names.get, on=0, how="left").with_cache(LookupCache(1000))
        >>> list(named.apply(lambda order, name: (name, order[1])).execute_and_collect())
        [('Ada', 'pen'), (None, 'ink'), ('Ada', 'cup')]
        """
        return LookupJoined(self._stream.origin, self._stream.result, lookup, on, one_of(how, "how", ("inner", "left")))

    def join_static(self, table: Any, on: str | Sequence[str], how: str = "inner") -> S:
        """Join each record with the rows of a table that have the same values in the fields `on`.

        `table` is a Spark DataFrame, a pandas one or an Arrow table; `how` is "inner", "left", "left_semi" or
        "left_anti". Results are `Row`s with the fields of both. Right behind a source that Spark reads, or with a Spark
        DataFrame, Spark itself joins, by broadcasting or shuffling as it sees fit; otherwise each task has the table.

        >>> import pyarrow as pa
        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> clicks = env.from_collection([{"campaign": 7, "user": "u1"}, {"campaign": 8, "user": "u2"}])
        >>> campaigns = pa.table({"campaign": [7], "name": ["spring"]})
        >>> list(clicks.join_static(campaigns, on="campaign").execute_and_collect())
        [Row(campaign=7, user='u1', name='spring')]
        """
        kinds = ("inner", "left", "left_semi", "left_anti")
        return join_with_table(self._stream, table, on, one_of(how, "how", kinds))


class KeyedReferenceJoins(Generic[S]):
    """Joins of a stream with keys and another one with the same keys."""

    _stream: Streamlike[S]

    def temporal_join(
        self, other: KeyedReferenceJoins[S], how: str = "inner", as_of: str = "event"
    ) -> TemporalJoined[S]:
        """Join each record with the version of its key, from a stream of versions, that was valid at its event time.

        A version is valid from its timestamp on, until the next one. The result is given when the watermark of both
        streams has passed the record. `how` is "inner" or "left"; `as_of` is "event", or "processing" for the newest
        version known when the record comes, at once.

        >>> from flintstream import StreamExecutionEnvironment, bounded
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> time = bounded("5ms", on="ts")
        >>> orders = env.from_collection([{"item": "pen", "ts": 12}, {"item": "pen", "ts": 9}])
        >>> prices = env.from_collection([{"item": "pen", "ts": 1, "p": 2}, {"item": "pen", "ts": 10, "p": 3}])
        >>> orders, prices = (each.assign_timestamps_and_watermarks(time) for each in (orders, prices))
        >>> priced = orders.key_by("item").temporal_join(prices.key_by("item"))
        >>> list(priced.apply(lambda order, price: (order["ts"], price["p"])).execute_and_collect())
        [(9, 2), (12, 3)]
        """
        kind, clock = one_of(how, "how", ("inner", "left")), one_of(as_of, "as_of", ("event", "processing"))
        return TemporalJoined(both(self, other), self._stream.result, kind, clock)

    def regular_join(
        self,
        other: KeyedReferenceJoins[S],
        ttl: DurationLike | None,
        how: str = "inner",
        ttl_time: str = "event",
    ) -> RegularJoined[S]:
        """Join each record with all those of the other stream that have the same key, whichever comes first.

        A record is kept until event time (with `ttl_time="processing"` the clock) has gone on by `ttl` since it; None
        keeps it for ever, which needs ever more state. `how` is "inner", "left", "right" or "full": a record that has
        met nothing is then a result when its time is over, or with `changelog()` at once.

        >>> from flintstream import StreamExecutionEnvironment, bounded
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> time = bounded("5ms", on="ts")
        >>> orders = env.from_collection([{"id": 1, "ts": 10}, {"id": 2, "ts": 20}])
        >>> payments = env.from_collection([{"id": 1, "ts": 30}])
        >>> orders, payments = (each.assign_timestamps_and_watermarks(time) for each in (orders, payments))
        >>> paid = orders.key_by("id").regular_join(payments.key_by("id"), ttl="1h", how="left")
        >>> list(paid.apply(lambda order, payment: (order["id"], payment is not None)).execute_and_collect())
        [(1, True), (2, False)]
        """
        kind = one_of(how, "how", ("inner", "left", "right", "full"))
        clock = one_of(ttl_time, "ttl_time", ("event", "processing"))
        millis = None if ttl is None else read(to_millis, ttl)
        if millis is not None and millis <= 0:
            raise located(InvalidArgumentError(describe(f"ttl is {ttl!r}", remedy="give a length of time above 0")))
        return RegularJoined(both(self, other), self._stream.result, kind, millis, clock == "processing")


def both(first: KeyedReferenceJoins[S], second: KeyedReferenceJoins[S]) -> tuple[Origin, Origin]:
    """Return where the records of two keyed streams come from."""
    other = require(second, KeyedReferenceJoins, "a keyed stream", "put key_by(...) behind it")
    here, there = first._stream.origin, other._stream.origin  # pyright: ignore[reportPrivateUsage]  # one family
    if here.program is not there.program:
        what = "two streams of different environments cannot meet"
        raise located(TypeMismatchError(describe(what, remedy="declare both in one environment")))
    return here, there


def ids(tags: Sequence[OutputTag | None]) -> tuple[str | None, str | None]:
    """Return the names of the side outputs of both sides."""
    left, right = (None if tag is None else tag.tag_id for tag in tags)
    return left, right


def one_of(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return a choice, or refuse what is none."""
    if value not in choices:
        what, remedy = f"{name} is {value!r:.100}", f"use {', '.join(map(repr, choices))}"
        raise located(InvalidArgumentError(describe(what, remedy=remedy)))
    return value


def as_joining(function: object) -> JoinFunction:
    """Return what makes a result of two records."""
    return PairUp() if function is None else read_function(function, (JoinFunction,), CallableJoin)
