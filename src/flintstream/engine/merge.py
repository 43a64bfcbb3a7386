"""Merges everything that reaches an operator over the shuffle into runs in stamp order.

Blobs are sorted runs; they come ordered by their first stamp, so whatever stands before the first stamp of the blob at
hand is complete and can be processed. A partition is thus streamed through and never held whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flintstream.ops.batch import FIRST, I64, Batch, Values, concat_values, count_before, sort_order
from flintstream.ops.clock import EventClock, LaneTrack
from flintstream.ops.run import Run, watermarks_before, widen

AHEAD = 1 << 62
"""What is taken off a lane's number to put its records before those of all lanes as they are."""

Part = tuple[int, Batch]
"""An input port and records that came by it."""


class RunMerger:
    """Collects an operator's input and cuts it into runs."""

    def __init__(self, clock: EventClock, width: int, ports: int, now: int) -> None:
        self._clock = clock
        self._width = width
        self._ports = ports
        self._now = now
        self._parts: list[Part] = []
        self._advanced = 0
        self._watermark = clock.start

    def add(self, port: int, batch: Batch) -> None:
        """Take in a sorted batch."""
        self._parts.append((port, batch))

    @property
    def watermark(self) -> int:
        """The operator's watermark after the last run."""
        return self._watermark

    def cut(self, bound: Sequence[int] | None) -> Run | None:
        """Return the run of everything before `bound` (None: of everything), or None if nothing happens before it."""
        ready: list[Part] = []
        rest: list[Part] = []
        for port, batch in self._parts:
            count = len(batch) if bound is None else count_before(batch.stamp, bound)
            if count:
                ready.append((port, batch if count == len(batch) else batch.slice(0, count)))
            if count < len(batch):
                rest.append((port, batch.slice(count, len(batch))))
        self._parts = rest
        steps = len(self._clock.watermarks)
        until = steps if bound is None else count_before(self._clock.stamp, bound)
        if not ready and until == self._advanced:
            return None
        return self._run(ready, until)

    def rest(self) -> list[Part]:
        """Return what is left after the last cut, and forget it."""
        parts, self._parts = self._parts, []
        return parts

    def _run(self, parts: list[Part], until: int) -> Run:
        batch, inputs = self._merged(parts)
        steps = slice(self._advanced, until)
        watermarks = self._clock.watermarks[steps]
        stamp = [column[steps] for column in self._clock.stamp]
        start = self._watermark
        insertion = self._clock.insertion(batch.stamp)[steps] if len(batch) else np.zeros(len(watermarks), np.int64)
        batch.watermarks = watermarks_before(start, watermarks, insertion, len(batch))
        self._advanced = until
        if len(watermarks):
            self._watermark = int(watermarks[-1])
        return Run(batch, watermarks, insertion, widen(stamp, self._width), start, self._now, inputs)

    def _merged(self, parts: list[Part]) -> tuple[Batch, I64 | None]:
        if not parts:
            return empty_batch(self._width), None
        stamps = [widen(batch.stamp, self._width, FIRST) for _, batch in parts]
        if len(parts) == 1:
            port, batch = parts[0]
            merged = Batch(batch.values, batch.timestamps, stamps[0], None, batch.keys)
            return merged, np.full(len(batch), port) if self._ports > 1 else None
        columns = [np.concatenate(column) for column in zip(*stamps, strict=True)]
        merged = Batch(
            concat_values([batch.values for _, batch in parts]),
            np.concatenate([batch.timestamps for _, batch in parts]),
            columns,
            None,
            self._keys(parts),
        )
        inputs = np.concatenate([np.full(len(batch), port) for port, batch in parts]) if self._ports > 1 else None
        order = sort_order(columns)
        if order is not None:
            merged = merged.take(order)
            inputs = None if inputs is None else inputs[order]
        return merged, inputs

    def _keys(self, parts: list[Part]) -> Values | None:
        keys = [batch.keys for _, batch in parts if batch.keys is not None]
        if len(keys) == len(parts):
            return concat_values(keys)
        # Inputs of different kinds can meet in an operator that has no use for keys, or none for those of one input.
        if not keys or self._ports == 1:
            return None
        return concat_values([batch.keys or Values([None] * len(batch)) for _, batch in parts])


def empty_batch(width: int) -> Batch:
    """Return a batch of no records with stamps of `width` columns."""
    empty = np.zeros(0, np.int64)
    return Batch(Values([]), empty, [empty] * width, empty, Values([]))


def place_in_lane(batch: Batch, track: LaneTrack, chunk: tuple[object, ...]) -> Batch:
    """Turn a chunk's own stamps into its lane's: positions count from the lane's start, watermarks never fall."""
    base, floor = track.chunks[chunk]
    watermarks, lanes, positions = batch.stamp[:3]
    stamp = [np.maximum(watermarks, floor), lanes, positions + base, *batch.stamp[3:]]
    return Batch(batch.values, batch.timestamps, stamp, None, batch.keys)


def go_ahead(batch: Batch) -> Batch:
    """Return records with stamps before all others'."""
    watermarks, lanes, *rest = batch.stamp
    stamp = [np.full_like(watermarks, FIRST), lanes - AHEAD, *rest]
    return Batch(batch.values, batch.timestamps, stamp, None, batch.keys)


def tracks_of(tracks: Mapping[int, LaneTrack], assigners: frozenset[int], shift: int) -> dict[int, LaneTrack]:
    """Return the lanes of some assigners."""
    return {lane: track for lane, track in tracks.items() if lane >> shift in assigners}
