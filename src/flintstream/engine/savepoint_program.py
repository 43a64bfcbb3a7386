"""What a manifest tells of the program that wrote it, so that savepoints can be understood without it.

Separate from the manifest, which is a document and knows no plan.
"""

from __future__ import annotations

from typing import Any

from flintstream.graph.nodes import AggregateNode, FunctionNode, PatternNode, SourceNode, WindowNode
from flintstream.planner.plan import Plan


def described(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return for each operator its name, what it is, the users' classes in it, and a source's kind."""
    kinds = source_kinds(plan)
    told: dict[str, dict[str, Any]] = {}
    for op in plan.operators:
        told[op.uid] = {"name": op.node.name, "kind": type(op.node).__name__.removesuffix("Node")}
        if classes := _classes(op.node):
            told[op.uid]["classes"] = classes
        if op.uid in kinds:
            told[op.uid]["source"] = kinds[op.uid]
            told[op.uid]["parallelism"] = op.parallelism
    return told


def source_kinds(plan: Plan) -> dict[str, str]:
    """Return the class of each source; positions of one class mean nothing to another."""
    return {op.uid: type(op.node.source).__name__ for op in plan.operators if isinstance(op.node, SourceNode)}


def _classes(node: Any) -> list[str]:
    parts: list[Any] = []
    if isinstance(node, FunctionNode):
        parts = [node.function]
    elif isinstance(node, WindowNode):
        parts = [node.assigner, node.trigger, node.evictor, node.reduce, node.aggregate, node.apply]
    elif isinstance(node, AggregateNode):
        parts = [node.assigner]
    elif isinstance(node, PatternNode):
        parts = [node.function]
    return [_name(part) for part in parts if part is not None]


def _name(part: Any) -> str:
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"
