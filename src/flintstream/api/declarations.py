"""The nodes of a program while it is being declared, and which of them the next execution runs.

Nodes are never forgotten: as in Flink, a stream can be built upon again after a job of it has run. But a job runs only
what was declared since the one before, with everything upstream of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from flintstream.graph.location import users_line
from flintstream.graph.nodes import Node, StreamGraph

N = TypeVar("N", bound=Node)


class Declarations:
    """All nodes ever declared in one environment. `descriptions` is what plans show for some besides their names."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._pending: set[int] = set()
        self._numbers = itertools.count(1)
        self.descriptions: dict[int, str] = {}

    @staticmethod
    def of(graph: StreamGraph) -> Declarations:
        """Return declarations of a whole graph, to be run next."""
        made = Declarations()
        made._nodes.update(graph.nodes)
        made._pending.update(graph.nodes)
        made._numbers = itertools.count(graph.next_id())
        return made

    def add(self, make: Callable[[int, str], N]) -> N:
        """Add the node that `make(id, user's line)` returns."""
        node = make(next(self._numbers), users_line())
        self._nodes[node.id] = node
        self._pending.add(node.id)
        return node

    def node(self, number: int) -> Node:
        """Return a node as it is now."""
        return self._nodes[number]

    def change(self, number: int, **changes: Any) -> None:
        """Replace a node by one that differs in some attributes."""
        self._nodes[number] = replace(self._nodes[number], **changes)

    def graph(self) -> StreamGraph:
        """Return what the next execution is about."""
        wanted: set[int] = set()
        waiting = list(self._pending)
        while waiting:
            current = waiting.pop()
            if current not in wanted:
                wanted.add(current)
                waiting += [origin.node for port in self._nodes[current].inputs for origin in port]
        return StreamGraph({number: self._nodes[number] for number in sorted(wanted)})

    def settle(self) -> None:
        """Forget what was pending, because it is being run."""
        self._pending.clear()
