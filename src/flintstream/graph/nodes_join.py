"""Nodes of joins in time, each a known node with two inputs: what holds for that holds for the join.

They are apart from `nodes.py`, which names what every pass of the planner must know.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.graph.nodes import FunctionNode, WindowNode
from flintstream.model.functions_join import JoinFunction, ProcessJoinFunction
from flintstream.ops.join_interval import IntervalJoinSpec


@dataclass(frozen=True, slots=True)
class WindowJoinNode(WindowNode):
    """A window over the records of two streams; those that come too late by either have side outputs of their own.

    `late_tag` is the side output for both of them, as far as they have no other.
    """

    late_tags: tuple[str | None, str | None] = (None, None)

    def late_tag_of(self, side: int) -> str | None:
        """Return the side output for late records of one stream."""
        return self.late_tags[side] or self.late_tag


@dataclass(frozen=True, slots=True)
class IntervalJoinNode(FunctionNode):
    """An interval join of two keyed streams; `function` makes results of pairs, which without one are tuples."""

    join: IntervalJoinSpec | None = None

    @property
    def pairing(self) -> ProcessJoinFunction | JoinFunction | None:
        """The function of two records."""
        return self.function if isinstance(self.function, ProcessJoinFunction | JoinFunction) else None

    @property
    def late_tag(self) -> str | None:
        """The side output for late records; None if those of some side are dropped."""
        return None if self.join is None or None in self.join.late_tags else self.join.late_tags[0]
