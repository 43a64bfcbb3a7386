"""The operator that finds patterns: brings records into the order of time and gives them to the matcher, key by key.

In event time a record waits as a column until the watermark has passed it; a stretch of the input is then worked
through in one loop by (time, key), together with the moments at which the time of partial matches is over. A key has
state only while it has partial matches, so a record that begins no match and meets none costs a look-up and one call.

Flink: CepOperator.
Differs from Flink: a partial match ends at the very moment that its time is over, not at the next watermark or record;
results of one advance of the watermark come in the order of time, for all keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import JobError, describe
from flintstream.model.cep import Pattern
from flintstream.model.cep_functions import NearMiss, PatternProcessFunction, TimedOutPartialMatchHandler
from flintstream.model.context import TimeDomain
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import NO_TIMESTAMP, Batch
from flintstream.ops.cep_match import Matcher, Partial, Partials, matched
from flintstream.ops.cep_nodes import compile_pattern
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.keyed import PIECE, TimedOperator
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Emissions, Run
from flintstream.ops.tagging import emit_tagged
from flintstream.ops.window import end_record_span
from flintstream.state.codec import decode
from flintstream.state.held import Held, HeldTable
from flintstream.state.keygroups import hash_column, key_groups
from flintstream.state.table import Table


class _MatchContext(PatternProcessFunction.Context):
    """Stands at one match."""

    time = 0
    now = 0

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self.now


class PatternOperator(TimedOperator):
    """Finds a pattern in the records of each key, by event time or by the clock."""

    def __init__(
        self,
        pattern: Pattern,
        function: PatternProcessFunction,
        by_clock: bool = False,
        late_tag: str | None = None,
        miss_tag: str | None = None,
    ) -> None:
        self._pattern, self._function = pattern, function
        self._by_clock, self._late_tag = by_clock, late_tag
        self._miss_tag = None if miss_tag is None else OutputTag(miss_tag)
        self._misses: list[NearMiss] = []

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        runtime = OperatorRuntimeContext(ctx, keyed=True)
        automaton = compile_pattern(self._pattern)
        self._opened = [each for condition in automaton.conditions for each in condition.functions]
        self._opened.append(self._function)
        for function in self._opened:
            function.open(runtime)
        on_miss = None if self._miss_tag is None else self._misses.append
        self._matcher = Matcher(automaton, self._pattern.skip_strategy, on_miss)
        self._begin = self._matcher.begin
        self._held = ctx.backend.table(f"{ctx.uid}/#waiting", HeldTable)
        self._table = ctx.backend.table(f"{ctx.uid}/#partial-matches", lambda: Table("partial-matches"))
        self._timeouts = self.timers.processing if self._by_clock else self.timers.event
        self._match_ctx = _MatchContext()
        self._on_timeout: Callable[..., Any] | None = None
        if isinstance(self._function, TimedOutPartialMatchHandler):
            self._on_timeout = self._function.process_timed_out_match

    def close(self) -> None:
        for function in self._opened:
            function.close()

    def process_run(self, run: Run, out: Output) -> None:
        self.timers.watermark, self.timers.now = run.start, run.now
        self._match_ctx.now = self._matcher.context.now = run.now
        emissions = Emissions()
        if self._by_clock:
            self._take_all(run, emissions)
        else:
            if len(run.batch):
                self._hold(run.batch, out)
            due = self._held.take_until(run.end)
            if due is not None:
                due = due.take(np.lexsort((due.places, due.times)))
                for start in range(0, len(due.times), PIECE):
                    self._play(due.slice(start, start + PIECE), run, emissions)
            self._time_out(run.end, MAX_TIMESTAMP, run, emissions)
        if emissions.rows:
            emit_tagged(emissions.batch(run), out)

    def on_processing_time(self, now: int, run: Run, out: Output) -> None:
        self._match_ctx.now = self._matcher.context.now = now
        super().on_processing_time(now, run, out)

    def _hold(self, batch: Batch, out: Output) -> None:
        """Let records wait for the watermark; those that come too late are counted, and go to their side output."""
        assert batch.watermarks is not None and batch.keys is not None
        if int(batch.timestamps.min()) == MIN_TIMESTAMP:
            what = "a record has no timestamp, but the pattern goes by event time"
            remedy = "call assign_timestamps_and_watermarks(...) before it, or in_processing_time()"
            raise JobError(describe(what, f"operator {self.ctx.name!r}", remedy))
        late = batch.timestamps <= batch.watermarks
        if late.any():
            lost = batch.take(np.flatnonzero(late))
            self.ctx.count_late_batch(lost)
            if self._late_tag is not None:
                out.emit(lost, self._late_tag)
            batch = batch.take(np.flatnonzero(~late))
        if len(batch):
            assert batch.keys is not None
            (keys, key_kind), (values, kind) = batch.keys.column(), batch.values.column()
            hashes = hash_column(keys, key_kind)
            places = (hashes >> np.uint64(1)).astype(np.int64)
            groups = key_groups(hashes, self.ctx.backend.max_parallelism)
            pairs = pa.StructArray.from_arrays([keys, values], names=["f0", "f1"])
            self._held.add(Held(batch.timestamps, places, groups, pairs, ["tuple", [key_kind, kind]]))

    def _play(self, due: Held, run: Run, emissions: Emissions) -> None:
        """The hot loop: one comparison, one look-up and one call for a record that has nothing to do with a match."""
        data, timers, begin, rows = self._table.data, self._timeouts, self._begin, emissions.rows
        steps = np.searchsorted(run.watermarks, due.times).tolist()
        records = zip(due.times.tolist(), due.places.tolist(), steps, decode(due.values, due.kind), strict=True)
        for time, place, step, (key, value) in records:
            if timers.due <= time:
                self._time_out(time, place, run, emissions)
            partials = data[key]
            if partials is None and begin is not None and not begin(value):
                continue
            start = len(rows)
            self._take(key, partials, value, time, rows)
            if len(rows) > start:
                emissions.end_timer(start, step, time, place, time)

    def _time_out(self, time: int, place: int, run: Run, emissions: Emissions) -> None:
        """End the partial matches whose time is over before that of a key at this place."""
        timers = self._timeouts
        while timers.due <= time and timers.first() <= (time, place):
            due = timers.pop_due(time)
            assert due is not None
            self._fire_one(due, TimeDomain.EVENT_TIME, bisect_left(run.watermarks, due[2]), emissions)

    def _take_all(self, run: Run, emissions: Emissions) -> None:
        """Give records to the matcher as they come: there is no other order by the clock."""
        batch, data, begin, now = run.batch, self._table.data, self._begin, run.now
        assert batch.keys is not None
        for index, (key, value) in enumerate(zip(batch.keys.rows(), batch.values.rows(), strict=True)):
            start = len(emissions.rows)
            partials: Partials | None = data[key]
            if partials is not None and partials.timer is not None and partials.timer <= now:
                self._timeouts.unregister(key, None, partials.timer)
                self._end(key, partials, now, emissions.rows)
                partials = data[key]
            if partials is not None or begin is None or begin(value):
                self._take(key, partials, value, now, emissions.rows)
            end_record_span(emissions, start, index, NO_TIMESTAMP)

    def _take(self, key: Any, partials: Partials | None, value: Any, time: int, rows: list[Any]) -> None:
        self.backend.key = key
        is_new = partials is None
        if partials is None:
            partials = Partials()
        matches = self._matcher.take(partials, value, time)
        if matches or self._misses:
            self._give(matches, time, rows)
        if not is_new or partials.runs or partials.done:
            self._keep(key, partials)

    def _keep(self, key: Any, partials: Partials) -> None:
        """Put the partial matches of a key into state, or remove it if there are none, and see to its timer."""
        timer = partials.timer
        if not partials.runs and not partials.done:
            if timer is not None:
                self._timeouts.unregister(key, None, timer)
            self._table.delete(key)
            return
        expiry = self._matcher.expiry(partials)
        # A timer that comes too early finds nothing, and sets the next one.
        if expiry is not None and (timer is None or expiry < timer):
            if timer is not None:
                self._timeouts.unregister(key, None, timer)
            partials.timer = min(expiry, MAX_TIMESTAMP)
            self._timeouts.register(key, None, partials.timer)
        self._table.put(key, partials)

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        partials: Partials | None = self._table.data[key]
        if partials is not None:
            self._end(key, partials, time, rows)
        return NO_TIMESTAMP if self._by_clock else time

    def _end(self, key: Any, partials: Partials, time: int, rows: list[Any]) -> None:
        """End what is over at `time`; the key's timer is gone."""
        self.backend.key = key
        partials.timer = None
        matches, over = self._matcher.expire(partials, time)
        self._give(matches, time, rows)
        if self._on_timeout is not None:
            for partial in over:
                result = self._on_timeout(matched(partial.link), self._match_ctx)
                if result is not None:
                    rows.extend(result)
        self._keep(key, partials)

    def _give(self, matches: list[Partial], time: int, rows: list[Any]) -> None:
        """Append what the function makes of matches to `rows`, and the partial matches that came to nothing."""
        self._match_ctx.time = time
        for match in matches:
            result = self._function.process_match(matched(match.link), self._match_ctx)
            if result is not None:
                rows.extend(result)
        if self._misses:
            rows.extend((self._miss_tag, miss) for miss in self._misses)
            self._misses.clear()
