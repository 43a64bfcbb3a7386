"""Puts records into the order of event time: each waits until the watermark has passed it, and none any longer.

Records wait as columns, and a run is worked through at once: since a record that is on time is later than the watermark
before it, the first advance that reaches its timestamp comes after it, wherever the run was cut. Then records leave by
(timestamp, key, order of arrival), which depends neither on the parallelism nor on a restart.

Flink: RowTimeSortOperator of its SQL; its DataStreams have none. As there, a record that is not later than the
watermark is late.
"""

from __future__ import annotations

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.batch import I64, Batch, Stamp, Values
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.waiting import held_values, on_time
from flintstream.state.held import Held, HeldTable


class SortOperator(Operator):
    """Sorts the records of a partition; those that come too late go to a side output or are dropped."""

    def __init__(self, late_tag: str | None = None) -> None:
        self._late_tag = late_tag

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._held = ctx.backend.table(f"{ctx.uid}/waiting", HeldTable)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a sort is always behind an exchange"
        raise AssertionError(msg)

    def process_run(self, run: Run, out: Output) -> None:
        if len(run.batch):
            self._hold(run.batch, out)
        due = self._held.take_until(run.end)
        if due is not None:
            out.emit(_emission(due, run))

    def _hold(self, batch: Batch, out: Output) -> None:
        assert batch.watermarks is not None and batch.keys is not None
        if int(batch.timestamps.min()) == MIN_TIMESTAMP:
            what = "a record has no timestamp, but sort_by_event_time() needs one"
            raise JobError(describe(what, remedy="call assign_timestamps_and_watermarks(...) before it"))
        batch = on_time(batch, self._ctx, self._late_tag, out)
        if len(batch):
            self._held.add(held_values(batch, self._ctx.backend.max_parallelism))


def _emission(due: Held, run: Run) -> Batch:
    """Return records whose time has come, each with the stamp of the advance that reached it."""
    # The order of arrival decides where time and key are equal, since the sort is stable.
    due = due.take(np.lexsort((due.places, due.times)))
    step = np.searchsorted(run.watermarks, due.times)
    stamp: Stamp = [column[step] for column in run.stamp]
    stamp += [due.times, due.places, arrival_numbers(due)]
    return Batch(Values(None, due.values, due.kind), due.times, stamp, run.before(step))


def arrival_numbers(due: Held) -> I64:
    """Count from 0 within records of equal time and key."""
    count = len(due.times)
    begins = np.ones(count, bool)
    begins[1:] = (due.times[1:] != due.times[:-1]) | (due.places[1:] != due.places[:-1])
    firsts = np.flatnonzero(begins)
    return np.arange(count) - np.repeat(firsts, np.diff(np.append(firsts, count)))
