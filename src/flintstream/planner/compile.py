"""Graph to plan. Read this first: the passes in their order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from flintstream.connectors.frames import FrameSource
from flintstream.graph.nodes import (
    AggregateNode,
    BroadcastNode,
    Exchange,
    FunctionNode,
    Node,
    PatternNode,
    ProjectNode,
    SinkNode,
    SortNode,
    SourceNode,
    StreamGraph,
    TimestampsNode,
    WindowNode,
)
from flintstream.graph.nodes_join import IntervalJoinNode
from flintstream.model.connect import SplitSource
from flintstream.model.delivery import DeliveryGuarantee
from flintstream.ops.broadcast import BROADCAST_PORT
from flintstream.ops.selectors import ConstantKey
from flintstream.planner.check import check_alignment, check_determinism, check_forwards, check_graph
from flintstream.planner.dead_letters import DeadLetterDefault, place_dead_letters
from flintstream.planner.delivery import place_deliveries
from flintstream.planner.plan import Link, Plan, PlannedOperator
from flintstream.planner.uids import assign_uids

Exchanges = dict[tuple[int, int, int], Exchange]
"""The exchange of every edge, by (node, port, which of the port's origins)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says about the whole job."""

    name: str
    parallelism: int
    max_parallelism: int
    batch_mode: bool = False
    deterministic: bool = False
    parameters: tuple[tuple[str, str], ...] = ()
    guarantee: DeliveryGuarantee | None = None
    dead_letters: DeadLetterDefault | None = None


def compile_graph(graph: StreamGraph, settings: Settings) -> Plan:
    """Return the plan of a graph, or raise everything that is wrong with it."""
    check_graph(graph)
    nodes = place_deliveries(place_dead_letters(reachable(graph), settings.dead_letters), settings.guarantee)
    if settings.deterministic:
        check_determinism(nodes)
    uids = assign_uids(nodes)
    exchanges, parallelism = place_exchanges(nodes, settings.parallelism)
    check_forwards(nodes, parallelism)
    levels = place_levels(nodes, exchanges)
    assigners = number_assigners(nodes)
    lanes = place_lanes(nodes, assigners)
    reunions = find_reunions(nodes, lanes)
    links = place_links(nodes, exchanges, levels, reunions, settings.batch_mode)
    widths = place_widths(nodes, reunions)
    operators = tuple(
        PlannedOperator(
            node,
            uids[node.id],
            levels[node.id],
            parallelism[node.id],
            lanes[node.id],
            path_of(node),
            widths[node.id],
            assigners.get(node.id),
        )
        for node in nodes
    )
    return Plan(
        settings.name,
        operators,
        tuple(links),
        settings.max_parallelism,
        settings.batch_mode,
        settings.deterministic,
        settings.parameters,
    )


def reachable(graph: StreamGraph) -> list[Node]:
    """Return the nodes some sink needs, producers first: ids ascend with declaration, which is a topological order."""
    needed: set[int] = set()
    waiting = [node.id for node in graph.nodes.values() if isinstance(node, SinkNode)]
    while waiting:
        current = waiting.pop()
        if current not in needed:
            needed.add(current)
            waiting += [origin.node for port in graph.nodes[current].inputs for origin in port]
    return [node for node in graph.nodes.values() if node.id in needed]


def place_exchanges(nodes: Sequence[Node], default: int) -> tuple[Exchanges, dict[int, int]]:
    """Choose the exchange of every edge, by (node, port, origin index), and the parallelism of every node.

    Where the user imposed no exchange, records stay where they are, unless another parallelism was asked for (then they
    are rebalanced, as in Flink), or a watermark strategy stands behind an exchange: it needs the stream in one piece.
    So does one that depends on all records in their order, if Spark reads their source: in many pieces at once.
    """
    behind: set[int] = set()
    scattered: set[int] = set()
    chosen: Exchanges = {}
    parallelism: dict[int, int] = {}
    for node in nodes:
        ways: list[tuple[int, Exchange]] = []
        if _is_scattered(node, scattered):
            scattered.add(node.id)
        needs_order = isinstance(node, TimestampsNode) and node.strategy is not None and node.strategy.is_sequential
        gathered = needs_order and node.id in scattered
        for port, origins in enumerate(node.inputs):
            for index, origin in enumerate(origins):
                exchange = origin.exchange
                if isinstance(node, TimestampsNode) and (gathered or origin.node in behind or not exchange.is_forward):
                    exchange = Exchange("GLOBAL")
                elif exchange.is_forward and node.parallelism not in (None, parallelism[origin.node]):
                    exchange = Exchange("REBALANCE")
                chosen[node.id, port, index] = exchange
                ways.append((origin.node, exchange))
        if any(origin in behind or not exchange.is_forward for origin, exchange in ways):
            behind.add(node.id)
        if isinstance(node, TimestampsNode):
            check_alignment(node, node.id in behind)
        parallelism[node.id] = _parallelism_of(node, ways, parallelism, default)
    return chosen, parallelism


def _is_scattered(node: Node, scattered: set[int]) -> bool:
    """Whether records of one split can reach a node in several tasks: those of a source that Spark reads."""
    if isinstance(node, SourceNode):
        if isinstance(node.source, FrameSource):
            return not node.source.order_by
        return bool(node.native) or not isinstance(node.source, SplitSource)
    return any(origin.node in scattered for port in node.inputs for origin in port)


def _parallelism_of(node: Node, ways: Sequence[tuple[int, Exchange]], placed: dict[int, int], default: int) -> int:
    """Return a node's own parallelism, but 1 behind a global exchange; without one, its input's or the default."""
    if any(exchange.kind == "GLOBAL" or isinstance(exchange.key, ConstantKey) for _, exchange in ways):
        return 1
    if node.parallelism is not None:
        return node.parallelism
    if ways and all(exchange.is_forward for _, exchange in ways):
        return max(placed[origin] for origin, _ in ways)
    return default


def place_levels(nodes: Sequence[Node], exchanges: Exchanges) -> dict[int, int]:
    """Give every operator its level: the longest number of exchanges between it and a source.

    One with broadcast state has a level behind all its inputs, whose records must be put into one order.
    """
    levels: dict[int, int] = {}
    for node in nodes:
        merges = isinstance(node, BroadcastNode)
        steps = [
            levels[origin.node] + (0 if exchanges[node.id, port, index].is_forward and not merges else 1)
            for port, origins in enumerate(node.inputs)
            for index, origin in enumerate(origins)
        ]
        levels[node.id] = max(steps, default=0)
    return levels


def place_links(
    nodes: Sequence[Node], exchanges: Exchanges, levels: dict[int, int], reunions: set[int], batch_mode: bool = False
) -> list[Link]:
    """Turn edges into links; those that cross a level get a number, from 1 (0 is the control edge).

    In batch mode all broadcast records come before the others, as in Flink.
    """
    links: list[Link] = []
    number = 0
    for node in nodes:
        turns = itertools.count()
        for port, origins in enumerate(node.inputs):
            for index, origin in enumerate(origins):
                edge = None
                if levels[origin.node] != levels[node.id]:
                    number += 1
                    edge = number
                turn = next(turns) if node.id in reunions else None
                exchange = exchanges[node.id, port, index]
                ahead = batch_mode and isinstance(node, BroadcastNode) and port == BROADCAST_PORT
                links.append(Link(origin.node, origin.tag, node.id, port, exchange, edge, turn, ahead))
    return links


def find_reunions(nodes: Sequence[Node], lanes: dict[int, frozenset[int]]) -> set[int]:
    """Return the operators that records of one origin reach by several ways: there two of them can have one stamp."""
    found: set[int] = set()
    for node in nodes:
        seen: set[int] = set()
        for origin in (origin for port in node.inputs for origin in port):
            if seen & lanes[origin.node]:
                found.add(node.id)
            seen |= lanes[origin.node]
    return found


def number_assigners(nodes: Sequence[Node]) -> dict[int, int]:
    """Number everything that starts a lane: sources and watermark strategies."""
    starters = [node.id for node in nodes if isinstance(node, SourceNode | TimestampsNode)]
    return {node: number for number, node in enumerate(starters)}


def place_lanes(nodes: Sequence[Node], assigners: dict[int, int]) -> dict[int, frozenset[int]]:
    """Tell every operator whose watermarks it sees: the nearest assigners upstream, itself included."""
    lanes: dict[int, frozenset[int]] = {}
    for node in nodes:
        if node.id in assigners:
            lanes[node.id] = frozenset([assigners[node.id]])
        else:
            lanes[node.id] = frozenset().union(*(lanes[origin.node] for port in node.inputs for origin in port))
    return lanes


_GROWTH = {
    "temporal_join": 3,
    "regular_join": 3,
    "lookup_join": 1,
    "static_join": 1,
    "flat_map": 1,
    "vectorised_flat_map": 1,
    "async": 1,
    "process": 1,
    "keyed_flat_map": 1,
    "keyed_process": 3,
    "interval_join": 3,
    "broadcast": 3,
    "keyed_broadcast": 3,
}


def place_widths(nodes: Sequence[Node], reunions: set[int]) -> dict[int, int]:
    """Count the columns of the stamps that reach each operator.

    Three, more for each operator that emits freely, and one for each reunion.
    """
    widths: dict[int, int] = {}
    leaving: dict[int, int] = {}
    for node in nodes:
        widths[node.id] = max((leaving[origin.node] for port in node.inputs for origin in port), default=3)
        widths[node.id] += node.id in reunions
        if isinstance(node, TimestampsNode | SourceNode):
            leaving[node.id] = 3
        elif isinstance(node, WindowNode | AggregateNode | SortNode | PatternNode):
            leaving[node.id] = widths[node.id] + 3
        else:
            growth = _GROWTH.get(node.shape, 0) if isinstance(node, FunctionNode) else 0
            leaving[node.id] = widths[node.id] + growth
    return widths


def path_of(node: Node) -> str:
    """Say how a node runs: native in Spark, vectorised on columns, or per record in Python."""
    if isinstance(node, SourceNode):
        return "native" if node.native else "vectorised"
    if isinstance(node, AggregateNode) or (isinstance(node, IntervalJoinNode) and node.function is None):
        return "vectorised"
    if isinstance(node, TimestampsNode):
        strategy = node.strategy
        by_record = strategy is not None and (strategy.assigner is not None or strategy.generator is not None)
        return "per record" if by_record else "vectorised"
    if isinstance(node, FunctionNode) and node.shape.startswith(("vectorised", "static")):
        return "vectorised"
    if isinstance(node, FunctionNode | WindowNode | ProjectNode | PatternNode):
        return "per record"
    return "vectorised"
