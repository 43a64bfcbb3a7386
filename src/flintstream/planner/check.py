"""Rejects what cannot run, with every complaint at once, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flintstream.connectors.frames import FrameSource
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


def check_alignment(node: TimestampsNode, is_behind: bool) -> None:
    """Raise if a strategy is to keep splits aligned that it cannot tell apart."""
    if is_behind and node.strategy is not None and node.strategy.alignment is not None:
        what = f"{node.name!r} stands behind an exchange, where splits cannot be aligned"
        remedy = "put with_watermark_alignment(...) at the source, or before key_by and other exchanges"
        raise DefinitionError(describe(what, node.location, remedy), location=node.location)


def check_determinism(nodes: Sequence[Node]) -> None:
    """Raise if anything would depend on when the job runs: in deterministic order nothing may."""
    for node in nodes:
        if isinstance(node, SourceNode) and isinstance(node.source, FrameSource):
            _check_order(node, node.source)
        _check_unions(node)
        strategy = node.strategy if isinstance(node, TimestampsNode) else None
        if strategy is not None and strategy.is_ingestion:
            what = f"{node.name!r} stamps records by the clock, which deterministic order cannot repeat"
            remedy = "take timestamps from the records, or leave deterministic_order() out"
            raise DefinitionError(describe(what, node.location, remedy), location=node.location)
        if strategy is not None and strategy.idle_timeout_ms is not None:
            what = f"{node.name!r} leaves out idle splits by the clock, which deterministic order cannot repeat"
            remedy = "leave with_idleness(...) or deterministic_order() out"
            raise DefinitionError(describe(what, node.location, remedy), location=node.location)


def _check_unions(node: Node) -> None:
    """Raise if records that all instances have and records that one has come in by one input.

    What has to wait is kept apart by input, since it comes back in different ways after rescaling.
    """
    for port in node.inputs:
        if {origin.exchange.kind == "BROADCAST" for origin in port} == {True, False}:
            what = f"the input of {node.name!r} is a union of a broadcast stream and others, which cannot wait together"
            remedy = "put broadcast() behind the union, connect(...) the streams, or leave deterministic_order() out"
            raise DefinitionError(describe(what, node.location, remedy), location=node.location)


def check_forwards(nodes: Sequence[Node], parallelism: Mapping[int, int]) -> None:
    """Raise if records were to stay where they are, and there is no such place: the parallelism is another one."""
    names = {node.id: node.name for node in nodes}
    for node in nodes:
        # A watermark strategy needs the stream in one piece wherever it stands, and changes nothing else.
        origins = () if isinstance(node, TimestampsNode) else (origin for port in node.inputs for origin in port)
        for origin in origins:
            here, there = parallelism[node.id], parallelism[origin.node]
            if origin.exchange.imposed and here != there:
                what = (
                    f"forward() keeps records in their instance, but {names[origin.node]!r} has parallelism {there} "
                    f"and {node.name!r} has {here}"
                )
                remedy = "give both the same, or use rebalance() or rescale()"
                raise DefinitionError(describe(what, node.location, remedy), location=node.location)


def _check_order(node: SourceNode, source: FrameSource) -> None:
    """Raise if the order of a DataFrame's rows is not known, or not which splits are still to come."""
    if not source.order_by:
        what, remedy = f"{node.name!r} has no order of its own", "name columns with order_by="
    elif source.split_by and not source.is_bounded:
        what = f"{node.name!r} finds its splits on the way, and deterministic order must know them from the start"
        remedy = "leave split_by= out, or use a batch DataFrame"
    else:
        return
    remedy = f"{remedy}, or leave deterministic_order() out"
    raise DefinitionError(describe(what, node.location, remedy), location=node.location)


def _dangling(nodes: list[Node], what: str) -> DanglingStreamError:
    names = ", ".join(f"{node.name!r} ({node.location})" for node in nodes)
    remedy = "end it with print(), sink_to(...) or execute_and_collect(), or remove it"
    return DanglingStreamError(
        describe(f"{what}: {names}", None, remedy), location=nodes[0].location if nodes else None
    )
