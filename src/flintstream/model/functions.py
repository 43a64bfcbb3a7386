"""Functions of one record at a time, and the reading of a plain callable as one of them.

Flink: pyflink.datastream.functions. Functions that also need time, state namespaces or windows stand in the files
`functions_*.py` beside this one; this file imports nothing of ours but errors, because state descriptors need it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from flintstream.errors import TypeMismatchError, describe


class Function(ABC):  # noqa: B024  # its subclasses have the abstract methods
    """What every user function has: a beginning and an end; most functions need neither."""

    # Any: RuntimeContext knows state descriptors, and those know ReduceFunction, which is a Function.
    def open(self, runtime_context: Any) -> None:  # overriding is optional
        """Called once before the first record, with a `RuntimeContext`; get state and connections here."""

    def close(self) -> None:  # overriding is optional
        """Called once after the last record, also after a failure; release what `open` took."""


class MapFunction(Function):
    """Turns one record into one record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Called for every record; the result goes downstream."""


class FlatMapFunction(Function):
    """Turns one record into any number of records."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """Called for every record; every item of the returned iterable (or of the generator) goes downstream."""


class FilterFunction(Function):
    """Keeps or drops a record."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Called for every record; it goes downstream if the result is true."""


class ReduceFunction(Function):
    """Combines two values into one of the same type; must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Called with what was combined so far and the next value; must not change its arguments."""


class AggregateFunction(Function):
    """Combines values into an accumulator of another type, and that into a result."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Called when an aggregate begins; returns an accumulator of nothing."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Called for every value; returns the accumulator with it (the same object, changed, is fine)."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Called when a result is wanted; must not change the accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Called when two aggregates become one (session windows); returns the accumulator of both."""


class KeySelector(Function):
    """Says by which key a record is grouped; must give the same key for the same record always."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Called for every record; returns its key."""


class NullByteKeySelector(KeySelector):
    """One key for everything: how a stream without keys uses keyed operators."""

    def get_key(self, value: Any) -> int:
        return 0


class Partitioner(Function):
    """Chooses the parallel instance that receives a record."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Called for every record; returns a number from 0 up to, not including, `num_partitions`."""


class FromCallable:
    """Marks a function object made from a plain callable, which stays reachable as `wrapped`."""

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self.wrapped))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.wrapped, '__qualname__', self.wrapped)})"


class CallableMap(FromCallable, MapFunction):
    """A `MapFunction` made from `f(value)`."""

    def map(self, value: Any) -> Any:
        return self.wrapped(value)


class CallableFlatMap(FromCallable, FlatMapFunction):
    """A `FlatMapFunction` made from `f(value)`."""

    def flat_map(self, value: Any) -> Any:
        return self.wrapped(value)


class CallableFilter(FromCallable, FilterFunction):
    """A `FilterFunction` made from `f(value)`."""

    def filter(self, value: Any) -> bool:
        return self.wrapped(value)


class CallableReduce(FromCallable, ReduceFunction):
    """A `ReduceFunction` made from `f(value1, value2)`."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.wrapped(value1, value2)


class CallableKeySelector(FromCallable, KeySelector):
    """A `KeySelector` made from `f(value)`."""

    def get_key(self, value: Any) -> Any:
        return self.wrapped(value)


class CallablePartitioner(FromCallable, Partitioner):
    """A `Partitioner` made from `f(key, num_partitions)`."""

    def partition(self, key: Any, num_partitions: int) -> int:
        return self.wrapped(key, num_partitions)


def as_map_function(function: MapFunction | Callable[[Any], Any]) -> MapFunction:
    """Return the argument as a `MapFunction`."""
    return _as_function(function, MapFunction, CallableMap)


def as_flat_map_function(function: FlatMapFunction | Callable[[Any], Any]) -> FlatMapFunction:
    """Return the argument as a `FlatMapFunction`."""
    return _as_function(function, FlatMapFunction, CallableFlatMap)


def as_filter_function(function: FilterFunction | Callable[[Any], Any]) -> FilterFunction:
    """Return the argument as a `FilterFunction`."""
    return _as_function(function, FilterFunction, CallableFilter)


def as_reduce_function(function: ReduceFunction | Callable[[Any, Any], Any]) -> ReduceFunction:
    """Return the argument as a `ReduceFunction`."""
    return _as_function(function, ReduceFunction, CallableReduce)


def as_key_selector(function: KeySelector | Callable[[Any], Any]) -> KeySelector:
    """Return the argument as a `KeySelector`."""
    return _as_function(function, KeySelector, CallableKeySelector)


def as_partitioner(function: Partitioner | Callable[[Any, int], int]) -> Partitioner:
    """Return the argument as a `Partitioner`."""
    return _as_function(function, Partitioner, CallablePartitioner)


def entry_point(function: Function, method: str) -> Callable[..., Any]:
    """Return what the engine calls per record: the user's own callable, or the named method of their object."""
    if isinstance(function, FromCallable):
        return function.wrapped
    return getattr(function, method)


F = TypeVar("F", bound=Function)


def _as_function(candidate: object, kind: type[F], from_callable: type[F]) -> F:
    if isinstance(candidate, kind):
        return candidate
    if isinstance(candidate, type) and issubclass(candidate, Function):
        name = candidate.__name__
        raise TypeMismatchError(describe(f"{name} is a class, not a function object", remedy=f"pass {name}(...)"))
    if isinstance(candidate, Function) or not callable(candidate):
        remedy = f"pass a callable or a {kind.__name__}"
        raise TypeMismatchError(describe(f"{candidate!r} is not a {kind.__name__}", remedy=remedy))
    if inspect.iscoroutinefunction(candidate):
        what = f"{getattr(candidate, '__qualname__', candidate)} is an `async def` function, which must be waited for"
        raise TypeMismatchError(describe(what, remedy="use map_async(...) or AsyncDataStream"))
    return from_callable(candidate)  # pyright: ignore[reportCallIssue]  # every Callable* class takes its callable
