"""A plan for readers: Flink's JSON for tools, and a text that tells how the job will run and what it guarantees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flintstream.connectors.frames import FrameSource
from flintstream.graph.nodes import Exchange, Node, SinkNode, SourceNode
from flintstream.ops.conform import TypedKey
from flintstream.ops.selectors import ConstantKey, FieldKey
from flintstream.planner.guarantee import guarantee_of
from flintstream.planner.plan import Link, Plan, PlannedOperator

_TASKS_SHOWN = 4


def plan_as_json(plan: Plan, descriptions: Mapping[int, str]) -> str:
    """Return a plan in the format of Flink's `getExecutionPlan`, so that Flink's visualiser draws it."""
    nodes: list[dict[str, Any]] = []
    for op in plan.operators:
        entry: dict[str, Any] = {
            "id": op.id,
            "type": full_name(op.node),
            "pact": _pact(op.node),
            "contents": ", ".join([descriptions.get(op.id, full_name(op.node)), *_order(op.node)]),
            "parallelism": op.parallelism,
        }
        links = plan.links_to(op.id)
        if links:
            entry["predecessors"] = [
                {"id": link.source, "ship_strategy": link.exchange.kind, "side": "second" if link.port else "first"}
                for link in links
            ]
        nodes.append(entry)
    return json.dumps({"nodes": nodes})


def explain_plan(plan: Plan, runtime: str, checkpoint_dir: str | None, descriptions: Mapping[int, str]) -> str:
    """Return the text of `explain()`."""
    mode = "batch" if plan.batch_mode else "streaming"
    order = ", deterministic order" if plan.deterministic else ""
    head = f"Job {plan.name!r}: {mode} on {runtime}, {plan.max_parallelism} key groups{order}"
    promise = guarantee_of(plan, checkpoint_dir)
    parts = [
        head,
        "Logical graph",
        *_table([_graph_row(plan, op, descriptions) for op in plan.operators]),
        "Levels",
        *_levels(plan),
        "Delivery",
        *_table([(f"Sink: {each.name}", str(each.delivery), each.location) for each in promise.sinks]),
        f"Guarantee: {promise}",
    ]
    return "\n".join(parts)


def full_name(node: Node) -> str:
    """Return a node's name with Flink's prefix for sources and sinks."""
    if isinstance(node, SourceNode):
        return f"Source: {node.name}"
    return f"Sink: {node.name}" if isinstance(node, SinkNode) else node.name


def _pact(node: Node) -> str:
    if isinstance(node, SourceNode):
        return "Data Source"
    return "Data Sink" if isinstance(node, SinkNode) else "Operator"


def _graph_row(plan: Plan, op: PlannedOperator, descriptions: Mapping[int, str]) -> Sequence[str]:
    inputs = ", ".join(_input(link) for link in plan.links_to(op.id))
    declared = "" if op.node.output_type is None else f": {op.node.output_type}"
    described = [descriptions[op.id]] if op.id in descriptions else []
    notes = "  ".join([op.node.location, *_order(op.node), *described])
    return str(op.id), f"{full_name(op.node)}{declared}", f"<- {inputs}" if inputs else "", notes


def _order(node: Node) -> list[str]:
    """Return what is to be said of the order of a source's records: nothing, unless it has none of its own."""
    source = node.source if isinstance(node, SourceNode) else None
    return [source.order] if isinstance(source, FrameSource) else []


def _input(link: Link) -> str:
    side = f" side output {link.tag!r}" if link.tag else ""
    return f"{link.source}{side} {way_of(link.exchange)}"


def way_of(exchange: Exchange) -> str:
    """Return how records travel along an edge, and by which key."""
    key = exchange.key.source if isinstance(exchange.key, TypedKey) else exchange.key
    if exchange.kind != "HASH" or key is None:
        return exchange.kind
    if isinstance(key, FieldKey):
        return f"HASH by {', '.join(map(str, key.fields))}"
    return "HASH into one" if isinstance(key, ConstantKey) else "HASH by a function"


def _levels(plan: Plan) -> list[str]:
    lines: list[str] = []
    for level in range(plan.levels):
        operators = plan.at_level(level)
        lines.append(f"  level {level}" + (": as the sources are split" if not level else ""))
        lines += _table([(f"  {op.node.name}", op.path, f"uid {op.uid}", _tasks(op)) for op in operators])
        for link in plan.links:
            if link.edge is not None and plan.operator(link.source).level == level:
                target = plan.operator(link.target)
                lines.append(
                    f"  exchange {link.edge}: {plan.operator(link.source).node.name} -> {target.node.name}"
                    f" at level {target.level}, {way_of(link.exchange)}"
                )
    return lines


def _tasks(op: PlannedOperator) -> str:
    shown = [f"{op.node.name}[{index}]" for index in range(min(op.parallelism, _TASKS_SHOWN))]
    if op.parallelism > _TASKS_SHOWN:
        shown[-1:] = ["...", f"{op.node.name}[{op.parallelism - 1}]"]
    return ", ".join(shown)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
