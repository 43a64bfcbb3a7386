"""Two streams side by side, processed by one function with one method for each.

Flink: ConnectedStreams. Without keys the function sees records only; with keys on both sides it shares state between
the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flintstream.api.arguments import KeyLike, TypeLike, read_key, read_type, require
from flintstream.api.stream import Origin, add_node
from flintstream.errors import DefinitionError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import Exchange, FunctionNode
from flintstream.model.functions import Function
from flintstream.model.functions_co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flintstream.model.infer import infer_yield_type
from flintstream.model.typeinfo import TypeInformation
from flintstream.ops.adapters import CoFlatMapAsProcess, CoMapAsProcess

S = TypeVar("S")
_METHODS = ("process_element1", "process_element2")


class ConnectedStreams(Generic[S]):
    """Two connected streams; get it by `connect(...)`. `S` is the stream that a function over both makes."""

    def __init__(self, first: Origin, second: Origin, result: Callable[[Origin], S]) -> None:
        self._origins = (first, second)
        self._result = result

    def key_by(self, key_selector1: KeyLike, key_selector2: KeyLike, key_type: TypeLike = None) -> ConnectedStreams[S]:
        """Give both streams keys, so that records with the same key meet in the same state.

        >>> from flintstream import CoMapFunction, StreamExecutionEnvironment
        >>> class Tell(CoMapFunction):
        ...     def map1(self, value):
        ...         return f"left {value}"
        ...     def map2(self, value):
        ...         return f"right {value}"
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> left, right = env.from_collection([1]), env.from_collection([2])
        >>> both = left.connect(right).key_by(lambda x: x, lambda x: x).map(Tell())
        >>> sorted(both.execute_and_collect())
        ['left 1', 'right 2']
        """
        keys = [read_key(selector, (), key_type) for selector in (key_selector1, key_selector2)]
        first, second = (origin.over(Exchange("HASH", key)) for origin, key in zip(self._origins, keys, strict=True))
        return ConnectedStreams(first, second, self._result)

    def map(self, func: CoMapFunction, output_type: TypeLike = None) -> S:
        """Turn each record of either stream into one record; None gives no record."""
        inner = require(func, CoMapFunction, "a CoMapFunction", "pass a CoMapFunction")
        return self._declare("Co-Map", CoMapAsProcess(inner), output_type, None)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeLike = None) -> S:
        """Turn each record of either stream into any number of records."""
        inner = require(func, CoFlatMapFunction, "a CoFlatMapFunction", "pass a CoFlatMapFunction")
        return self._declare("Co-Flat Map", CoFlatMapAsProcess(inner), output_type, None)

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeLike = None) -> S:
        """Give each record of either stream to a process function; with keys it has state and timers.

        Raises:
            DefinitionError: a KeyedCoProcessFunction, but not both streams have keys.
        """
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed:
            line = users_line()
            what, remedy = "a KeyedCoProcessFunction needs keys on both streams", "call key_by(..., ...) before it"
            raise DefinitionError(describe(what, line, remedy), location=line)
        names = "a CoProcessFunction or a KeyedCoProcessFunction"
        function = require(func, (CoProcessFunction, KeyedCoProcessFunction), names, f"pass {names}")
        name = "Keyed Co-Process" if self._is_keyed else "Co-Process"
        return self._declare(name, function, output_type, infer_yield_type(function.process_element1))

    @property
    def _is_keyed(self) -> bool:
        return all(each.exchange.key is not None for origin in self._origins for each in origin.upstreams)

    def _declare(self, name: str, function: Function, output_type: Any, emits: TypeInformation | None) -> S:
        return add_node(
            self._origins,
            self._result,
            FunctionNode,
            emits=emits,
            name=name,
            shape="keyed_process" if self._is_keyed else "process",
            function=function,
            methods=_METHODS,
            output_type=read_type(output_type),
        )
