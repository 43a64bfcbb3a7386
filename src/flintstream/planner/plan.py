"""The plan: operators placed in levels, and the links between them. It prints itself.

A level is what one Spark stage runs: all operators that lie the same number of exchanges behind the sources. A link
within a level is a call; a link that crosses is an edge of the shuffle, with a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.graph.nodes import Exchange, Node, SourceNode, TimestampsNode
from flintstream.model.connect import SplitSource
from flintstream.model.watermark_options import WatermarkAlignment


@dataclass(frozen=True, slots=True)
class Link:
    """Records of `source`'s output `tag` go to input `port` of `target`; `edge` is None inside a level.

    `turn` is set where records of one origin come by several ways: it says which of them goes first. Records of a link
    that is `ahead` come before all others, wherever their own stamps are.
    """

    source: int
    tag: str
    target: int
    port: int
    exchange: Exchange
    edge: int | None = None
    turn: int | None = None
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """A node in its place.

    `lanes` are the assigners whose watermarks it sees; `path` says how it runs; `width` is how many columns the stamps
    of its input have at most.
    """

    node: Node
    uid: str
    level: int
    parallelism: int
    lanes: frozenset[int]
    path: str
    width: int
    assigner: int | None = None

    @property
    def id(self) -> int:
        """The node's id."""
        return self.node.id


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the runtimes need to know; a value that is sent to every task once."""

    name: str
    operators: tuple[PlannedOperator, ...]
    links: tuple[Link, ...]
    max_parallelism: int
    batch_mode: bool = False
    deterministic: bool = False
    parameters: tuple[tuple[str, str], ...] = ()
    classes: tuple[type, ...] = ()
    modules: frozenset[str] = frozenset()

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return 1 + max(op.level for op in self.operators)

    def operator(self, node: int) -> PlannedOperator:
        """Return the operator of a node."""
        return next(op for op in self.operators if op.id == node)

    def at_level(self, level: int) -> list[PlannedOperator]:
        """Return a level's operators, producers first."""
        return [op for op in self.operators if op.level == level]

    def links_from(self, node: int) -> list[Link]:
        """Return the links that leave an operator."""
        return [link for link in self.links if link.source == node]

    def links_to(self, node: int) -> list[Link]:
        """Return the links that enter an operator."""
        return [link for link in self.links if link.target == node]

    def partitions(self, level: int) -> int:
        """How many partitions a level behind an exchange has."""
        return max(op.parallelism for op in self.at_level(level))

    def lane_group(self, assigner: int) -> frozenset[int]:
        """Return the assigners whose lanes must be ordered together with this one's: some operator sees both."""
        group = {assigner}
        while True:
            grown = group.union(*(op.lanes for op in self.operators if op.lanes & group))
            if grown == group:
                return frozenset(group)
            group = grown

    @property
    def alignments(self) -> dict[int, WatermarkAlignment]:
        """The alignment of every strategy that has one, by assigner."""
        found: dict[int, WatermarkAlignment] = {}
        for op in self.operators:
            if isinstance(op.node, TimestampsNode) and op.node.strategy is not None and op.assigner is not None:
                alignment = op.node.strategy.alignment
                if alignment is not None:
                    found[op.assigner] = alignment
        return found

    @property
    def holds_records(self) -> bool:
        """Whether records may have to wait in state: for their turn, or for the slowest split of their group.

        A source that is read by ranges waits by not being read; one that Spark reads cannot.
        """
        if self.deterministic or not self.alignments:
            return self.deterministic
        sources = [op.node.source for op in self.operators if isinstance(op.node, SourceNode)]
        return not all(isinstance(source, SplitSource) for source in sources)

    def is_head(self, op: PlannedOperator) -> bool:
        """Whether an operator's input comes over the shuffle."""
        return any(link.edge is not None for link in self.links_to(op.id))
