"""Assigns event time: a timestamp to every record, and to the stream the steps by which its watermark advances.

Built-in strategies are prefix maxima, so a whole batch is one numpy call and chunks of a split combine. The operator
stands wherever a lane begins; it numbers the records of its chunk and reports the chunk's steps when it ends.

Flink: TimestampsAndWatermarksOperator, BoundedOutOfOrdernessWatermarks (which emits max - bound - 1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.batch import I64, NO_TIMESTAMP, Batch, Values
from flintstream.ops.clock import ChunkSteps, LaneTime
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.selectors import field_column, numbers, to_epoch_millis
from flintstream.ops.watermark_generators import GeneratorMemory, LaneMemory
from flintstream.ops.watermark_learned import LearnedMemory
from flintstream.state.codec import kind_of_arrow

LANE_SHIFT = 52
SOURCE_SHIFT = 40
NO_SPLIT = (1 << SOURCE_SHIFT) - 1
"""Stands for the splits of a source none of whose splits is known yet: until one is, event time waits for it."""


def lane_of(assigner: int, source: int, split: int) -> int:
    """Return the lane of an assigner for a split of a source, which is named by its own number as an assigner.

    A strategy behind a union sees splits of several sources: two of them must never be one lane. A strategy behind an
    exchange has one lane, `assigner << LANE_SHIFT`, that no source has.
    """
    return (assigner << LANE_SHIFT) | ((source + 1) << SOURCE_SHIFT) | split


def lanes_with(lanes: Iterable[int], chunks: Iterable[int]) -> set[int]:
    """Return the lanes of an epoch: those known before and those of its chunks; a split that came replaces NO_SPLIT."""
    found = {*lanes, *chunks}
    return found - {lane | NO_SPLIT for lane in found if lane & NO_SPLIT != NO_SPLIT}


@dataclass(slots=True)
class ChunkTime:
    """Event time within one chunk of one lane, while it is being read.

    `text` is what the strategy remembered of the lane before, `memory` the same at work; `idle` whether it had marked
    the lane so; `now` is the epoch's processing time. `top` is the greatest timestamp so far, `skew` how far a record
    of this chunk was behind it at most. A lane `is_closed` once its strategy's range of time is over.
    """

    lane: int
    order: tuple[object, ...]
    carry: int
    count: int = 0
    finished: bool = False
    text: str = ""
    idle: bool = False
    now: int = 0
    top: int = NO_TIMESTAMP
    is_closed: bool = False
    memory: LaneMemory | None = None
    skew: int = 0
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
            None if self.memory is None else self.memory.dump(),
            self.memory is not None and self.memory.idle,
            self.top,
            self.skew,
            () if self.memory is None else tuple(self.memory.estimates),
        )

    def advance(self, timestamps: I64, after: I64) -> I64:
        """Take in how far each record brings the lane; return its watermark before each, and remember the steps."""
        before = np.concatenate([np.array([self.carry], np.int64), after[:-1]])
        risen = after > before
        if risen.any():
            self.positions.append(np.flatnonzero(risen) + self.count)
            self.watermarks.append(after[risen])
            self.carry = int(after[-1])
        # Subtracting the time that stands for none would wrap around.
        known = timestamps if timestamps.min() != NO_TIMESTAMP else timestamps[timestamps != NO_TIMESTAMP]
        if len(known):
            tops = np.maximum(np.maximum.accumulate(known), self.top)
            self.top = int(tops[-1])
            self.skew = max(self.skew, int((tops - known).max()))
        return before


def chunk_time(lane: int, order: tuple[object, ...], start: LaneTime, now: int, finished: bool = False) -> ChunkTime:
    """Return the chunk of a lane that stands at `start`; `finished` says that its split ends with it."""
    chunk = ChunkTime(lane, order, start.newest, 0, finished, start.memory, start.is_marked, now, start.top)
    chunk.is_closed = start.finished
    return chunk


class TimestampsOperator(Operator):
    """Gives records timestamps by a strategy; `chunk` is set by the engine before a chunk's batches come."""

    chunk: ChunkTime

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy
        self._ctx: OperatorContext | None = None

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx

    def process(self, batch: Batch, port: int, out: Output) -> None:
        chunk = self.chunk
        if chunk.is_closed and self._strategy.range is not None:
            self._leave_out(len(batch))
            return
        timestamps = self._timestamps(batch)
        after = self._levels(batch.values, timestamps)
        end = None if self._strategy.range is None else self._strategy.range.end
        if end is not None and after[-1] >= end - 1:
            # The watermark says that nothing before the end is to come: the lane ends behind this record.
            count = int(np.argmax(after >= end - 1)) + 1
            self._leave_out(len(batch) - count)
            batch, timestamps, after = batch.slice(0, count), timestamps[:count], after[:count]
            chunk.finished = chunk.is_closed = True
        watermarks = chunk.advance(timestamps, after)
        positions = np.arange(chunk.count, chunk.count + len(batch))
        chunk.count += len(batch)
        stamp = [watermarks, np.full(len(batch), chunk.lane), positions]
        out.emit(self._within(Batch(batch.values, timestamps, stamp, watermarks)))

    def _within(self, batch: Batch) -> Batch:
        """Return the records in the strategy's range of time."""
        limits = self._strategy.range
        if limits is None:
            return batch
        start = NO_TIMESTAMP if limits.start is None else limits.start
        kept = (batch.timestamps >= start) & (batch.timestamps < (MAX_TIMESTAMP if limits.end is None else limits.end))
        self._leave_out(len(batch) - int(np.count_nonzero(kept)))
        return batch if kept.all() else batch.take(np.flatnonzero(kept))

    def _leave_out(self, count: int) -> None:
        if count and self._ctx is not None:
            self._ctx.count("outside", count)

    def _timestamps(self, batch: Batch) -> I64:
        strategy = self._strategy
        if strategy.is_ingestion:
            # The watermark is one below the last stamp: the clock may have been set back since then.
            return np.full(len(batch), max(self.chunk.now, self.chunk.carry + 1))
        if strategy.column is not None:
            return numbers(field_column(batch.values, strategy.column))
        if strategy.expression is not None:
            return numbers(computed(batch.values, strategy.expression.arrow))
        if strategy.assigner is None:
            return batch.timestamps
        extract = strategy.assigner.extract_timestamp
        rows = batch.values.rows()
        stamps = [extract(row, previous) for row, previous in zip(rows, batch.timestamps.tolist(), strict=True)]
        if set(map(type, stamps)) != {int}:
            stamps = list(map(to_epoch_millis, stamps))
        return np.fromiter(stamps, np.int64, len(stamps))

    def _levels(self, values: Values, timestamps: I64) -> I64:
        """Return the lane's watermark after each record."""
        strategy, chunk = self._strategy, self.chunk
        if strategy.kind == "none":
            return np.full(len(timestamps), chunk.carry)
        if strategy.is_sequential and chunk.memory is None:
            chunk.memory = memory_of(strategy, chunk)
        if chunk.memory is not None:
            return np.maximum(chunk.memory.advance(values, timestamps), chunk.carry)
        delay = strategy.bound_ms + 1
        # A record without a timestamp must not make the subtraction wrap around.
        after = np.maximum(np.maximum.accumulate(timestamps), MIN_TIMESTAMP + delay) - delay
        return np.maximum(after, chunk.carry)


def memory_of(strategy: WatermarkStrategy, chunk: ChunkTime) -> LaneMemory | None:
    """Return what a strategy remembers of a chunk's lane; None if it needs no more than its watermark."""
    if strategy.generator is not None:
        return GeneratorMemory(strategy.generator, chunk.text, chunk.carry, chunk.idle)
    return None if strategy.learning is None else LearnedMemory(strategy.learning, chunk.text)


def computed(values: Values, expression: pc.Expression) -> Values:
    """Return an Arrow expression over the fields of records."""
    array, _ = values.column()
    if not pa.types.is_struct(array.type):
        what = f"a timestamp expression needs records with named fields, not {array.type}"
        raise TypeMismatchError(describe(what, None, "use with_timestamp_assigner(f) for other records"))
    table = pa.Table.from_struct_array(array)
    try:
        steps = [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["time"])),
        ]
        found = acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0).combine_chunks()
    except pa.ArrowInvalid as error:
        what = f"the timestamp expression {expression} cannot be computed on {table.schema.names} ({error})"
        raise TypeMismatchError(describe(what, None, "use fields that all records have")) from None
    column = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return Values(None, column, kind_of_arrow(column.type))


def untimed(values: Values, chunk: ChunkTime, timestamps: I64 | None = None) -> Batch:
    """Return records as a source reads them: their own timestamps or none, no watermark, numbered in their chunk."""
    count = len(values)
    positions = np.arange(chunk.count, chunk.count + count)
    chunk.count += count
    stamp = [np.full(count, chunk.carry), np.full(count, chunk.lane), positions]
    return Batch(values, np.full(count, NO_TIMESTAMP) if timestamps is None else timestamps, stamp)
