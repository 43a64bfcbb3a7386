"""The broadcast state pattern: one stream's records go to every instance, which keeps them beside another stream.

Separate from the connected streams of equal rank, because the two sides differ in everything: one may change the
broadcast state and has no key, the other may only read it.

Flink: BroadcastStream, BroadcastConnectedStream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flintstream.api.arguments import TypeLike, located, read_type, require
from flintstream.api.stream import Origin, add_node
from flintstream.errors import DefinitionError, InvalidArgumentError, describe
from flintstream.graph.nodes import BroadcastNode, Exchange
from flintstream.model.functions_broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flintstream.model.infer import infer_yield_type
from flintstream.model.state import MapStateDescriptor
from flintstream.ops.broadcast import METHODS

S = TypeVar("S")


class BroadcastStream:
    """A stream whose records every instance gets, with the state in which they are kept; `connect(...)` takes it."""

    def __init__(self, origin: Origin, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        self.origin = origin.over(Exchange("BROADCAST"))
        self.descriptors = descriptors


def broadcast_with(origin: Origin, descriptors: tuple[Any, ...]) -> BroadcastStream:
    """Return a stream as a broadcast one, after a look at the descriptors of its state."""
    remedy = "pass a MapStateDescriptor"
    read = tuple(require(each, MapStateDescriptor, "a MapStateDescriptor", remedy) for each in descriptors)
    names = [each.name for each in read]
    for name in names:
        if names.count(name) > 1:
            what = f"two broadcast states have the name {name!r}"
            raise located(InvalidArgumentError(describe(what, remedy="give one another name")))
    for each in read:
        if each.ttl_config is not None:
            what = f"broadcast state {each.name!r} has a time to live, which only state of keys can have"
            raise located(DefinitionError(describe(what, remedy="remove pairs in process_broadcast_element(...)")))
    return BroadcastStream(origin, read)


class BroadcastConnectedStream(Generic[S]):
    """A stream beside a broadcast one; get it by `connect(...)`. `S` is the stream that a function over both makes."""

    def __init__(self, first: Origin, broadcast: BroadcastStream, result: Callable[[Origin], S]) -> None:
        self._origin = first
        self._broadcast = broadcast
        self._result = result

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeLike = None,
    ) -> S:
        """Give the records of both streams to a function; those of the broadcast one in every instance.

        Records of one split keep their order; of several the one with the lowest watermark goes first. A function for a
        stream with keys is a KeyedBroadcastProcessFunction, and has state and timers for each key besides.

        >>> from flintstream import BroadcastProcessFunction, MapStateDescriptor, StreamExecutionEnvironment
        >>> names = MapStateDescriptor("names")
        >>> class Name(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(names).put(*value)
        ...     def process_element(self, value, ctx):
        ...         yield ctx.get_broadcast_state(names).get(value)
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> known = env.from_collection([(1, "one"), (2, "two")]).broadcast(names)  # declared first, so it goes first
        >>> list(env.from_collection([2, 1]).connect(known).process(Name()).execute_and_collect())
        ['two', 'one']

        Raises:
            DefinitionError: the function is for a stream with keys and this one has none, or the other way round.
        """
        names = "a BroadcastProcessFunction or a KeyedBroadcastProcessFunction"
        kinds = (BroadcastProcessFunction, KeyedBroadcastProcessFunction)
        function = require(func, kinds, names, f"pass {names}")
        is_keyed = all(each.exchange.kind == "HASH" for each in self._origin.upstreams)
        self._check_keys(isinstance(function, KeyedBroadcastProcessFunction), is_keyed)
        return add_node(
            (self._origin, self._broadcast.origin),
            self._result,
            BroadcastNode,
            emits=infer_yield_type(function.process_element),
            name="Keyed-Co-Process-Broadcast" if is_keyed else "Co-Process-Broadcast",
            shape="keyed_broadcast" if is_keyed else "broadcast",
            function=function,
            methods=METHODS,
            output_type=read_type(output_type),
            states=self._broadcast.descriptors,
        )

    @staticmethod
    def _check_keys(wanted: bool, found: bool) -> None:
        if wanted and not found:
            what = "a KeyedBroadcastProcessFunction needs keys, and this stream has none"
            remedy = "put key_by(...) before connect(...), or pass a BroadcastProcessFunction"
        elif found and not wanted:
            what = "a BroadcastProcessFunction is for a stream without keys, and this one has some"
            remedy = "pass a KeyedBroadcastProcessFunction, or leave key_by(...) out"
        else:
            return
        raise located(DefinitionError(describe(what, remedy=remedy)))
