"""Joins all records of two streams that have the same key, whenever they come, as long as both are kept.

Each side is a map of records by number, so an epoch writes what came and what went. A timer for each moment at which
records of a key are over removes them; in an outer join it also gives those that have met nothing, unless results are
changes, where an unmatched record is given at once and taken back when it meets another.

Flink: StreamingJoinOperator of its SQL, with a time to live of its state.
Differs from Flink: the time to live may also be one of event time; an outer join need not be a changelog.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.context import TimeDomain
from flintstream.model.joins_reference import Change, RegularJoin
from flintstream.model.row import RowKind
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.ops.batch import NO_TIMESTAMP
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.keyed import PIECE, TimedOperator
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Emissions, Run
from flintstream.ops.tagging import emit_tagged
from flintstream.state.map_table import MapTable
from flintstream.state.table import Table
from flintstream.state.timers import order_of

Kept = tuple[int, int, bool, Any]
"""A record in state: when it is over, its timestamp, whether it has met another, its value."""


class RegularJoinOperator(TimedOperator):
    """Rows `(key, number) -> record` for each side, and `key -> next number` while the key has any record."""

    def __init__(self, join: RegularJoin) -> None:
        self._join = join

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._join.open(OperatorRuntimeContext(ctx, keyed=False))
        self._sides = [
            ctx.backend.table(f"{ctx.uid}/#{name}", lambda name=name: MapTable(name)) for name in ("left", "right")
        ]
        self._numbers = ctx.backend.table(f"{ctx.uid}/#numbers", lambda: Table("numbers"))
        self._combine, self._outer, self._changes = self._join.combine, self._join.outer, self._join.changes
        self._tags = [None if tag is None else OutputTag(tag) for tag in self._join.unmatched]
        self._watched = [outer or tag is not None for outer, tag in zip(self._outer, self._tags, strict=True)]
        self._times: list[int] = []

    def close(self) -> None:
        self._join.close()

    def process_run(self, run: Run, out: Output) -> None:
        for piece in run.pieces(PIECE):
            self._process_piece(piece, out)

    def on_processing_time(self, now: int, run: Run, out: Output) -> None:
        self.timers.now, self.timers.watermark = now, run.start
        emissions = Emissions()
        while (due := self.timers.processing.pop_due(now - 1)) is not None:
            self._fire_one(due, TimeDomain.PROCESSING_TIME, -1, emissions)
        self._emit(emissions, run, out)

    def _emit(self, emissions: Emissions, run: Run, out: Output) -> None:
        if emissions.rows:
            results = emissions.batch(run)
            # A result is as old as the younger of its two records, whichever came last.
            results.timestamps = np.array(self._times, np.int64)
            emit_tagged(results, out)
        self._times.clear()

    def _process_piece(self, run: Run, out: Output) -> None:
        emissions, batch, timers = Emissions(), run.batch, self.timers
        timers.watermark, timers.now = run.start, run.now
        if len(batch):
            assert run.inputs is not None and batch.keys is not None and batch.watermarks is not None
            columns = zip(
                run.inputs.tolist(),
                batch.keys.rows(),
                batch.values.rows(),
                batch.timestamps.tolist(),
                batch.watermarks.tolist(),
                strict=True,
            )
            for port, key, value, timestamp, watermark in columns:
                if watermark > timers.watermark:
                    if watermark >= timers.event.due:
                        self.fire_until(watermark, run, emissions)
                    timers.watermark = watermark
                self._take(port, key, value, timestamp, emissions.rows)
                emissions.ends.append(len(emissions.rows))
        self.fire_until(run.end, run, emissions)
        if run.end == MAX_TIMESTAMP and len(run.watermarks):
            self._end_all(run, emissions)
        self._emit(emissions, run, out)

    def _take(self, port: int, key: Any, value: Any, timestamp: int, rows: list[Any]) -> None:
        """Let a record meet all those of the other side, and keep it."""
        expiry, reached = self._expiry(timestamp), self._reached()
        others: dict[int, Kept] | None = self._sides[1 - port].data[key]
        if others is not None:
            for number in sorted(others) if len(others) > 1 else list(others):
                self._meet(port, key, number, value, timestamp, others[number], rows)
        is_matched, is_over = others is not None, expiry <= reached
        if not is_matched and is_over:
            self._give_alone(port, value, timestamp, rows)
        elif not is_matched and self._outer[port] and self._changes:
            self._give(RowKind.INSERT, port, value, None, timestamp, rows)
        if not is_over:
            number = self._numbers.data[key] or 1
            self._numbers.put(key, number + 1)
            self._sides[port].put_in(key, number, (expiry, timestamp, is_matched, value))
            if self._join.ttl is not None:
                self._set_timer(key, expiry)

    def _meet(self, port: int, key: Any, number: int, value: Any, timestamp: int, other: Kept, rows: list[Any]) -> None:
        expiry, other_time, was_matched, other_value = other
        if not was_matched and self._watched[1 - port]:
            if self._changes and self._outer[1 - port]:
                self._give(RowKind.DELETE, 1 - port, other_value, None, other_time, rows)
            self._sides[1 - port].put_in(key, number, (expiry, other_time, True, other_value))
        self._give(RowKind.INSERT, port, value, other_value, max(timestamp, other_time), rows)

    def _give(self, kind: RowKind, port: int, mine: Any, other: Any, timestamp: int, rows: list[Any]) -> None:
        result = self._combine(other, mine) if port else self._combine(mine, other)
        rows.append(Change(kind, result) if self._changes else result)
        self._times.append(timestamp)

    def _give_alone(self, port: int, value: Any, timestamp: int, rows: list[Any]) -> None:
        """Give a record whose time is over and that has met nothing, as a result or to its side output."""
        tag = self._tags[port]
        if tag is not None:
            rows.append((tag, value))
            self._times.append(timestamp)
        elif self._outer[port]:
            self._give(RowKind.INSERT, port, value, None, timestamp, rows)

    def _expiry(self, timestamp: int) -> int:
        """Return when a record that comes now is over: the first moment at which it is not kept any more."""
        ttl = self._join.ttl
        if ttl is None:
            return MAX_TIMESTAMP
        if self._join.by_clock:
            return self.timers.now + ttl
        if timestamp == NO_TIMESTAMP:
            what = "a record has no timestamp, but the join keeps records by event time"
            remedy = 'call assign_timestamps_and_watermarks(...) on both streams, or use ttl_time="processing"'
            raise JobError(describe(what, f"operator {self.ctx.name!r}", remedy))
        return min(timestamp + ttl, MAX_TIMESTAMP)

    def _reached(self) -> int:
        """Return how far the clock is by which records are kept."""
        if self._join.ttl is None:
            return NO_TIMESTAMP
        return self.timers.now if self._join.by_clock else self.timers.watermark

    def _set_timer(self, key: Any, expiry: int) -> None:
        if self._join.by_clock:
            # A timer of the clock fires when its millisecond is over.
            self.timers.processing.register(key, None, expiry - 1)
        else:
            self.timers.event.register(key, None, expiry)

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        over = time + 1 if domain is TimeDomain.PROCESSING_TIME else time
        self._drop(key, over, rows)
        return NO_TIMESTAMP

    def _drop(self, key: Any, until: int, rows: list[Any]) -> None:
        """Remove what is over, left before right; what has met nothing is a result now, if it is ever to be one."""
        for port, side in enumerate(self._sides):
            held: dict[int, Kept] | None = side.data[key]
            if held is None:
                continue
            # Among changes, an unmatched record has been given when it came.
            gives = self._tags[port] is not None or (self._outer[port] and not self._changes)
            over = [number for number, kept in held.items() if kept[0] <= until]
            # What was restored need not be in the order of arrival.
            for number in sorted(over) if len(over) > 1 else over:
                _, timestamp, is_matched, value = held[number]
                if gives and not is_matched:
                    self._give_alone(port, value, timestamp, rows)
                side.remove_in(key, number)
        if self._sides[0].data[key] is None and self._sides[1].data[key] is None:
            self._numbers.delete(key)

    def _end_all(self, run: Run, emissions: Emissions) -> None:
        """The input is over, and with it the time of every record, also where the clock would have more to say."""
        keys = [key for key, _ in self._numbers.rows()]
        hashed = sorted((order_of(key), number) for number, key in enumerate(keys))
        for key_hash, number in hashed:
            start = len(emissions.rows)
            self._drop(keys[number], MAX_TIMESTAMP, emissions.rows)
            if len(emissions.rows) > start:
                emissions.end_timer(start, len(run.watermarks) - 1, MAX_TIMESTAMP, key_hash, NO_TIMESTAMP)
        for entry in list(self.timers.processing.data):
            self.timers.processing.unregister(*entry)
