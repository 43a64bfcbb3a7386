"""The driver's split table: where event time stands in every lane, from epoch to epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.engine.manifest import Manifest
from flintstream.engine.merge import tracks_of
from flintstream.graph.nodes import SourceNode, TimestampsNode
from flintstream.ops.clock import ChunkSteps, LaneTime, LaneTrack, frontier, track_lane
from flintstream.ops.timestamps import LANE_SHIFT, SOURCE_SHIFT, lane_of
from flintstream.planner.plan import Plan

_SPLIT_MASK = (1 << SOURCE_SHIFT) - 1
_SOURCE_MASK = (1 << LANE_SHIFT - SOURCE_SHIFT) - 1


class LaneBook:
    """All lanes of a job. A lane is numbered (assigner, source, split); the manifest names the first two by uid."""

    def __init__(self, plan: Plan, splits: Mapping[int, Sequence[int]]) -> None:
        self._plan = plan
        self._uids = {op.assigner: op.uid for op in plan.operators if op.assigner is not None}
        self._idle_after = {
            op.assigner: op.node.strategy.idle_timeout_ms
            for op in plan.operators
            if isinstance(op.node, TimestampsNode) and op.node.strategy is not None
        }
        self._lanes: dict[int, LaneTime] = {}
        self._fed: dict[int, list[int]] = {}
        for op in plan.operators:
            if isinstance(op.node, SourceNode):
                self._fed[op.id] = self._assigners_fed_by(op.id)
                for split in splits.get(op.id, ()):
                    for lane in self.lanes_of(op.id, split):
                        self._lanes[lane] = LaneTime()
        for op in plan.operators:
            if isinstance(op.node, TimestampsNode) and op.level and op.assigner is not None:
                self._lanes[op.assigner << LANE_SHIFT] = LaneTime()

    def _assigners_fed_by(self, source: int) -> list[int]:
        """Return a source's own assigner and all level-0 strategies its records pass."""
        reached = {source}
        found: list[int] = []
        for op in self._plan.operators:
            feeds = any(link.source in reached for link in self._plan.links_to(op.id))
            if op.level == 0 and (op.id == source or feeds):
                reached.add(op.id)
                if op.assigner is not None:
                    found.append(op.assigner)
        return found

    def lanes_of(self, source: int, split: int) -> list[int]:
        """Return the lanes in which records of a source's split are numbered."""
        number = self._plan.operator(source).assigner
        assert number is not None
        return [lane_of(assigner, number, split) for assigner in self._fed[source]]

    def at(self, now: int) -> dict[int, LaneTime]:
        """Return all lanes, those that have been silent for too long marked idle."""
        lanes: dict[int, LaneTime] = {}
        for lane, time in self._lanes.items():
            timeout = self._idle_after.get(lane >> LANE_SHIFT)
            if not time.active_at:
                time.active_at = now
            # A lane that has ended stands at the end of time, and counts.
            idle = timeout is not None and not time.finished and now - time.active_at >= timeout
            lanes[lane] = replace(time, idle=idle)
        return lanes

    @property
    def has_idleness(self) -> bool:
        """Whether any strategy leaves out silent lanes."""
        return any(timeout is not None for timeout in self._idle_after.values())

    def unfinished(self) -> frozenset[int]:
        """Return the lanes that have not ended."""
        return frozenset(lane for lane, time in self._lanes.items() if not time.finished)

    def restore(self, manifest: Manifest) -> None:
        """Take over the lanes of a manifest; assigners may have other numbers now."""
        numbers = {uid: assigner for assigner, uid in self._uids.items()}
        for lane, time in manifest.lanes.items():
            assigner = numbers.get(manifest.lane_owners.get(lane >> LANE_SHIFT, ""))
            behind = lane >> SOURCE_SHIFT & _SOURCE_MASK
            source = numbers.get(manifest.lane_owners.get(behind - 1, "")) if behind else -1
            if assigner is not None and source is not None:
                self._lanes[lane_of(assigner, source, lane & _SPLIT_MASK)] = replace(time, active_at=0)

    def advance(self, context: EpochContext, reports: Sequence[TaskReport], manifest: Manifest) -> None:
        """Bring all lanes forward by an epoch and write them into its manifest."""
        chunks: dict[int, list[ChunkSteps]] = {}
        for report in reports:
            for chunk in report.chunks:
                chunks.setdefault(chunk.lane, []).append(chunk)
        tracks = {
            lane: track_lane(context.lanes.get(lane) or LaneTime(), chunks.get(lane, ()), lane in context.finishing)
            for lane in {*context.lanes, *chunks}
        }
        for lane, track in tracks.items():
            old = context.lanes.get(lane) or LaneTime(active_at=context.now)
            active_at = context.now if track.count > old.count else old.active_at
            self._lanes[lane] = self._next(lane, old, track, tracks, active_at)
        manifest.lanes = {lane: replace(time, idle=False) for lane, time in self._lanes.items()}
        manifest.lane_owners = dict(self._uids)

    def _next(
        self, lane: int, old: LaneTime, track: LaneTrack, tracks: Mapping[int, LaneTrack], active_at: int
    ) -> LaneTime:
        time = LaneTime(track.after, track.count, False, track.finished, active_at=active_at)
        if not self._plan.deterministic:
            return time
        group = tracks_of(tracks, self._plan.lane_group(lane >> LANE_SHIFT), LANE_SHIFT)
        bound = frontier(group)
        if bound is None:
            return time
        passed = sum((before, lane) < bound for before in track.before.tolist())
        watermark = int(track.levels[passed - 1]) if passed else old.watermark
        pending = (tuple(track.positions[passed:].tolist()), tuple(track.levels[passed:].tolist()))
        return replace(time, watermark=watermark, pending=pending)
