"""Functions that say what becomes of records that meet in a join.

They are apart from the functions of connected streams because the join itself, not the function, keeps the records.

Flink: JoinFunction, FlatJoinFunction, CoGroupFunction, ProcessJoinFunction, and TaggedUnion of CoGroupedStreams, all of
its Java API; PyFlink has none of them. As everywhere in Python, results are returned or yielded, and `yield tag, value`
goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.functions import FromCallable, Function
from flintstream.model.location import refused

JoinKind = Literal["inner", "left", "right", "full"]
"""Which records are results without a partner: none, those of the left stream, of the right one, or of both."""


def read_join_kind(how: object) -> JoinKind:
    """Return the kind of a join."""
    for kind in get_args(JoinKind):
        if how == kind:
            return kind
    what = f"{how!r:.100} is not a kind of join"
    raise refused(InvalidArgumentError, what, 'use how="inner", "left", "right" or "full"')


class JoinFunction(Function):
    """Makes one result of two records that meet."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Called for every pair; what it returns goes downstream. In an outer join one of the two may be None."""


class FlatJoinFunction(Function):
    """Makes any number of results of two records that meet."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Called for every pair; what it yields goes downstream. In an outer join one of the two may be None."""


class CoGroupFunction(Function):
    """Makes results of all records of one key in one window, those of both streams apart."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Called for every key and window with records of either stream; what it yields goes downstream."""


class ProcessJoinFunction(Function):
    """Makes any number of results of two records that an interval join has brought together.

    `open` gets a runtime context, whose state is that of the key that both records have.
    """

    class Context(ABC):
        """What is known about the two records."""

        @abstractmethod
        def get_left_timestamp(self) -> int | None:
            """Return the timestamp in ms of the left record, None if there is none."""

        @abstractmethod
        def get_right_timestamp(self) -> int | None:
            """Return the timestamp in ms of the right record, None if there is none."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the timestamp in ms of the results."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key that both records have."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Called for every pair; what it yields goes downstream. In an outer join one of the two may be None."""


@dataclass(frozen=True, slots=True)
class TaggedUnion:
    """A record of either stream, as triggers and evictors of a window join see it."""

    value: Any
    second: bool

    def is_one(self) -> bool:
        """Say whether it is a record of the first stream."""
        return not self.second

    def is_two(self) -> bool:
        """Say whether it is a record of the second stream."""
        return self.second

    def get_one(self) -> Any:
        """Return the record of the first stream, None if it is one of the second."""
        return None if self.second else self.value

    def get_two(self) -> Any:
        """Return the record of the second stream, None if it is one of the first."""
        return self.value if self.second else None


class CallableJoin(FromCallable, JoinFunction):
    """A `JoinFunction` made from `f(first, second)`."""

    def join(self, first: Any, second: Any) -> Any:
        return self.wrapped(first, second)


class CallableCoGroup(FromCallable, CoGroupFunction):
    """A `CoGroupFunction` made from `f(first, second)`."""

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        return self.wrapped(first, second)


class PairUp(JoinFunction):
    """Makes a tuple of two records: the join without a function."""

    def join(self, first: Any, second: Any) -> Any:
        return first, second


F = TypeVar("F", bound=Function)


def as_join_function(function: object) -> JoinFunction | FlatJoinFunction:
    """Return the argument as a function of the pairs of a window join; None makes pairs."""
    if function is None:
        return PairUp()
    return read_function(function, (JoinFunction, FlatJoinFunction), CallableJoin)


def as_co_group_function(function: object) -> CoGroupFunction:
    """Return the argument as a `CoGroupFunction`."""
    return read_function(function, (CoGroupFunction,), CallableCoGroup)


def as_process_join_function(function: object) -> ProcessJoinFunction | JoinFunction | None:
    """Return the argument as a function of the pairs of an interval join; None makes pairs."""
    if function is None:
        return None
    return read_function(function, (ProcessJoinFunction, JoinFunction), CallableJoin)


def read_function(candidate: object, kinds: tuple[type[F], ...], wrap: Callable[[Any], F]) -> F:
    """Return a function object of one of some kinds; a plain callable is wrapped into one."""
    names = " or a ".join(kind.__name__ for kind in kinds)
    if isinstance(candidate, kinds):
        return candidate
    if isinstance(candidate, type) and issubclass(candidate, Function):
        name = candidate.__name__
        raise refused(TypeMismatchError, f"{name} is a class, not a function object", f"pass {name}(...)")
    if isinstance(candidate, Function) or not callable(candidate):
        what = f"{candidate!r:.100} is not a {names}"
        raise refused(TypeMismatchError, what, f"pass a {names}, or a function of two records")
    return wrap(candidate)
