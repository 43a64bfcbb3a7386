"""Assigns event time: a timestamp to every record, and to the stream the steps by which its watermark advances.

Built-in strategies are prefix maxima, so a whole batch is one numpy call and chunks of a split combine. The operator
stands wherever a lane begins; it numbers the records of its chunk and reports the chunk's steps when it ends.

Flink: TimestampsAndWatermarksOperator, BoundedOutOfOrdernessWatermarks (which emits max - bound - 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.batch import I64, NO_TIMESTAMP, Batch, Values
from flintstream.ops.clock import ChunkSteps
from flintstream.ops.operator import Operator, Output
from flintstream.ops.selectors import field_column, numbers, to_epoch_millis

LANE_SHIFT = 40
SOURCE_SHIFT = 24


def lane_of(assigner: int, source: int, split: int) -> int:
    """Return the lane of an assigner for a split of a source, which is named by its own number as an assigner.

    A strategy behind a union sees splits of several sources: two of them must never be one lane. A strategy behind an
    exchange has one lane, `assigner << LANE_SHIFT`, that no source has.
    """
    return (assigner << LANE_SHIFT) | ((source + 1) << SOURCE_SHIFT) | split


@dataclass(slots=True)
class ChunkTime:
    """Event time within one chunk of one lane, while it is being read."""

    lane: int
    order: tuple[object, ...]
    carry: int
    count: int = 0
    finished: bool = False
    positions: list[I64] = field(default_factory=list[I64])
    watermarks: list[I64] = field(default_factory=list[I64])

    def steps(self) -> ChunkSteps:
        """Return the chunk's part of the lane's steps."""
        empty = np.zeros(0, np.int64)
        return ChunkSteps(
            self.lane,
            self.order,
            np.concatenate([empty, *self.positions]),
            np.concatenate([empty, *self.watermarks]),
            self.count,
            self.finished,
        )


class TimestampsOperator(Operator):
    """Gives records timestamps by a strategy; `chunk` is set by the engine before a chunk's batches come."""

    chunk: ChunkTime

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def process(self, batch: Batch, port: int, out: Output) -> None:
        timestamps = self._timestamps(batch)
        watermarks = self._advance(timestamps)
        count = len(timestamps)
        positions = np.arange(self.chunk.count, self.chunk.count + count)
        self.chunk.count += count
        stamp = [watermarks, np.full(count, self.chunk.lane), positions]
        out.emit(Batch(batch.values, timestamps, stamp, watermarks))

    def _timestamps(self, batch: Batch) -> I64:
        strategy = self._strategy
        if strategy.column is not None:
            return numbers(field_column(batch.values, strategy.column))
        if strategy.assigner is None:
            return batch.timestamps
        extract = strategy.assigner.extract_timestamp
        rows = batch.values.rows()
        stamps = [extract(row, previous) for row, previous in zip(rows, batch.timestamps.tolist(), strict=True)]
        if set(map(type, stamps)) != {int}:
            stamps = list(map(to_epoch_millis, stamps))
        return np.fromiter(stamps, np.int64, len(stamps))

    def _advance(self, timestamps: I64) -> I64:
        """Return the watermark before each record, and remember the steps."""
        chunk = self.chunk
        if self._strategy.kind == "none":
            return np.full(len(timestamps), chunk.carry)
        delay = self._strategy.bound_ms + 1
        # A record without a timestamp must not make the subtraction wrap around.
        after = np.maximum(np.maximum.accumulate(timestamps), MIN_TIMESTAMP + delay) - delay
        after = np.maximum(after, chunk.carry)
        before = np.concatenate([np.array([chunk.carry], np.int64), after[:-1]])
        risen = after > before
        chunk.positions.append(np.flatnonzero(risen) + chunk.count)
        chunk.watermarks.append(after[risen])
        chunk.carry = int(after[-1])
        return before


def untimed(values: Values, chunk: ChunkTime) -> Batch:
    """Return records as a source reads them: no timestamp, no watermark, numbered within their chunk."""
    count = len(values)
    positions = np.arange(chunk.count, chunk.count + count)
    chunk.count += count
    stamp = [np.full(count, chunk.carry), np.full(count, chunk.lane), positions]
    return Batch(values, np.full(count, NO_TIMESTAMP), stamp)
