"""What a job promises from end to end: as much as its weakest link does.

Links are the sources (can records be read again?), the place where positions and state are kept, and the sinks.
Functions of the user are not counted, since nobody knows what they do to the outside.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.graph.nodes import SinkNode, SourceNode
from flintstream.model.delivery import DeliveryGuarantee
from flintstream.model.guarantee import Guarantee, SinkGuarantee
from flintstream.planner.plan import Plan, PlannedOperator

_BEGINS_ANEW = "without a checkpoint directory a job that is started again begins anew"
_STRENGTH = (
    DeliveryGuarantee.NONE,
    DeliveryGuarantee.AT_MOST_ONCE,
    DeliveryGuarantee.AT_LEAST_ONCE,
    DeliveryGuarantee.EXACTLY_ONCE,
)


@dataclass(frozen=True, slots=True)
class _Link:
    guarantee: DeliveryGuarantee
    reason: str


def guarantee_of(plan: Plan, checkpoint_dir: str | None) -> Guarantee:
    """Return what a plan promises, with the reason."""
    sinks = tuple(_of_sink(plan, op, checkpoint_dir) for op in plan.operators if isinstance(op.node, SinkNode))
    weakest = min(sinks, key=lambda each: _STRENGTH.index(each.guarantee))
    return Guarantee(weakest.guarantee, weakest.reason, sinks)


def _of_sink(plan: Plan, op: PlannedOperator, checkpoint_dir: str | None) -> SinkGuarantee:
    node = op.node
    assert isinstance(node, SinkNode) and node.sink is not None
    delivery = node.delivery or node.sink.deliveries()[0]
    links = [link for source in _sources(plan, op.id) for link in _source_links(source)]
    if delivery.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        more = "; it overwrites by key, so results come right" if node.sink.overwrites else ""
        links.append(
            _Link(delivery.guarantee, f"sink {node.name!r} is {delivery.guarantee.value} ({node.location}){more}")
        )
    if checkpoint_dir is None and not plan.batch_mode:
        links.append(_Link(DeliveryGuarantee.AT_LEAST_ONCE, _BEGINS_ANEW))
    whole = DeliveryGuarantee.EXACTLY_ONCE
    for link in links:
        whole = whole.weaker(link.guarantee)
    reasons = [link.reason for link in links]
    reason = "; ".join(reasons) if reasons else "every source is replayable, and every sink commits with the epoch"
    return SinkGuarantee(node.name, op.uid, node.location, delivery, whole, reason)


def _source_links(op: PlannedOperator) -> list[_Link]:
    assert isinstance(op.node, SourceNode)
    weakness = None if op.node.source is None else op.node.source.weakness
    if weakness is None:
        return []
    # What was read and not committed when a job died is gone; what was committed does not come again.
    return [_Link(DeliveryGuarantee.AT_MOST_ONCE, f"source {op.node.name!r} {weakness} ({op.node.location})")]


def _sources(plan: Plan, node: int) -> list[PlannedOperator]:
    """Return the sources whose records reach a node."""
    found: dict[int, PlannedOperator] = {}
    waiting, seen = [node], set[int]()
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            op = plan.operator(current)
            if isinstance(op.node, SourceNode):
                found[current] = op
            waiting += [link.source for link in plan.links_to(current)]
    return [found[number] for number in sorted(found)]
