"""Functions seen as other functions, so that few operators run many kinds of them.

A CoMapFunction or a CoFlatMapFunction runs as a process function of two inputs, whose operator is there with and
without keys. As in PyFlink, a co-map that returns None emits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from flintstream.model.functions import Function, MapFunction
from flintstream.model.functions_co import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction

F = TypeVar("F", bound=Function)


class _Around(Function, Generic[F]):
    """Opens and closes the function inside."""

    def __init__(self, inner: F) -> None:
        self._inner = inner

    def open(self, runtime_context: Any) -> None:
        self._inner.open(runtime_context)

    def close(self) -> None:
        self._inner.close()


class CoMapAsProcess(_Around[CoMapFunction], KeyedCoProcessFunction):
    """A CoMapFunction as a process function; the operator decides whether there are keys."""

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        result = self._inner.map1(value)
        return () if result is None else (result,)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        result = self._inner.map2(value)
        return () if result is None else (result,)


class CoFlatMapAsProcess(_Around[CoFlatMapFunction], KeyedCoProcessFunction):
    """A CoFlatMapFunction as a process function."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self._inner.flat_map1(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self._inner.flat_map2(value)


class Unchanged(MapFunction):
    """Emits what it gets; stands where a type is enforced on a stream that no function made."""

    def map(self, value: Any) -> Any:
        return value
