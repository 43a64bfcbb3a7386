"""Joins records with the version of their key that was valid at their time, or with the newest one there is.

In event time a record waits as a column until the watermark has passed it: then all versions up to its time have come.
So the versions of a run can be taken in before any of its records is decided upon, unless one comes late, which splits
the run. A version goes when the watermark has passed the next one, so a key without changes holds one row.

Flink: TemporalRowTimeJoinOperator and TemporalProcessTimeJoinOperator of its SQL.
Differs from Flink: results come in the order of time; a late record is not joined with whatever version is left, but
counted, and goes to its side output; so does a late version, which still counts for records to come; an ended version
leaves nothing behind; at the end of the input all state goes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.joins_reference import TemporalJoin
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import I64, Batch, Stamp, Values
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.operator import MAIN, Operator, OperatorContext, Output
from flintstream.ops.run import Emissions, Run
from flintstream.ops.sort import arrival_numbers
from flintstream.ops.tagging import emit_tagged
from flintstream.ops.waiting import held_pairs
from flintstream.state.codec import decode
from flintstream.state.held import Held, HeldTable
from flintstream.state.map_table import MapTable
from flintstream.state.table import Table
from flintstream.state.timers import TimerTable


class _TemporalOperator(Operator):
    """What both kinds have: the declaration, opened and closed with the operator."""

    def __init__(self, join: TemporalJoin) -> None:
        self._join = join

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._join.open(OperatorRuntimeContext(ctx, keyed=False))

    def close(self) -> None:
        self._join.close()

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a join is always behind an exchange"
        raise AssertionError(msg)

    def version_of(self, value: Any) -> Any:
        """Return a version, or None for one that only ends the version before."""
        ends = self._join.ends
        return None if value is None or (ends is not None and ends(value)) else value


class TemporalJoinOperator(_TemporalOperator):
    """Joins by event time; rows `(key, timestamp) -> version`, None for an end that the watermark has not passed."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._held = ctx.backend.table(f"{ctx.uid}/#waiting", HeldTable)
        self._versions = ctx.backend.table(f"{ctx.uid}/#versions", lambda: MapTable("versions"))
        self._pending = ctx.backend.table(f"{ctx.uid}/#event-timers", lambda: TimerTable("event"))

    def process_run(self, run: Run, out: Output) -> None:
        batch = run.batch
        if len(batch):
            assert run.inputs is not None and batch.watermarks is not None
            self._check_times(batch)
            ports, late = run.inputs, batch.timestamps <= batch.watermarks
            self._report_late(batch, ports, late, out)
            self._hold(batch.take(np.flatnonzero((ports == 0) & ~late)))
            self._take_versions(batch.take(np.flatnonzero((ports == 1) & ~late)))
            self._take_late_versions(batch.take(np.flatnonzero((ports == 1) & late)), run, out)
        self._advance(run.end, run, out)
        if run.end == MAX_TIMESTAMP:
            for key in {entry[0] for entry, _ in self._versions.rows()}:
                self._versions.remove_all(key)

    def _check_times(self, batch: Batch) -> None:
        if int(batch.timestamps.min()) == MIN_TIMESTAMP:
            what = "a record has no timestamp, but the temporal join goes by event time"
            remedy = 'call assign_timestamps_and_watermarks(...) on both streams, or join as_of="processing"'
            raise JobError(describe(what, f"operator {self._ctx.name!r}", remedy))

    def _report_late(self, batch: Batch, ports: Any, late: Any, out: Output) -> None:
        """Count what came too late, and show it; late versions are taken nevertheless."""
        for port, tag in enumerate(self._join.late):
            lost = batch.take(np.flatnonzero((ports == port) & late))
            if len(lost):
                self._ctx.count_late_batch(lost)
                if tag is not None:
                    out.emit(lost, tag)

    def _hold(self, batch: Batch) -> None:
        """Let records wait for the watermark."""
        if len(batch):
            self._held.add(held_pairs(batch, self._ctx.backend.max_parallelism))

    def _take_versions(self, batch: Batch) -> None:
        """Take in versions that become valid when the watermark reaches them; of equal times the last one counts."""
        assert batch.keys is not None
        for key, value, time in zip(batch.keys.rows(), batch.values.rows(), batch.timestamps.tolist(), strict=True):
            self._versions.put_in(key, time, self.version_of(value))
            self._pending.register(key, None, time)

    def _take_late_versions(self, batch: Batch, run: Run, out: Output) -> None:
        """Take in versions whose time has passed, each after what was decided upon without it."""
        assert batch.keys is not None and batch.watermarks is not None
        columns = zip(
            batch.keys.rows(), batch.values.rows(), batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True
        )
        for key, value, time, watermark in columns:
            self._advance(watermark, run, out)
            held = self._versions.data[key] or {}
            valid = max((each for each in held if each <= watermark), default=MIN_TIMESTAMP)
            if time >= valid:
                self._versions.put_in(key, time, self.version_of(value))
                self._drop_before(key, time)

    def _advance(self, until: int, run: Run, out: Output) -> None:
        """Decide upon the records that the watermark has passed, then drop the versions that nothing can meet now."""
        due = self._held.take_until(until)
        if due is not None:
            due = due.take(np.lexsort((due.places, due.times)))
            for tag, kept, rows in self._joined(due):
                if rows:
                    batch = _emission(due.take(kept), arrival_numbers(due)[kept], rows, run)
                    if tag == MAIN:
                        emit_tagged(batch, out)
                    else:
                        out.emit(batch, tag)
        while (passed := self._pending.pop_due(until)) is not None:
            self._drop_before(passed[0], passed[2])

    def _joined(self, due: Held) -> Iterator[tuple[str, I64, list[Any]]]:
        """Yield which of the records have a result, and the results; and those without, if there is an output."""
        combine, is_inner, unmatched = self._join.combine, self._join.how == "inner", self._join.unmatched[0]
        sorted_times: dict[Any, list[int]] = {}
        kept: list[int] = []
        rows: list[Any] = []
        alone: list[int] = []
        left: list[Any] = []
        for index, (time, (key, value)) in enumerate(
            zip(due.times.tolist(), decode(due.values, due.kind), strict=True)
        ):
            version = self._valid_at(key, time, sorted_times)
            if version is not None or not is_inner:
                kept.append(index)
                rows.append(combine(value, version))
            elif unmatched is not None:
                alone.append(index)
                left.append(value)
        yield MAIN, np.array(kept, np.int64), rows
        if unmatched is not None:
            yield unmatched, np.array(alone, np.int64), left

    def _valid_at(self, key: Any, time: int, sorted_times: dict[Any, list[int]]) -> Any:
        held: dict[int, Any] | None = self._versions.data[key]
        if held is None:
            return None
        times = sorted_times.get(key)
        if times is None:
            times = sorted_times[key] = sorted(held)
        before = bisect_right(times, time)
        return held[times[before - 1]] if before else None

    def _drop_before(self, key: Any, time: int) -> None:
        """Drop the versions before the one that is valid now, and that one too if it is only an end."""
        held: dict[int, Any] | None = self._versions.data[key]
        if held is None:
            return
        last = held.get(time)
        for each in [each for each in held if each < time or (each == time and last is None)]:
            self._versions.remove_in(key, each)


def _emission(due: Held, numbers: Any, rows: list[Any], run: Run) -> Batch:
    """Return the results of records whose time has come, each with the stamp of the advance that reached it."""
    step = np.searchsorted(run.watermarks, due.times)
    stamp: Stamp = [column[step] for column in run.stamp]
    stamp += [due.times, due.places, numbers]
    return Batch(Values(rows), due.times, stamp, run.before(step))


class LatestVersionOperator(_TemporalOperator):
    """Joins with the newest version at hand, when the record comes; rows `key -> version`."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._versions = ctx.backend.table(f"{ctx.uid}/#versions", lambda: Table("versions"))

    def process_run(self, run: Run, out: Output) -> None:
        batch = run.batch
        if len(batch):
            assert run.inputs is not None and batch.keys is not None
            emissions = Emissions()
            combine, is_inner, versions = self._join.combine, self._join.how == "inner", self._versions
            unmatched = None if self._join.unmatched[0] is None else OutputTag(self._join.unmatched[0])
            for port, key, value in zip(run.inputs.tolist(), batch.keys.rows(), batch.values.rows(), strict=True):
                if port:
                    versions.put(key, self.version_of(value))
                else:
                    version = versions.data[key]
                    if version is not None or not is_inner:
                        emissions.rows.append(combine(value, version))
                    elif unmatched is not None:
                        emissions.rows.append((unmatched, value))
                emissions.ends.append(len(emissions.rows))
            if emissions.rows:
                emit_tagged(emissions.batch(run), out)
        if run.end == MAX_TIMESTAMP:
            for key in [key for key, _ in self._versions.rows()]:
                self._versions.delete(key)
