"""Nodes to operators: the one table that says which operator runs what was declared."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar

from flintstream.errors import UnsupportedError, describe
from flintstream.graph.nodes import (
    AggregateNode,
    BroadcastNode,
    FunctionNode,
    PatternNode,
    ProjectNode,
    SinkNode,
    SortNode,
    TimestampsNode,
    WindowNode,
)
from flintstream.graph.nodes_join import IntervalJoinNode, WindowJoinNode
from flintstream.model.assigners_data import DataWindows
from flintstream.model.functions_async import AsyncCalls
from flintstream.model.functions_vectorised import Vectorized
from flintstream.model.joins_reference import JoinDeclaration
from flintstream.ops.async_io import AsyncOperator
from flintstream.ops.broadcast import BroadcastProcessOperator, KeyedBroadcastOperator
from flintstream.ops.cep import PatternOperator
from flintstream.ops.join_interval import IntervalJoinOperator
from flintstream.ops.join_window import LATE, JoinWindowOperator
from flintstream.ops.keyed import KeyedFunctionOperator, KeyedProcessOperator, ReduceOperator
from flintstream.ops.operator import Operator
from flintstream.ops.sink import SinkOperator
from flintstream.ops.sort import SortOperator
from flintstream.ops.stateless import FilterOperator, FlatMapOperator, MapOperator, ProcessOperator, ProjectOperator
from flintstream.ops.timestamps import TimestampsOperator
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_aligned import AlignedWindowOperator, is_aligned
from flintstream.ops.window_choice import column_operator
from flintstream.ops.window_contents import TimedAggregate
from flintstream.ops.window_data import DataWindowOperator, EvictingDataWindowOperator
from flintstream.ops.window_evict import EvictingWindowOperator
from flintstream.planner.build_joins import build_join
from flintstream.planner.build_trying import VECTORISED, build_trying
from flintstream.planner.plan import PlannedOperator

F = TypeVar("F")


def build_operator(planned: PlannedOperator, batch_mode: bool = False) -> Operator:
    """Return a new operator for its place in the plan. In batch mode event time stands still until the end."""
    node = planned.node
    if isinstance(node, BroadcastNode):
        assert node.function is not None
        kind = KeyedBroadcastOperator if node.shape == "keyed_broadcast" else BroadcastProcessOperator
        return kind(fresh(node.function), node.states)
    if isinstance(node, IntervalJoinNode):
        assert node.join is not None
        return IntervalJoinOperator(node.join, fresh(node.pairing))
    if isinstance(node, FunctionNode):
        return _build_function(node, batch_mode)
    if isinstance(node, TimestampsNode):
        assert node.strategy is not None
        return TimestampsOperator(replace(node.strategy, kind="none") if batch_mode else node.strategy)
    if isinstance(node, SinkNode):
        assert node.sink is not None
        return SinkOperator(node.sink)
    if isinstance(node, WindowJoinNode):
        tags = node.late_tag_of(0), node.late_tag_of(1)
        inner = _build_window(replace(node, late_tag=LATE if any(tags) else None))
        inner.panes = node.panes
        return JoinWindowOperator(inner, tags)
    if isinstance(node, WindowNode):
        window = _build_window(node)
        window.panes, window.queryable = node.panes, node.queryable
        return window
    if isinstance(node, AggregateNode):
        assert node.key is not None
        columns = column_operator(node.assigner, node.key, node.aggregates, node.late_tag)
        columns.is_bare, columns.queryable = node.is_bare, node.queryable
        return columns
    if isinstance(node, SortNode):
        return SortOperator(node.late_tag)
    if isinstance(node, PatternNode):
        assert node.pattern is not None and node.function is not None
        pattern, function = fresh((node.pattern, node.function))
        return PatternOperator(pattern, function, node.by_clock, node.late_tag, node.miss_tag)
    if isinstance(node, ProjectNode):
        return ProjectOperator(node.positions)
    raise UnsupportedError(describe(f"nothing runs a {type(node).__name__}", node.location))


def _build_window(node: WindowNode) -> WindowOperator:
    late = (node.allowed_lateness_ms, node.late_tag)
    functions = (fresh(node.reduce), fresh(node.aggregate), fresh(node.apply))
    by_data = isinstance(node.assigner, DataWindows)
    if node.evictor is not None:
        evicting = EvictingDataWindowOperator if by_data else EvictingWindowOperator
        return evicting(node.assigner, node.trigger, node.evictor, *late, *functions)
    if by_data:
        return DataWindowOperator(node.assigner, node.trigger, *late, *functions)
    is_plain = node.panes is None and not isinstance(node.aggregate, TimedAggregate)
    if is_plain and is_aligned(node.assigner, node.trigger):
        return AlignedWindowOperator(node.assigner, *late, *functions)
    return WindowOperator(node.assigner, node.trigger, *late, *functions)


def fresh(function: F) -> F:
    """Return a function object of its own for each subtask, as if shipped there; plain callables are shared."""
    return function if hasattr(function, "wrapped") else copy.deepcopy(function)


def _build_function(node: FunctionNode, batch_mode: bool) -> Operator:
    assert node.function is not None
    function = fresh(node.function)
    methods = node.methods
    if isinstance(function, JoinDeclaration):
        return build_join(function)
    if node.on_error is not None and node.on_error.errors:
        return build_trying(node, function, node.on_error, batch_mode)
    match node.shape:
        case "map":
            return MapOperator(function, methods)
        case "filter":
            return FilterOperator(function)
        case "flat_map":
            return FlatMapOperator(function, methods)
        case "async":
            assert isinstance(function, AsyncCalls)
            return AsyncOperator(function)
        case "vectorised_map" | "vectorised_filter" | "vectorised_flat_map":
            assert isinstance(function, Vectorized)
            return VECTORISED[node.shape](function, methods[0], node.output_type)
        case "process":
            return ProcessOperator(function, methods)
        case "keyed_process":
            return KeyedProcessOperator(function, methods)
        case "reduce":
            return ReduceOperator(function, batch_mode)
        case "keyed_map" | "keyed_filter" | "keyed_flat_map":
            return KeyedFunctionOperator(function, node.shape.removeprefix("keyed_"))
        case _:
            raise UnsupportedError(describe(f"nothing runs shape {node.shape!r}", node.location))
