"""Event time of one operator within one epoch: when its watermark advances, seen from any record of any partition.

Each upstream lane (a split seen through one watermark strategy) reports steps `(position, watermark after)`. All
partitions get all steps, so all agree on one order: steps and records are merged by (lane watermark before, lane,
position). In this order the operator's watermark, the minimum over lanes, has a closed form, computed for all steps at
once: a lane with steps to come stands at the watermark before its next step, which is at least that of the step at
hand; so the minimum is the next step's watermark, capped by the lanes that have no step left.

Flink: StatusWatermarkValve, and the per-split multiplexer of its sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import FIRST, I64, Stamp, sort_order

END_POSITION = MAX_TIMESTAMP
Estimates = tuple[tuple[int, float], ...]
"""Pairs (watermark, share): from that watermark on, this share of all records is believed to have come."""
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class ChunkSteps:
    """What one chunk of a lane did to its watermark; positions are indices in the chunk.

    `memory` is what its strategy knows of the lane now, if it remembers anything; `idle` whether it says so itself;
    `top` is the greatest timestamp, and `skew` how far behind the greatest before it a record was at most.
    """

    lane: int
    order: tuple[object, ...]
    positions: I64
    watermarks: I64
    count: int
    finished: bool = False
    memory: str | None = None
    idle: bool = False
    top: int = MIN_TIMESTAMP
    skew: int = 0
    estimates: Estimates = ()

    @property
    def last(self) -> int:
        """The lane's watermark after this chunk, as far as the chunk itself knows."""
        return int(self.watermarks[-1]) if len(self.watermarks) else MIN_TIMESTAMP


@dataclass(slots=True)
class LaneTime:
    """A lane at the start of an epoch, as the driver's split table has it.

    `count` records came before, so a position is the record's number in its lane, whatever chunk brought it. `pending`
    are steps of earlier epochs that deterministic order has not passed yet, as (positions, watermarks after).
    `active_at` is the processing time of its last record. `memory` belongs to the strategy, as text; `is_marked` says
    that the strategy itself has left the lane out. `top` and `skew` are of all its records. `estimates` tell how
    complete results are believed to be, if the strategy has an opinion.
    """

    watermark: int = MIN_TIMESTAMP
    count: int = 0
    idle: bool = False
    finished: bool = False
    pending: tuple[Sequence[int], Sequence[int]] = ((), ())
    active_at: int = 0
    memory: str = ""
    is_marked: bool = False
    top: int = MIN_TIMESTAMP
    skew: int = 0
    estimates: Estimates = ()

    @property
    def newest(self) -> int:
        """The lane's watermark with its pending steps: where its next chunk starts."""
        return self.pending[1][-1] if self.pending[1] else self.watermark


@dataclass(slots=True)
class LaneTrack:
    """A lane in this epoch: where its chunks stand (first position, watermark before), and all its steps."""

    chunks: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict[tuple[object, ...], tuple[int, int]])
    count: int = 0
    finished: bool = False
    positions: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    before: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    levels: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    after: int = MIN_TIMESTAMP
    memory: str = ""
    is_marked: bool = False
    top: int = MIN_TIMESTAMP
    skew: int = 0
    estimates: Estimates = ()


def track_lane(start: LaneTime, chunks: Iterable[ChunkSteps], finish: bool) -> LaneTrack:
    """Put a lane's chunks in order and return its steps; `finish` says that the lane ends with this epoch."""
    track = LaneTrack(count=start.count, finished=start.finished, after=start.newest)
    track.memory, track.is_marked, track.estimates = start.memory, start.is_marked, start.estimates
    track.top, track.skew = start.top, start.skew
    positions = [np.array(start.pending[0], np.int64)]
    levels = [np.array(start.pending[1], np.int64)]
    for chunk in sorted(chunks, key=lambda c: c.order):
        track.chunks[chunk.order] = (track.count, track.after)
        new = chunk.watermarks > track.after
        positions.append(chunk.positions[new] + track.count)
        levels.append(chunk.watermarks[new])
        track.after = max(track.after, chunk.last)
        track.count += chunk.count
        finish = finish or chunk.finished
        if chunk.memory is not None:
            track.memory, track.is_marked = chunk.memory, chunk.idle
        track.top, track.skew = max(track.top, chunk.top), max(track.skew, chunk.skew)
        track.estimates = (*track.estimates, *chunk.estimates)
    if finish and not track.finished:
        track.finished = True
        if track.after < MAX_TIMESTAMP:
            positions.append(np.array([END_POSITION]))
            levels.append(np.array([MAX_TIMESTAMP]))
            track.after = MAX_TIMESTAMP
    track.positions = np.concatenate(positions)
    track.levels = np.concatenate(levels)
    track.before = np.concatenate([np.array([start.watermark], np.int64), track.levels[:-1]])[: len(track.levels)]
    return track


def frontier(tracks: Mapping[int, LaneTrack]) -> tuple[int, int] | None:
    """Return the bound (watermark, lane) before which deterministic order is complete; None if all lanes have ended.

    A lane that goes on can still bring records at its own watermark, and none below: the lowest such lane decides.
    """
    waiting = [(track.after, lane) for lane, track in tracks.items() if not track.finished]
    if not waiting:
        return None
    watermark, lane = min(waiting)
    return watermark, lane + 1


class EventClock:
    """The advances of one operator's watermark in one epoch, in stamp order."""

    def __init__(self, start: int, lanes: Mapping[int, LaneTime], tracks: Mapping[int, LaneTrack]) -> None:
        self.start = start
        self._estimates = [track.estimates for track in tracks.values() if track.estimates]
        # A lane that ends is not idle: its end must count.
        active = {
            lane: track
            for lane, track in tracks.items()
            if len(track.positions) or not lanes[lane].idle or (track.chunks and not track.is_marked)
        }
        moving = [(lane, track) for lane, track in sorted(active.items()) if len(track.positions)]
        still = [track.after for track in active.values() if not len(track.positions)]
        floor = min(still, default=MAX_TIMESTAMP)
        before = np.concatenate([_NONE, *(track.before for _, track in moving)])
        lane_of = np.concatenate([_NONE, *(np.full(len(track.positions), lane) for lane, track in moving)])
        positions = np.concatenate([_NONE, *(track.positions for _, track in moving)])
        order = sort_order([before, lane_of, positions])
        if order is not None:
            before, lane_of, positions = before[order], lane_of[order], positions[order]
        after = self._minimum(before, lane_of, {lane: track.after for lane, track in moving}, floor)
        first = min(floor, int(before[0]) if moving else MAX_TIMESTAMP)
        if active and first > start:
            # The lowest lane has become idle since the last epoch, or is gone: time advances before any record.
            before, lane_of, positions = (np.insert(column, 0, FIRST) for column in (before, lane_of, positions))
            after = np.insert(after, 0, first)
        after = np.maximum.accumulate(np.maximum(after, start))
        advancing = after > np.concatenate([np.array([start], np.int64), after[:-1]])
        self.stamp: Stamp = [before[advancing], lane_of[advancing], positions[advancing]]
        self.watermarks: I64 = after[advancing]

    @staticmethod
    def _minimum(before: I64, lane_of: I64, finals: Mapping[int, int], floor: int) -> I64:
        following = np.append(before[1:], MAX_TIMESTAMP)[: len(before)]
        cap = np.full(len(before), MAX_TIMESTAMP)
        lanes, reversed_first = np.unique(lane_of[::-1], return_index=True)
        for lane, index in zip(lanes.tolist(), reversed_first.tolist(), strict=True):
            last = len(lane_of) - 1 - index
            cap[last] = min(int(cap[last]), finals[lane])
        return np.minimum(np.minimum(following, np.minimum.accumulate(cap)), floor)

    @property
    def end(self) -> int:
        """The operator's watermark after the epoch."""
        return int(self.watermarks[-1]) if len(self.watermarks) else self.start

    def completeness(self, watermark: int) -> float | None:
        """Return which share of the records up to a watermark has come, as the lanes believe; None if none says."""
        if watermark == MAX_TIMESTAMP or not self._estimates:
            return 1.0 if self._estimates else None
        shares = [[share for since, share in each if since <= watermark] for each in self._estimates]
        return min((each[-1] for each in shares if each), default=None)

    def insertion(self, stamp: Stamp) -> I64:
        """Return for every advance how many of the sorted records stand before it.

        A record of the advancing lane with the same lane watermark stands before the advance, since the advance ends
        that watermark; so (watermark, lane) decides.
        """
        watermarks, lanes = stamp[0], stamp[1]
        step_watermarks, step_lanes = self.stamp[0], self.stamp[1]
        if not len(lanes) or (lanes[0] == lanes[-1] and bool((lanes == lanes[0]).all())):
            low = np.searchsorted(watermarks, step_watermarks, "left")
            high = np.searchsorted(watermarks, step_watermarks, "right")
            return np.where(step_lanes >= (lanes[0] if len(lanes) else 0), high, low)
        changes = np.ones(len(watermarks), bool)
        changes[1:] = watermarks[1:] != watermarks[:-1]
        distinct = watermarks[changes]
        rank = np.cumsum(changes) - 1
        lane_values = np.unique(np.concatenate([lanes, step_lanes]))
        width = len(lane_values) + 1
        composite = rank * width + np.searchsorted(lane_values, lanes)
        at = np.searchsorted(distinct, step_watermarks, "left")
        known = (at < len(distinct)) & (distinct[np.minimum(at, len(distinct) - 1)] == step_watermarks)
        wanted = at * width + np.where(known, np.searchsorted(lane_values, step_lanes), -1)
        return np.searchsorted(composite, wanted, "right")
