"""A run: the next stretch of an operator's merged input together with the advances of event time that fall into it.

Operators behind an exchange work through runs: between two records the watermark may advance several times, and timers
must fire at the advance that reached them, wherever the batch was cut. `Emissions` collects what a run produced and
gives every output the stamp of the record or the advance that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.batch import FIRST, I64, LAST, NO_TIMESTAMP, Batch, Stamp, Values


@dataclass(slots=True)
class Run:
    """Records in stamp order, and the watermark's advances among them.

    `watermarks[j]` is reached after `insertion[j]` of the records; `stamp` is the advances' own, as wide as theirs.
    `inputs` tells which input each record came by, or is None if there is one.
    """

    batch: Batch
    watermarks: I64
    insertion: I64
    stamp: Stamp
    start: int = MIN_TIMESTAMP
    now: int = 0
    inputs: I64 | None = None

    @property
    def end(self) -> int:
        """The operator's watermark after the run."""
        return int(self.watermarks[-1]) if len(self.watermarks) else self.start

    def before(self, steps: I64) -> I64:
        """Return the watermark before each of these advances.

        As in Flink, what an advance makes fire goes on before the advance itself does.
        """
        return np.append(np.int64(self.start), self.watermarks)[steps]

    def pieces(self, size: int) -> Iterator[Run]:
        """Yield the run in stretches of at most `size` records: Python rows of one stretch fit into the CPU's cache."""
        count = len(self.batch)
        if count <= size:
            yield self
            return
        start, passed = self.start, 0
        for begin in range(0, count, size):
            stop = min(begin + size, count)
            until = len(self.watermarks) if stop == count else int(np.searchsorted(self.insertion, stop, "right"))
            steps = slice(passed, until)
            piece = Run(
                self.batch.slice(begin, stop),
                self.watermarks[steps],
                self.insertion[steps] - begin,
                [column[steps] for column in self.stamp],
                start,
                self.now,
                None if self.inputs is None else self.inputs[begin:stop],
            )
            yield piece
            start, passed = piece.end, until


def watermarks_before(start: int, watermarks: I64, insertion: I64, count: int) -> I64:
    """Return the operator's watermark before each of `count` records."""
    passed = np.cumsum(np.bincount(insertion, minlength=count + 1))[:count]
    return np.concatenate([np.array([start], np.int64), watermarks])[passed]


@dataclass(slots=True)
class Span:
    """Outputs `rows[start:stop]`, numbered from `number`, that follow not simply a record but a timer or a window."""

    start: int
    stop: int
    record: int
    advance: int
    time: int
    key_hash: Any
    timestamp: int
    number: int = 0


@dataclass(slots=True)
class Emissions:
    """What a run emitted, in the order it did; `ends[i]` is the number of rows after record i."""

    rows: list[Any] = field(default_factory=list[Any])
    ends: list[int] = field(default_factory=list[int])
    spans: list[Span] = field(default_factory=list[Span])

    def end_timer(self, start: int, advance: int, time: int, key_hash: int, timestamp: int) -> None:
        """Note that the rows from `start` on are those of a timer, which fired at an advance (-1: at none).

        A timer that another one set for an earlier time fires after it, so it takes the other's place in the order.
        """
        number = 0
        last = self.spans[-1] if self.spans else None
        follows = last is not None and last.record < 0 and last.advance == advance
        if last is not None and follows and (time, key_hash) <= (last.time, last.key_hash):
            time, key_hash, number = last.time, last.key_hash, last.number + last.stop - last.start
        self.spans.append(Span(start, len(self.rows), -1, advance, time, key_hash, timestamp, number))

    def batch(self, run: Run) -> Batch:
        """Return the outputs as a batch; stamps grow by (timer time, key hash, emission number)."""
        total, count = len(self.rows), len(run.batch)
        ends = np.fromiter(self.ends, np.int64, len(self.ends))
        counts = np.diff(ends, prepend=0)
        if not self.spans and total == count and bool((counts == 1).all()):
            zeros = np.zeros(total, np.int64)
            before = np.full(total, FIRST)
            return Batch(
                Values(self.rows),
                run.batch.timestamps,
                [*run.batch.stamp, before, zeros, zeros],
                run.batch.watermarks,
            )
        counts = np.append(counts, total - (int(ends[-1]) if len(ends) else 0))
        cause = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(total) - np.repeat(np.concatenate([[0], ends])[: len(counts)], counts)
        return self._with_spans(run, cause, number)

    def _with_spans(self, run: Run, cause: I64, number: I64) -> Batch:
        total, count = len(cause), len(run.batch)
        advance = np.full(total, -1)
        times, hashes = np.full(total, FIRST), np.zeros(total, np.int64)
        timestamps = np.full(total, NO_TIMESTAMP)
        own = cause < count
        timestamps[own] = run.batch.timestamps[cause[own]]
        for span in self.spans:
            at = slice(span.start, span.stop)
            own[at] = False
            cause[at], advance[at] = span.record, span.advance
            times[at], hashes[at], timestamps[at] = span.time, span.key_hash, span.timestamp
            number[at] = np.arange(span.stop - span.start) + span.number
        # A record's own rows count from 0, whether or not a timer fired between it and the record before.
        number[own] -= number[own][np.searchsorted(cause[own], cause[own])]
        caused_by_record = advance < 0
        stamp: Stamp = []
        for column, steps in zip(run.batch.stamp, run.stamp, strict=True):
            merged = np.empty(total, np.int64)
            merged[caused_by_record] = column[cause[caused_by_record]] if count else FIRST
            merged[~caused_by_record] = steps[advance[~caused_by_record]]
            stamp.append(merged)
        watermarks = self._watermarks(run, cause, advance)
        return Batch(Values(self.rows), timestamps, [*stamp, times, hashes, number], watermarks)

    @staticmethod
    def _watermarks(run: Run, cause: I64, advance: I64) -> I64:
        watermarks = np.full(len(cause), run.start)
        by_record = (advance < 0) & (cause >= 0)
        if run.batch.watermarks is not None and len(run.batch):
            watermarks[by_record] = run.batch.watermarks[cause[by_record]]
        by_time = advance >= 0
        watermarks[by_time] = run.before(advance[by_time])
        return watermarks


def widen(stamp: Stamp, width: int, fill: int = LAST) -> Stamp:
    """Return a stamp with as many columns as `width`, the new ones holding `fill`."""
    extra = [np.full(len(stamp[0]), fill)] * (width - len(stamp))
    return [*stamp, *extra]


def take_turn(batch: Batch, turn: int | None, width: int) -> Batch:
    """Return records that came by one of several ways, with stamps that say so; `width` is the stamps' width then."""
    if turn is None:
        return batch
    stamp = [*widen(batch.stamp, width - 1, FIRST), np.full(len(batch), turn)]
    return Batch(batch.values, batch.timestamps, stamp, batch.watermarks, batch.keys)
