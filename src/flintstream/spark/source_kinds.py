"""Which sources a plan has, and who reads them: the tasks themselves, or Spark."""

from __future__ import annotations

from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import SplitSource
from flintstream.planner.plan import Plan, PlannedOperator


def source_nodes(plan: Plan) -> list[tuple[PlannedOperator, SourceNode]]:
    """Return the plan's sources."""
    return [(op, op.node) for op in plan.operators if isinstance(op.node, SourceNode)]


def is_ranged(node: SourceNode) -> bool:
    """Whether a source is read by ranges inside the tasks of level 0."""
    return isinstance(node.source, SplitSource) and not node.native


def reads_frames(plan: Plan) -> bool:
    """Whether any source is one that Spark itself reads."""
    return not all(is_ranged(node) for _, node in source_nodes(plan))
