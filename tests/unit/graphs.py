"""Dataflows for tests, declared node by node; node n stands in line n of job.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.connectors.collection import CollectionSource
from flintstream.connectors.discard import DiscardingSink
from flintstream.graph.nodes import (
    Exchange,
    FunctionNode,
    Node,
    SinkNode,
    SourceNode,
    StreamGraph,
    TimestampsNode,
    Upstream,
)
from flintstream.model.connect import SplitSource
from flintstream.model.functions import as_map_function
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.selectors import FunctionKey
from flintstream.planner.compile import Settings, compile_graph
from flintstream.planner.plan import Plan

KEY = FunctionKey(lambda record: record)
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
Input = int | Upstream


def by_key(node: int, tag: str = "") -> Upstream:
    return Upstream(node, tag, Exchange("HASH", KEY))


def by(node: int, kind: str) -> Upstream:
    return Upstream(node, exchange=Exchange(kind))


class Sketch:
    """Declares nodes; each method returns the new node's id."""

    def __init__(self) -> None:
        self.graph = StreamGraph()

    def add(self, kind: type[Node], name: str, *ports: Input | Sequence[Input], **fields: Any) -> int:
        number = self.graph.next_id()
        origins = [[port] if isinstance(port, int | Upstream) else port for port in ports]
        inputs = tuple(
            tuple(Upstream(origin) if isinstance(origin, int) else origin for origin in port) for port in origins
        )
        self.graph.add(kind(number, name, f"job.py:{number}", inputs=inputs, **fields))
        return number

    def source(self, source: SplitSource | None = None, **fields: Any) -> int:
        return self.add(SourceNode, "Source", source=source or CollectionSource([1, 2, 3]), **fields)

    def timestamps(self, *origins: Input, strategy: WatermarkStrategy = MONOTONOUS, **fields: Any) -> int:
        return self.add(TimestampsNode, "Timestamps", origins, strategy=strategy, **fields)

    def function(self, *ports: Input | Sequence[Input], shape: str = "map", **fields: Any) -> int:
        function = as_map_function(lambda record: record)
        return self.add(FunctionNode, shape, *ports, shape=shape, function=function, **fields)

    def sink(self, *origins: Input, **fields: Any) -> int:
        return self.add(SinkNode, "Sink", origins, sink=DiscardingSink(), **fields)

    def plan(self, parallelism: int = 4, **settings: Any) -> Plan:
        return compile_graph(self.graph, Settings("job", parallelism, 128, **settings))


def levels(plan: Plan) -> dict[int, int]:
    return {op.id: op.level for op in plan.operators}


def parallelism(plan: Plan) -> dict[int, int]:
    return {op.id: op.parallelism for op in plan.operators}


def links(plan: Plan) -> list[tuple[int, int, str, int | None]]:
    """Return every link as (source, target, exchange, edge)."""
    return [(link.source, link.target, link.exchange.kind, link.edge) for link in plan.links]
