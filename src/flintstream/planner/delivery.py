"""A pass that settles how each sink works: as asked for the sink, else as asked for the job, else as it does by itself.

What a sink cannot do is refused here, before anything runs, with the user's line and with what it can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flintstream.errors import UnsupportedError, describe
from flintstream.graph.nodes import Node, SinkNode
from flintstream.model.connect import Sink
from flintstream.model.delivery import Delivery, DeliveryGuarantee


def place_deliveries(nodes: Sequence[Node], asked: DeliveryGuarantee | None) -> list[Node]:
    """Return the nodes with every sink at work in one of its ways; `asked` is what the job asks of its sinks."""
    return [_settled(node, asked) if isinstance(node, SinkNode) else node for node in nodes]


def _settled(node: SinkNode, asked: DeliveryGuarantee | None) -> SinkNode:
    sink = node.sink
    if sink is None:
        return node
    chosen = _choose(node, sink, asked)
    if chosen is None:
        raise _refused(node, sink, asked)
    return replace(node, sink=sink.delivering(chosen), delivery=chosen)


def _choose(node: SinkNode, sink: Sink, asked: DeliveryGuarantee | None) -> Delivery | None:
    possible = sink.deliveries()
    if node.isolation is not None:
        possible = tuple(each for each in possible if each.isolation is node.isolation)
    if node.guarantee is not None:
        return _with(possible, node.guarantee)
    if asked is None or sink.is_chosen:
        own = sink.deliveries()[0].guarantee
        return _with(possible, own) or next(iter(possible), None)
    # Exactly once is more than whatever else a job asks for.
    return _with(possible, asked) or _with(possible, DeliveryGuarantee.EXACTLY_ONCE)


def _with(possible: Sequence[Delivery], guarantee: DeliveryGuarantee) -> Delivery | None:
    return next((each for each in possible if each.guarantee is guarantee), None)


def _refused(node: SinkNode, sink: Sink, asked: DeliveryGuarantee | None) -> UnsupportedError:
    guarantee = node.guarantee or (None if sink.is_chosen else asked)
    words = [each.value for each in (guarantee, node.isolation) if each is not None]
    possible = "; ".join(map(str, sink.deliveries())).replace("; ", " | ")
    by_job = " as the job asks" if node.guarantee is None and guarantee is not None else ""
    what = f"sink {node.name!r} cannot be {', '.join(words)}{by_job}"
    remedy = f"{type(sink).__name__} can be {possible}: choose with sink_to(sink, guarantee=, isolation=)"
    return UnsupportedError(describe(what, node.location, remedy), uid=node.uid, location=node.location)
