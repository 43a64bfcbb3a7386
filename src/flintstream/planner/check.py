"""Rejects what cannot run, with every complaint at once, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence

from flintstream.errors import DanglingStreamError, DefinitionError, describe
from flintstream.graph.nodes import Node, SinkNode, SourceNode, StreamGraph, TimestampsNode


def check_graph(graph: StreamGraph) -> None:
    """Raise if the graph has no source or no sink. A branch that no sink reads is left out of the plan, as in Flink."""
    nodes = list(graph.nodes.values())
    if not any(isinstance(node, SourceNode) for node in nodes):
        raise DefinitionError(
            describe("the job has no source", None, "start with env.from_collection(...) or another source")
        )
    dangling = [node for node in nodes if not graph.downstream()[node.id] and not isinstance(node, SinkNode)]
    if not any(isinstance(node, SinkNode) for node in nodes):
        raise _dangling(dangling, "the job has no sink")


def check_determinism(nodes: Sequence[Node]) -> None:
    """Raise if who is idle would depend on when the job runs: in deterministic order nothing may."""
    for node in nodes:
        strategy = node.strategy if isinstance(node, TimestampsNode) else None
        if strategy is not None and strategy.idle_timeout_ms is not None:
            what = f"{node.name!r} leaves out idle splits by the clock, which deterministic order cannot repeat"
            remedy = "leave with_idleness(...) or deterministic_order() out"
            raise DefinitionError(describe(what, node.location, remedy), location=node.location)


def _dangling(nodes: list[Node], what: str) -> DanglingStreamError:
    names = ", ".join(f"{node.name!r} ({node.location})" for node in nodes)
    remedy = "end it with print(), sink_to(...) or execute_and_collect(), or remove it"
    return DanglingStreamError(
        describe(f"{what}: {names}", None, remedy), location=nodes[0].location if nodes else None
    )
