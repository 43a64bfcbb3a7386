"""The driver's split table: where event time stands in every lane, from epoch to epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flintstream.engine.epoch import EpochContext, TaskReport
from flintstream.engine.manifest import Manifest
from flintstream.engine.restraint import order_bound
from flintstream.errors import DefinitionError, describe
from flintstream.graph.nodes import SourceNode, TimestampsNode
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.ops.clock import ChunkSteps, LaneTime, LaneTrack, track_lane
from flintstream.ops.timestamps import LANE_SHIFT, SOURCE_SHIFT, lane_of, lanes_with
from flintstream.planner.plan import Plan

_SPLIT_MASK = (1 << SOURCE_SHIFT) - 1
_SOURCE_MASK = (1 << LANE_SHIFT - SOURCE_SHIFT) - 1

SKEW = "event_time_skew_ms"
"""The counter that tells how far behind a later event of its split a record came, at most."""


class LaneBook:
    """All lanes of a job. A lane is numbered (assigner, source, split); the manifest names the first two by uid."""

    def __init__(self, plan: Plan, splits: Mapping[int, Sequence[int]]) -> None:
        self._plan = plan
        self._uids = {op.assigner: op.uid for op in plan.operators if op.assigner is not None}
        self._strategies = {
            op.assigner: op.node.strategy
            for op in plan.operators
            if isinstance(op.node, TimestampsNode) and op.node.strategy is not None and op.assigner is not None
        }
        self._lanes: dict[int, LaneTime] = {}
        self._owes_tick = False
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

    def add_split(self, source: int, split: int) -> None:
        """Take in a split that has come up: event time waits for it from now on."""
        for lane in self.lanes_of(source, split):
            self._lanes.setdefault(lane, LaneTime())
        self._lanes = {lane: self._lanes[lane] for lane in lanes_with(self._lanes, ())}

    def at(self, now: int) -> dict[int, LaneTime]:
        """Return all lanes, those that have been silent for too long marked idle."""
        lanes: dict[int, LaneTime] = {}
        for lane, time in self._lanes.items():
            strategy = self._strategies.get(lane >> LANE_SHIFT)
            timeout = None if strategy is None else strategy.idle_timeout_ms
            if not time.active_at:
                time.active_at = now
            # A lane that has ended stands at the end of time, and counts.
            silent = timeout is not None and now - time.active_at >= timeout
            watermark = time.watermark
            if strategy is not None and strategy.is_ingestion and not (time.finished or self._plan.batch_mode):
                # What comes from now on is stamped with this time or a later one.
                watermark = max(watermark, now - 1)
            idle = (silent or time.is_marked) and not time.finished
            lanes[lane] = replace(time, watermark=watermark, idle=idle)
        return lanes

    @property
    def owes_tick(self) -> bool:
        """Whether a strategy has left out its lane since the last epoch began: what that lets happen is still due."""
        return self._owes_tick

    @property
    def follows_clock(self) -> bool:
        """Whether event time can advance without records: lanes are left out when silent, or are stamped by us."""
        return any(each.idle_timeout_ms is not None or each.is_ingestion for each in self._strategies.values())

    def sources_and_splits(self) -> list[tuple[int, int]]:
        """Return every split of every source that is known."""
        numbers = {op.assigner: op.id for op in self._plan.operators if isinstance(op.node, SourceNode)}
        own = [lane for lane in self._lanes if lane >> LANE_SHIFT in numbers]
        return [(numbers[lane >> LANE_SHIFT], lane & _SPLIT_MASK) for lane in own]

    def known_of(self, source: int) -> frozenset[int]:
        """Return the lanes of all splits of a source that are known."""
        number = self._plan.operator(source).assigner
        assert number is not None
        return frozenset(lane for lane in self._lanes if lane >> SOURCE_SHIFT & _SOURCE_MASK == number + 1)

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
        self._owes_tick = any(time.is_marked for time in self._lanes.values())
        self._lanes = {lane: self._lanes[lane] for lane in lanes_with(self._lanes, ())}

    def advance(self, context: EpochContext, reports: Sequence[TaskReport], manifest: Manifest) -> None:
        """Bring all lanes forward by an epoch and write them into its manifest."""
        chunks: dict[int, list[ChunkSteps]] = {}
        for report in reports:
            for chunk in report.chunks:
                chunks.setdefault(chunk.lane, []).append(chunk)
        tracks = {
            lane: track_lane(context.lanes.get(lane) or LaneTime(), chunks.get(lane, ()), lane in context.finishing)
            for lane in lanes_with(context.lanes, chunks)
        }
        self._lanes = {lane: time for lane, time in self._lanes.items() if lane in tracks}
        self._owes_tick = False
        for lane, track in tracks.items():
            old = context.lanes.get(lane) or LaneTime(active_at=context.now)
            if track.is_marked and not old.is_marked:
                self._check_mark(lane)
                self._owes_tick = True
            self._lanes[lane] = self._next(lane, old, tracks, context)
        self._forget_estimates(manifest)
        self._count_skew(manifest)
        manifest.lanes = {lane: replace(time, idle=False) for lane, time in self._lanes.items()}
        manifest.lane_owners = dict(self._uids)

    def _forget_estimates(self, manifest: Manifest) -> None:
        """Drop estimates that no operator will ask for: all but the last of those that all of them have passed."""
        passed = min(manifest.watermarks.values(), default=MAX_TIMESTAMP)
        for time in self._lanes.values():
            old = sum(since <= passed for since, _ in time.estimates)
            time.estimates = time.estimates[max(0, old - 1) :]

    def _count_skew(self, manifest: Manifest) -> None:
        """Write down how far out of order records of each strategy came, at most."""
        for assigner in self._strategies:
            skews = [time.skew for lane, time in self._lanes.items() if lane >> LANE_SHIFT == assigner]
            manifest.counters.setdefault(self._uids[assigner], {})[SKEW] = max(skews, default=0)

    def _check_mark(self, lane: int) -> None:
        """Refuse a strategy that leaves out its lane where order is everything: when others notice is up to chance."""
        if self._plan.deterministic:
            op = next(op for op in self._plan.operators if op.assigner == lane >> LANE_SHIFT)
            what = f"the watermark generator of {op.node.name!r} marked its split idle in deterministic order"
            remedy = "leave mark_idle() or deterministic_order() out"
            raise DefinitionError(describe(what, op.node.location, remedy), uid=op.uid, location=op.node.location)

    def _next(self, lane: int, old: LaneTime, tracks: Mapping[int, LaneTrack], context: EpochContext) -> LaneTime:
        track = tracks[lane]
        active_at = context.now if track.count > old.count else old.active_at
        time = LaneTime(track.after, track.count, False, track.finished, active_at=active_at)
        time.memory, time.is_marked, time.estimates = track.memory, track.is_marked, track.estimates
        time.top, time.skew = track.top, track.skew
        bound = None
        if self._plan.holds_records:
            bound = order_bound(self._plan, frozenset([lane >> LANE_SHIFT]), context.lanes, tracks)
        if bound is None:
            return time
        passed = sum((before, lane) < bound for before in track.before.tolist())
        watermark = int(track.levels[passed - 1]) if passed else old.watermark
        pending = (tuple(track.positions[passed:].tolist()), tuple(track.levels[passed:].tolist()))
        return replace(time, watermark=watermark, pending=pending)
