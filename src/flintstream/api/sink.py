"""`DataStreamSink`: the end of a stream, which can still be named and given a uid and a parallelism."""

from __future__ import annotations

from flintstream.api.operator import Declared
from flintstream.api.program import Program


class DataStreamSink(Declared):
    """What `print()` and `sink_to(...)` return."""

    def __init__(self, program: Program, node: int) -> None:
        self._program = program
        self._node = node

    def _operator(self, call: str) -> int:
        return self._node
