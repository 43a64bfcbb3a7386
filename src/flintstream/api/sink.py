"""`DataStreamSink`: the end of a stream, which can still be named and given a uid, a parallelism and a delivery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from flintstream.api.operator import Declared
from flintstream.api.program import Program
from flintstream.graph.nodes import SinkNode, Upstream
from flintstream.model.connect import Sink
from flintstream.model.delivery import DeliveryGuarantee, Isolation


class DataStreamSink(Declared):
    """What `print()` and `sink_to(...)` return."""

    def __init__(self, program: Program, node: int) -> None:
        self._program = program
        self._node = node

    def _operator(self, call: str) -> int:
        return self._node

    def set_delivery(
        self, guarantee: DeliveryGuarantee | str | None = None, isolation: Isolation | str | None = None
    ) -> Self:
        """Choose how often a record shows in this sink, and whether before its epoch is committed.

        What the sink cannot do is refused when the job is built.

        Args:
            guarantee: "exactly-once", "at-least-once", "at-most-once", "none"; None for what the job says, or the sink.
            isolation: "read_committed", or "read_uncommitted" to show records early; None for what the sink does.
        """
        wanted = None if guarantee is None else DeliveryGuarantee.of(guarantee)
        level = None if isolation is None else Isolation.of(isolation)
        return self._change("set_delivery", guarantee=wanted, isolation=level)


def end_in(program: Program, upstreams: Sequence[Upstream], name: str, sink: Sink) -> DataStreamSink:
    """Let streams end in a sink."""
    inputs = (tuple(upstreams),)
    node = program.declarations.add(
        lambda number, line: SinkNode(id=number, location=line, inputs=inputs, name=name, sink=sink)
    )
    return DataStreamSink(program, node.id)
