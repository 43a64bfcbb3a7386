"""The operator that finds patterns: brings records into the order of time and gives them to the matcher, key by key.

In event time a record waits as a column until the watermark has passed it; a stretch of the input is then worked
through in one loop by (time, key), together with the moments at which the time of partial matches is over. Where
nothing comes of such a moment, partial matches go when their key's next record comes, or all at once after a piece of
the input. A key has state only while it has partial matches, so a record that begins no match and meets none costs a
look-up and one call.

Flink: CepOperator.
Differs from Flink: a partial match ends at the very moment that its time is over, not at the next watermark or record;
results of one advance of the watermark come in the order of time, for all keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import compress, count, repeat
from typing import Any

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.cep import Pattern
from flintstream.model.cep_functions import NearMiss, PatternProcessFunction, TimedOutPartialMatchHandler
from flintstream.model.cep_skip import SkipKind
from flintstream.model.context import TimeDomain
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import I64, NO_TIMESTAMP, Batch
from flintstream.ops.cep_choices import Choice
from flintstream.ops.cep_judge import Flags, Judge, Verdict
from flintstream.ops.cep_match import Known, Matcher, matched
from flintstream.ops.cep_nodes import Automaton, compile_pattern
from flintstream.ops.cep_state import Partial, Partials
from flintstream.ops.cep_table import PartialsTable
from flintstream.ops.cep_timers import ExpiryTimers
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.keyed import PIECE, TimedOperator
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Emissions, Run
from flintstream.ops.tagging import emit_tagged
from flintstream.ops.waiting import held_pairs, on_time
from flintstream.ops.window import end_record_span
from flintstream.state.codec import decode
from flintstream.state.held import Held, HeldTable

_Record = tuple[int, int, Any, Any, Known | None]
"""Index in its piece, time, key, value, and what is known of it."""


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
        automaton = compile_pattern(self._pattern)
        self._on_timeout: Callable[..., Any] | None = None
        if isinstance(self._function, TimedOutPartialMatchHandler):
            self._on_timeout = self._function.process_timed_out_match
        self._is_silent = self._on_timeout is None and self._miss_tag is None
        self._expiries = self._sweeping(automaton, ctx)
        super().open(ctx)
        runtime = OperatorRuntimeContext(ctx, keyed=True)
        self._opened = [each for condition in automaton.conditions for each in condition.functions]
        self._opened.append(self._function)
        for function in self._opened:
            function.open(runtime)
        on_miss = None if self._miss_tag is None else self._misses.append
        self._matcher = Matcher(automaton, self._pattern.skip_strategy, on_miss)
        self._judge = Judge(automaton)
        self._unknown = Verdict(repeat(None), None, self._matcher.tests)
        self._held = ctx.backend.table(f"{ctx.uid}/#waiting", HeldTable)
        self._table = ctx.backend.table(f"{ctx.uid}/#partial-matches", PartialsTable)
        self._timeouts = self.timers.processing if self._by_clock else self.timers.event
        self._match_ctx = _MatchContext()

    def _sweeping(self, automaton: Automaton, ctx: OperatorContext) -> ExpiryTimers | None:
        """Return the timers of a pattern that goes by event time and of which nothing comes when time is over."""
        window = automaton.window_ms
        is_heard = not self._is_silent or any(node.is_pending for node in automaton.nodes.values())
        if window is None or self._by_clock or is_heard or automaton.has_gaps:
            return None
        if self._pattern.skip_strategy.kind is not SkipKind.NO_SKIP:
            return None  # a match may wait for an earlier partial one to be over
        return ctx.backend.table(f"{ctx.uid}/#event-timers", lambda: ExpiryTimers("event", window))

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
            if self._expiries is None:
                self._time_out(run.end, MAX_TIMESTAMP, run, emissions)
            else:
                self._sweep(self._expiries, run.end)
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
        batch = on_time(batch, self.ctx, self._late_tag, out)
        if len(batch):
            self._held.add(held_pairs(batch, self.ctx.backend.max_parallelism))

    def _play(self, due: Held, run: Run, emissions: Emissions) -> None:
        """Give a piece of the records that are due to the matcher."""
        keys = decode(due.values.field(0), due.kind[1][0])
        verdict = self._judge.judge(due.values.field(1), due.kind[1][1])
        known: Iterable[Known | None] = verdict.known
        if verdict.begins is not None:
            chosen = self._touched(keys, verdict.begins, verdict.heard)
            due, keys = due.take(chosen), list(map(keys.__getitem__, chosen.tolist()))
            known = list(map(list(known).__getitem__, chosen.tolist()))
        self._matcher.tests = verdict.tests
        values = decode(due.values.field(1), due.kind[1][1])
        self._loop(due, zip(count(), due.times.tolist(), keys, values, known, strict=False), verdict, run, emissions)
        if self._expiries is not None and len(due.times):
            self._sweep(self._expiries, int(due.times[-1]))

    def _loop(self, due: Held, records: Iterable[_Record], verdict: Verdict, run: Run, emissions: Emissions) -> None:
        """The hot loop: for a record that has nothing to do with a match a few comparisons, a look-up and its tests."""
        table, timers, rows, take, backend = self._table, self._timeouts, emissions.rows, self._take, self.backend
        begins, begin, begun = self._matcher.begins, self._begin(verdict), self._matcher.begun
        look, glance, tests = table.data.finder(), self._matcher.glance, verdict.tests
        drops, places, steps = self._expiries is not None, due.places, np.searchsorted(run.watermarks, due.times)
        for index, time, key, value, truth in records:
            if timers.due <= time:
                self._time_out(time, int(places[index]), run, emissions)
            backend.key = key
            partials: Any = look(key)
            if partials is not None:
                if type(partials) is tuple:
                    partials = table.of(key)
                if drops and (timer := partials.timer) is not None and timer <= time:
                    partials = self._drop(key, partials, time)
            if partials is None:
                if begin is not None:
                    if not begin(value):
                        continue
                    truth = begun if truth is None else truth
                elif not begins(value, time, truth):
                    continue
            elif truth is None:
                choice = partials.glance or glance(partials)
                while type(choice) is Choice:
                    holds = tests[choice.number](value)
                    answer = choice.yes if holds else choice.no
                    choice = choice.grow(bool(holds)) if answer is None else answer
                seen: Any = choice
                if seen.is_idle:
                    continue
                truth = seen.known
            start = len(rows)
            take(key, partials, value, time, truth, rows)
            if len(rows) > start:
                emissions.end_timer(start, int(steps[index]), time, int(places[index]), time)

    def _sweep(self, expiries: ExpiryTimers, time: int) -> None:
        """Drop the partial matches whose time is over; a record may have found them first, and have left the timer."""
        of = self._table.of
        for key in expiries.sweep(time):
            partials = of(key)
            if partials is not None and partials.timer is not None and partials.timer <= time:
                self._drop(key, partials, time)

    def _drop(self, key: Any, partials: Partials, time: int) -> Partials | None:
        """Drop the partial matches of a key whose time is over, where nothing comes of it; return what is left."""
        if not self._matcher.drop(partials, time):
            self._table.delete(key)
            return None
        partials.timer = None
        self._keep(key, partials)
        return partials

    def _touched(self, keys: list[Any], begins: Flags, heard: Flags | None) -> I64:
        """Return the indices of records that may begin a match, or whose keys have or may get one."""
        look, starting = self._table.data.finder(), set(compress(keys, begins.tolist()))
        heard_of = range(len(keys)) if heard is None else np.flatnonzero(heard).tolist()
        chosen = [index for index in heard_of if (key := keys[index]) in starting or look(key) is not None]
        return np.fromiter(chosen, np.int64, len(chosen))

    def _begin(self, verdict: Verdict) -> Callable[[Any], Any] | None:
        """Return the one test of records that tells whether they begin a match, None if it is not as simple as that."""
        begin = self._matcher.begin
        return None if begin is None or verdict.begins is not None else verdict.tests[begin]

    def _time_out(self, time: int, place: int, run: Run, emissions: Emissions) -> None:
        """End the partial matches whose time is over before that of a key at this place."""
        timers = self._timeouts
        while timers.due <= time and timers.first() <= (time, place):
            due = timers.pop_due(time)
            assert due is not None
            self._fire_one(due, TimeDomain.EVENT_TIME, bisect_left(run.watermarks, due[2]), emissions)

    def _take_all(self, run: Run, emissions: Emissions) -> None:
        """Give records to the matcher as they come: there is no other order by the clock."""
        batch, table, now = run.batch, self._table, run.now
        assert batch.keys is not None
        verdict = self._judge.judge(*batch.values.column()) if self._judge.has_columns else self._unknown
        self._matcher.tests, begins = verdict.tests, self._matcher.begins
        records = zip(batch.keys.rows(), batch.values.rows(), verdict.known, strict=False)
        for index, (key, value, truth) in enumerate(records):
            start = len(emissions.rows)
            self.backend.key = key
            partials = table.of(key)
            if partials is not None and partials.timer is not None and partials.timer <= now:
                self._timeouts.unregister(key, None, partials.timer)
                self._end(key, partials, now, emissions.rows)
                partials = table.of(key)
            if partials is not None or begins(value, now, truth):
                self._take(key, partials, value, now, truth, emissions.rows)
            end_record_span(emissions, start, index, NO_TIMESTAMP)

    def _take(
        self, key: Any, partials: Partials | None, value: Any, time: int, known: Known | None, rows: list[Any]
    ) -> None:
        is_new = partials is None
        if partials is None:
            partials = Partials()
        matches = self._matcher.take(partials, value, time, known)
        if matches or self._misses:
            self._give(matches or [], time, rows)
        if matches is not None and (not is_new or partials.runs or partials.done):
            self._keep(key, partials)

    def _keep(self, key: Any, partials: Partials) -> None:
        """Put the partial matches of a key into state, or remove it if there are none, and see to its timer."""
        timer = partials.timer
        if not partials.runs and not partials.done:
            if timer is not None:
                self._timeouts.unregister(key, None, timer)
            self._table.delete(key)
            return
        # A timer that comes too early finds nothing, and sets the next one.
        expiry = self._matcher.expiry(partials) if timer is None or self._matcher.has_gaps else None
        if expiry is not None and (timer is None or expiry < timer):
            if timer is not None:
                self._timeouts.unregister(key, None, timer)
            partials.timer = min(expiry, MAX_TIMESTAMP)
            self._timeouts.register(key, None, partials.timer)
        self._table.put(key, partials)

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        partials = self._table.of(key)
        if partials is not None:
            self._end(key, partials, time, rows)
        return NO_TIMESTAMP if self._by_clock else time

    def _end(self, key: Any, partials: Partials, time: int, rows: list[Any]) -> None:
        """End what is over at `time`; the key's timer is gone."""
        if self._is_silent and self._matcher.is_all_over(partials, time):
            self._table.delete(key)
            return
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
