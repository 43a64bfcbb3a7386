"""Lanes for tests: what a few splits bring in one epoch, cut into chunks at random, and what that means, played out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import FIRST
from flintstream.ops.clock import END_POSITION, ChunkSteps, LaneTime, LaneTrack, track_lane


@dataclass(frozen=True)
class Lane:
    """A lane in one epoch: `wanted[i]` is the watermark that record i asks for; the lane's own never falls."""

    number: int
    start: LaneTime
    wanted: tuple[int, ...]
    cuts: tuple[int, ...]
    ends: bool

    def chunks(self) -> list[ChunkSteps]:
        """Return the lane's chunks as level 0 reports them: each knows the lane's start and its own records only."""
        bounds = sorted({0, *self.cuts, len(self.wanted)}) if self.wanted else [0, 0]
        return [self._chunk(begin, end) for begin, end in pairwise(bounds)]

    def _chunk(self, begin: int, end: int) -> ChunkSteps:
        before = self.start.newest
        positions: list[int] = []
        levels: list[int] = []
        for index, level in enumerate(self.wanted[begin:end]):
            if level > before:
                before = level
                positions.append(index)
                levels.append(level)
        columns = (np.array(column, np.int64) for column in (positions, levels))
        return ChunkSteps(self.number, (begin,), *columns, end - begin, False)

    def track(self) -> LaneTrack:
        """Return the lane as every task sees it; a lane without records has no chunks."""
        return track_lane(self.start, self.chunks() if self.wanted else (), self.ends)

    def befores(self) -> list[int]:
        """Return the lane's watermark before each record."""
        found = [self.start.newest]
        for level in self.wanted:
            found.append(max(found[-1], level))
        return found[:-1]

    def records(self) -> list[tuple[int, int, int]]:
        """Return the stamps of all its records."""
        return [(before, self.number, self.start.count + index) for index, before in enumerate(self.befores())]

    def steps(self) -> list[tuple[int, int, int, int]]:
        """Return (watermark before, lane, position, watermark after) of all its steps, those pending first."""
        steps: list[tuple[int, int, int, int]] = []
        watermark = self.start.watermark
        candidates = [*zip(*self.start.pending, strict=True)]
        candidates += [(self.start.count + index, level) for index, level in enumerate(self.wanted)]
        if self.ends and not self.start.finished:
            candidates.append((END_POSITION, MAX_TIMESTAMP))
        for position, level in candidates:
            if level > watermark:
                steps.append((watermark, self.number, position, level))
                watermark = level
        return steps


class Advance(NamedTuple):
    """An operator's watermark rises, after so many of its records."""

    stamp: tuple[int, int, int]
    watermark: int
    insertion: int


def simulate(
    start: int, lanes: Sequence[Lane], records: Sequence[tuple[int, int, int]]
) -> tuple[list[Advance], list[int]]:
    """Play an epoch event by event; return the operator's advances, and its watermark before each of its records."""
    active = {lane.number: lane for lane in lanes if lane.wanted or lane.steps() or not lane.start.idle}
    standing = {number: lane.start.watermark for number, lane in active.items()}
    watermark = start
    advances: list[Advance] = []
    befores: list[int] = []

    def note(stamp: tuple[int, int, int]) -> None:
        nonlocal watermark
        lowest = min(standing.values(), default=start)
        if lowest > watermark:
            watermark = lowest
            advances.append(Advance(stamp, lowest, len(befores)))

    note((FIRST, FIRST, FIRST))
    events = [(record, 0, 0) for record in records]
    events += [(step[:3], 1, step[3]) for lane in active.values() for step in lane.steps()]
    for stamp, is_step, level in sorted(events):
        if is_step:
            standing[stamp[1]] = level
            note(stamp)
        else:
            befores.append(watermark)
    return advances, befores


LEVELS = st.integers(-3, 12)


@st.composite
def lane(draw: st.DrawFn, number: int) -> Lane:
    """One lane; sometimes idle, over, just beginning, or with steps that deterministic order has not passed yet."""
    if draw(st.integers(0, 5)) == 0:
        return Lane(number, LaneTime(MAX_TIMESTAMP, 7, draw(st.booleans()), finished=True), (), (), draw(st.booleans()))
    watermark = draw(st.just(MIN_TIMESTAMP) | LEVELS)
    count = draw(st.integers(0, 5))
    levels = sorted(draw(st.sets(st.integers(max(watermark, -4) + 1, 20), max_size=2))) if count >= 2 else []
    pending = (tuple(range(len(levels))), tuple(levels))
    wanted = draw(st.lists(LEVELS, max_size=8))
    cuts = draw(st.lists(st.integers(0, len(wanted)), max_size=3))
    time = LaneTime(watermark, count, draw(st.booleans()), pending=pending)
    return Lane(number, time, tuple(wanted), tuple(cuts), draw(st.booleans()))


@st.composite
def some_lanes(draw: st.DrawFn) -> list[Lane]:
    """Up to three lanes, of one assigner or of several."""
    numbers = draw(st.lists(st.sampled_from([0, 1, 1 << 40, (1 << 40) + 3]), unique=True, min_size=1, max_size=3))
    return [draw(lane(number)) for number in sorted(numbers)]


@st.composite
def operator_starts(draw: st.DrawFn, lanes: Sequence[Lane]) -> int:
    """Where an operator's watermark may stand before the epoch: mostly at its lowest lane, sometimes elsewhere."""
    lowest = min(lane.start.watermark for lane in lanes)
    return draw(st.just(lowest) | st.just(MIN_TIMESTAMP) | LEVELS)
