"""Rejects what cannot run, with every complaint at once, before anything starts."""

from __future__ import annotations

from flintstream.errors import DanglingStreamError, DefinitionError, describe
from flintstream.graph.nodes import Node, SinkNode, SourceNode, StreamGraph


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


def _dangling(nodes: list[Node], what: str) -> DanglingStreamError:
    names = ", ".join(f"{node.name!r} ({node.location})" for node in nodes)
    remedy = "end it with print(), sink_to(...) or execute_and_collect(), or remove it"
    return DanglingStreamError(
        describe(f"{what}: {names}", None, remedy), location=nodes[0].location if nodes else None
    )
