"""A stream with keys whose newest value for each key others may look up: a table that keeps itself.

Flink: KeyedStream.asQueryableState and QueryableStateStream, with QueryableValueStateOperator and its kin. Differs from
Flink: also list and aggregating state; the operator can be named and given a uid.
"""

from __future__ import annotations

import copy
from typing import Any

from flintstream.api.arguments import read, require
from flintstream.api.operator import Declared
from flintstream.api.program import Program
from flintstream.api.sink import end_in
from flintstream.api.stream import Origin, Streamlike, add_node
from flintstream.connectors.discard import DiscardingSink
from flintstream.graph.nodes import FunctionNode
from flintstream.model.functions_process import KeyedProcessFunction
from flintstream.model.queryable import Queryable
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

_KINDS: tuple[type[StateDescriptor], ...] = (
    ValueStateDescriptor,
    ReducingStateDescriptor,
    ListStateDescriptor,
    AggregatingStateDescriptor,
)


class _Kept(KeyedProcessFunction):
    """Puts every record into the state of its key."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self._descriptor = descriptor
        self._put: Any = None

    def open(self, runtime_context: Any) -> None:
        descriptor: Any = self._descriptor
        if isinstance(descriptor, ValueStateDescriptor):
            self._put = runtime_context.get_state(descriptor).update
        elif isinstance(descriptor, ReducingStateDescriptor):
            self._put = runtime_context.get_reducing_state(descriptor).add
        elif isinstance(descriptor, ListStateDescriptor):
            self._put = runtime_context.get_list_state(descriptor).add
        else:
            self._put = runtime_context.get_aggregating_state(descriptor).add

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._put(value)


class QueryableStateStream(Declared):
    """What `as_queryable_state(...)` returns: the operator that keeps the state, which can still be named."""

    def __init__(self, program: Program, node: int, name: str) -> None:
        self._program = program
        self._node = node
        self._name = name

    def _operator(self, call: str) -> int:
        return self._node

    def get_queryable_state_name(self) -> str:
        """Return the name under which the state is looked up."""
        return self._name


def keep_queryable(
    stream: Streamlike[Any], name: Any, descriptor: StateDescriptor | None, uncommitted: bool
) -> QueryableStateStream:
    """Let a stream with keys end in state that others may look up."""
    if descriptor is None:
        descriptor = ValueStateDescriptor("queryable")
    remedy = "pass a descriptor of value, list, reducing or aggregating state"
    kept = copy.copy(require(descriptor, _KINDS, "a descriptor of such state", remedy))
    kept.queryable = read(lambda chosen: Queryable.of(chosen, uncommitted), name)
    origin: Origin = add_node(
        [stream.origin],
        lambda made: made,
        FunctionNode,
        name="Queryable",
        shape="keyed_process",
        function=_Kept(kept),
        methods=("process_element",),
    )
    end_in(origin.program, origin.upstreams, "Discard", DiscardingSink())
    return QueryableStateStream(origin.program, origin.upstreams[0].node, kept.queryable.name)
