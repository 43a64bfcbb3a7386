"""Which splits are not read on: those too far ahead of their group, and those whose range of time is over.

Apart from the split table because it only reads it: the table says where event time stands, this says what follows for
reading, and for records that have been read all the same: they wait in state. It is asked before every epoch, so within
one a split may run ahead by as much as an epoch reads.

Flink: SourceCoordinator's announceCombinedWatermark and SourceOperator's checkWatermarkAlignment; bounded reads of a
log by setBounded of its Kafka source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flintstream.engine.merge import tracks_of
from flintstream.graph.nodes import SinkNode, TimestampsNode
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.clock import LaneTime, LaneTrack, frontier
from flintstream.ops.timestamps import LANE_SHIFT, lane_of
from flintstream.planner.plan import Plan

SplitName = tuple[int, int]
"""A source's node and the number of one of its splits."""


def order_bound(
    plan: Plan, assigners: frozenset[int], lanes: Mapping[int, LaneTime], tracks: Mapping[int, LaneTrack]
) -> tuple[int, int] | None:
    """Return the stamp from which on records of these assigners wait in state; None: nothing waits.

    In deterministic order they wait for the lowest lane of all; otherwise for the slowest of a group that they are
    aligned with, by more than its drift. Lanes that ended or are idle hold nobody back.
    """
    group = frozenset[int]().union(*map(plan.lane_group, assigners))
    if plan.deterministic:
        return frontier(tracks_of(tracks, group, LANE_SHIFT))
    alignments = plan.alignments
    wanted = {alignments[assigner] for assigner in group if assigner in alignments}
    limits: list[int] = []
    for alignment in wanted:
        members = [
            track.after
            for lane, track in tracks.items()
            if (mine := alignments.get(lane >> LANE_SHIFT)) is not None and mine.group == alignment.group
            if not track.finished and (track.chunks or not (lane in lanes and lanes[lane].idle))
        ]
        if members:
            limits.append(min(members) + alignment.drift_ms)
    return (min(limits) + 1, 0) if limits else None


class Restraint:
    """Says of each split whether it is to be read on."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._strategies: dict[int, WatermarkStrategy] = {
            op.assigner: op.node.strategy
            for op in plan.operators
            if isinstance(op.node, TimestampsNode) and op.node.strategy is not None and op.assigner is not None
        }
        self._assigners = {op.id: op.assigner for op in plan.operators if op.assigner is not None}
        self.is_needed = any(each.alignment or each.range for each in self._strategies.values())

    def closed(self, lanes: Mapping[int, LaneTime], splits: Iterable[SplitName]) -> frozenset[SplitName]:
        """Return the splits of which no sink will see another record: all ways lead through a range that is over."""
        return frozenset(split for split in splits if not self._reaches_sink(lanes, split))

    def _reaches_sink(self, lanes: Mapping[int, LaneTime], split: SplitName) -> bool:
        waiting, seen = [split[0]], set[int]()
        while waiting:
            node = waiting.pop()
            op = self._plan.operator(node)
            if isinstance(op.node, SinkNode):
                return True
            if node not in seen and not self._is_over(lanes, op.assigner, split):
                seen.add(node)
                waiting += [link.target for link in self._plan.links_from(node)]
        return False

    def _is_over(self, lanes: Mapping[int, LaneTime], assigner: int | None, split: SplitName) -> bool:
        if assigner is None or assigner not in self._strategies or self._strategies[assigner].range is None:
            return False
        own = lane_of(assigner, self._assigners[split[0]], split[1])
        found = lanes.get(own) or lanes.get(assigner << LANE_SHIFT)
        return found is not None and found.finished

    def paused(self, lanes: Mapping[int, LaneTime], splits: Iterable[SplitName]) -> frozenset[SplitName]:
        """Return the splits that are too far ahead of their group; never all of those given."""
        splits = list(splits)
        limits = self._limits(lanes)
        ahead = {split for split in splits if self._is_ahead(lanes, split, limits)}
        # Each may wait for another in a different group: then nobody would ever go on.
        return frozenset(ahead) if len(ahead) < len(splits) else frozenset()

    def _limits(self, lanes: Mapping[int, LaneTime]) -> dict[str, int]:
        """Return the watermark of the slowest lane of each group; those that ended or are idle do not count."""
        slowest: dict[str, int] = {}
        for lane, time in lanes.items():
            strategy = self._strategies.get(lane >> LANE_SHIFT)
            if strategy is not None and strategy.alignment is not None and not (time.finished or time.idle):
                group = strategy.alignment.group
                slowest[group] = min(slowest.get(group, time.newest), time.newest)
        return slowest

    def _is_ahead(self, lanes: Mapping[int, LaneTime], split: SplitName, slowest: Mapping[str, int]) -> bool:
        for assigner, strategy in self._strategies.items():
            time = lanes.get(lane_of(assigner, self._assigners[split[0]], split[1]))
            alignment = strategy.alignment
            if time is None or alignment is None or alignment.group not in slowest:
                continue
            if time.newest > slowest[alignment.group] + alignment.drift_ms:
                return True
        return False
