"""Windows on a keyed stream: put records into windows, ask the trigger, give results, clean up.

The operator knows neither which windows there are nor when they fire nor what they hold: assigner, trigger and contents
say so. It owns what lies between: lateness, timers, state by `(key, window)`, merging. Invariant: when the last window
of a key is gone, nothing of it is left, neither state nor timers.

Flink: runtime.operators.windowing.WindowOperator. Differs from Flink: a record that is late in all its windows is
counted even if it also goes to the side output, and so is one that belongs to no window; a window whose result is None
gives no result but is purged and cleaned up all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flintstream.errors import DefinitionError, InvalidArgumentError, JobError, TypeMismatchError, describe
from flintstream.model.context import TimeDomain
from flintstream.model.functions import AggregateFunction, Function, ReduceFunction
from flintstream.model.functions_window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flintstream.model.panes import Panes
from flintstream.model.queryable import Queryable
from flintstream.model.tags import OutputTag
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.triggers import Trigger, TriggerResult
from flintstream.model.window_assigner import MergingWindowAssigner, WindowAssigner
from flintstream.ops.batch import FIRST, NO_TIMESTAMP
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.keyed import TimedOperator, TimerMoment
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.queryable import mark_table
from flintstream.ops.run import Emissions, Run, Span
from flintstream.ops.tagging import emit_tagged
from flintstream.ops.window_contents import Contents, TimedAggregate, aggregated, collected, merge_into, reduced
from flintstream.ops.window_context import AssignerContext, ProcessContext, TriggerContext
from flintstream.ops.window_merge import MergingWindows
from flintstream.ops.window_panes import Cause, PaneCounter
from flintstream.state.map_table import MapTable
from flintstream.state.table import Table

WindowCall = Callable[[Any, Any, list[Any]], Iterable[Any] | None]
"""A user's window function as called with (key, window, elements)."""


class WindowOperator(TimedOperator):
    """Any assigner with any trigger.

    `reduce` or `aggregate` make the contents one value; without them a window keeps its records. `apply` turns what a
    window shows into results; without it, that is the result. `panes` is set before `open`; None: they are not counted.
    """

    panes: Panes | None = None
    queryable: Queryable | None = None
    _kept_as = ""

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any] | None = None,
        allowed_lateness_ms: int = 0,
        late_tag: str | None = None,
        reduce: ReduceFunction | None = None,
        aggregate: AggregateFunction | None = None,
        apply: Function | None = None,
    ) -> None:
        self._assigner = assigner
        self._trigger: Trigger[Any, Any] = trigger or assigner.get_default_trigger(None)
        self._lateness = allowed_lateness_ms
        self._late_tag = None if late_tag is None else OutputTag(late_tag)
        self._functions = [function for function in (reduce, aggregate, apply) if function is not None]
        self._reduce, self._aggregate, self._apply = reduce, aggregate, apply
        self._event_time = assigner.is_event_time()
        self._is_timed = isinstance(aggregate, TimedAggregate)
        self._check()

    def _check(self) -> None:
        if not self._functions or (self._reduce is not None and self._aggregate is not None):
            what = f"a window over {self._assigner} has {len(self._functions)} functions"
            remedy = "give it one of reduce, aggregate and apply, or reduce or aggregate together with apply"
            raise DefinitionError(describe(what, remedy=remedy))
        if self._lateness < 0:
            what = f"a window over {self._assigner} allows a lateness of {self._lateness} ms"
            raise InvalidArgumentError(describe(what, remedy="give 0 or more"))
        check_merging(self._assigner, self._trigger)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        ctx.moment = TimerMoment(self.timers)
        runtime = OperatorRuntimeContext(ctx, keyed=True)
        for function in self._functions:
            function.open(runtime)
        assigner, merging = self._assigner, isinstance(self._assigner, MergingWindowAssigner)
        self._contents = self._contents_of_window()
        self._table = ctx.backend.table(f"{ctx.uid}/#window-contents", lambda: Table("window-contents", parts=2))
        self._assigner_ctx = AssignerContext(self.timers, runtime)
        self._trigger_ctx = TriggerContext(ctx, self.timers, self._is_cleanup)
        self._counter = None if self.panes is None else PaneCounter(ctx, self.panes)
        self._process_ctx = ProcessContext(ctx, self.timers, runtime, merging)
        self._call = None if self._apply is None else window_call(self._apply, self._process_ctx)
        self._clear: Callable[[Any], None] | None = None
        if isinstance(self._apply, ProcessWindowFunction | ProcessAllWindowFunction):
            self._clear = self._apply.clear
        self._merging: MergingWindows | None = None
        if isinstance(assigner, MergingWindowAssigner):
            table = ctx.backend.table(f"{ctx.uid}/#merging-windows", lambda: MapTable("merging-windows"))
            self._merging = MergingWindows(assigner, table, self._on_merge)
        if self.queryable is not None:
            self._mark(ctx, self.queryable)

    def _mark(self, ctx: OperatorContext, mark: Queryable) -> None:
        """Let others look into open windows; of merging ones, by what tells where their contents are."""
        kind = "value" if self._reduce is not None else "list" if self._aggregate is None else "aggregating"
        more: dict[str, Any] = {"results": mark.results} if mark.results else {}
        if self._merging is not None:
            more["merging"] = f"{ctx.uid}/#merging-windows"
        mark_table(ctx, mark, f"{ctx.uid}/#window-contents", self._kept_as or kind, windowed=True, **more)

    def _contents_of_window(self) -> Contents:
        return contents_of(self._reduce, self._aggregate)

    def close(self) -> None:
        for function in self._functions:
            function.close()

    def process_run(self, run: Run, out: Output) -> None:
        emissions = Emissions()
        self.timers.watermark, self.timers.now = run.start, run.now
        self._take_all(run, emissions)
        self.fire_until(run.end, run, emissions)
        self._finish_run()
        if emissions.rows:
            emit_tagged(emissions.batch(run), out)

    def _take_all(self, run: Run, emissions: Emissions) -> None:
        batch, backend, timers = run.batch, self.backend, self.timers
        assert batch.keys is not None and batch.watermarks is not None
        columns = zip(
            batch.keys.rows(), batch.values.rows(), batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True
        )
        for index, (key, value, timestamp, watermark) in enumerate(columns):
            if watermark > timers.watermark:
                self.fire_until(watermark, run, emissions)
                timers.watermark = watermark
            backend.key = key
            self._take(index, key, value, timestamp, emissions)

    def _finish_run(self) -> None:
        """Called at the end of a run, when its last timer has fired."""

    def _take(self, index: int, key: Any, value: Any, timestamp: int, emissions: Emissions) -> None:
        """Put one record into its windows."""
        merging = self._merging
        windows = self._assigner.assign_windows(value, timestamp, self._assigner_ctx)
        taken = False
        for assigned in windows:
            window = state_window = assigned
            if merging is not None:
                window = merging.add(key, assigned)
            if self._is_window_late(window):
                if merging is not None:
                    merging.retire(key, window)
                continue
            if merging is not None:
                state_window = merging.state_window(key, window)
            taken = True
            entry = (key, state_window)
            self._put(entry, value, timestamp)
            self._trigger_ctx.window = window
            result = self._trigger.on_element(value, timestamp, window, self._trigger_ctx)
            if result is not TriggerResult.CONTINUE:
                start = len(emissions.rows)
                self._obey(result, key, window, entry, emissions.rows)
                end_record_span(emissions, start, index, window.max_timestamp())
            self._register_cleanup(key, window)
        if not taken and (windows or self._is_element_late(timestamp)):
            self._take_late(index, value, timestamp, emissions, windows)
        elif not taken:
            self.ctx.count("dropped")

    def _put(self, entry: tuple[Any, Any], value: Any, timestamp: int) -> None:
        """Add a record to the contents of a window."""
        held = self._table.data[entry]
        contents = self._contents
        if self._is_timed:
            value = (value, timestamp)
        self._table.put(entry, contents.first(value) if held is None else contents.add(held, value))

    def _take_late(self, index: int, value: Any, timestamp: int, emissions: Emissions, windows: Iterable[Any]) -> None:
        """Count a record that no window took because it came too late, and send it to the side output."""
        self.ctx.count_late(self.backend.key, value, timestamp, self.timers.watermark, windows)
        if self._late_tag is not None:
            emissions.rows.append((self._late_tag, value))
            end_record_span(emissions, len(emissions.rows) - 1, index, timestamp)

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        window = state_window = namespace
        if self._merging is not None:
            state_window = self._merging.state_window(key, window)
            if state_window is None:
                return NO_TIMESTAMP  # a timer that a trigger left behind when its window merged or went away
        self._trigger_ctx.window = window
        is_event = domain is TimeDomain.EVENT_TIME
        react = self._trigger.on_event_time if is_event else self._trigger.on_processing_time
        result = react(time, window, self._trigger_ctx)
        entry = (key, state_window)
        leaves = is_event == self._event_time and time == self._cleanup_time(window)
        if result is not TriggerResult.CONTINUE:
            cause = None
            if self._counter is not None:
                own = is_event == self._event_time
                cause = Cause(time if own else self._reached(), own, leaves)
            self._obey(result, key, window, entry, rows, cause)
        if leaves:
            self._clear_all(key, window, entry)
        return window.max_timestamp()

    def _reached(self) -> int:
        """Return how far the clock of the windows is: its timers up to there have fired."""
        return self.timers.watermark if self._event_time else self.timers.now - 1

    def _obey(
        self,
        result: TriggerResult,
        key: Any,
        window: Any,
        entry: tuple[Any, Any],
        rows: list[Any],
        cause: Cause | None = None,
    ) -> None:
        """Do what the trigger says, at a record unless there is another cause."""
        if self._counter is not None:
            result = self._give_pane(self._counter, result, key, window, entry, rows, cause or Cause(self._reached()))
        elif result.is_fire():
            self._show(key, window, entry, rows)
        if result.is_purge():
            self._forget(entry)

    def _give_pane(
        self,
        counter: PaneCounter,
        result: TriggerResult,
        key: Any,
        window: Any,
        entry: tuple[Any, Any],
        rows: list[Any],
        cause: Cause,
    ) -> TriggerResult:
        """Append a window's next pane to `rows`, if it holds anything; return what is left to do."""
        fires = result.is_fire() and self._table.data[entry] is not None
        if fires:
            info = self._process_ctx.pane_info = counter.next(key, window, cause)
            start = len(rows)
            self._show(key, window, entry, rows)
            counter.give(key, window, info, rows, start)
        if fires and counter.discards:
            result = TriggerResult.PURGE
        if result.is_purge():
            counter.purge(key, window, is_endless=self._cleanup_time(window) == MAX_TIMESTAMP)
        return result

    def _show(self, key: Any, window: Any, entry: tuple[Any, Any], rows: list[Any]) -> None:
        """Append the results of a window to `rows`; a window that holds nothing has none."""
        held = self._table.data[entry]
        if held is not None:
            self._emit(key, window, self._contents.result(held), rows)

    def _emit(self, key: Any, window: Any, elements: list[Any] | None, rows: list[Any]) -> None:
        if elements is None:
            return
        results = elements if self._call is None else self._call(key, window, elements)
        if results is not None:
            rows.extend(results)

    def _forget(self, entry: tuple[Any, Any]) -> None:
        if self._table.data[entry] is not None:
            self._table.delete(entry)

    def _clear_all(self, key: Any, window: Any, entry: tuple[Any, Any]) -> None:
        """Remove all traces of a window."""
        self._forget(entry)
        self._trigger_ctx.window = window
        self._trigger.clear(window, self._trigger_ctx)
        if self._clear is not None:
            self._process_ctx.at(window)
            self._clear(self._process_ctx)
        if self._counter is not None:
            self._counter.clear(key, window)
        self._unregister_cleanup(key, window)
        if self._merging is not None:
            self._merging.retire(key, window)

    def _on_merge(self, result: Any, merged: list[Any], target: Any, sources: list[Any]) -> None:
        """Carry timers, the trigger's state and contents over to the window that others became."""
        limit = self.timers.watermark if self._event_time else self.timers.now
        if self._cleanup_time(result) <= limit:
            what = f"windows merged into {result}, which is over"
            where = f"operator {self.ctx.name!r}, whose time is {limit}"
            raise JobError(describe(what, where, "let merge_windows return a window that covers its parts"))
        key, ctx = self.backend.key, self._trigger_ctx
        ctx.window, ctx.merged = result, merged
        self._trigger.on_merge(result, ctx)
        ctx.clear_merged(self._trigger)
        for window in merged:
            self._unregister_cleanup(key, window)
        if self._counter is not None:
            self._counter.merge(key, result, merged, result.max_timestamp() <= self._reached())
        merge_into(self._table, key, target, sources, self._contents.merge)

    def _cleanup_time(self, window: Any) -> int:
        """Return when a window goes away; MAX_TIMESTAMP: never, unless event time ends."""
        lateness = self._lateness if self._event_time else 0
        return min(window.max_timestamp() + lateness, MAX_TIMESTAMP)

    def _is_cleanup(self, window: Any, time: int, event_time: bool) -> bool:
        """Say whether a timer is that of a window's end."""
        return event_time == self._event_time and time == self._cleanup_time(window) != MAX_TIMESTAMP

    def _register_cleanup(self, key: Any, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_TIMESTAMP:
            (self.timers.event if self._event_time else self.timers.processing).register(key, window, time)

    def _unregister_cleanup(self, key: Any, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_TIMESTAMP:
            (self.timers.event if self._event_time else self.timers.processing).unregister(key, window, time)

    def _is_window_late(self, window: Any) -> bool:
        return self._event_time and self._cleanup_time(window) <= self.timers.watermark

    def _is_element_late(self, timestamp: int) -> bool:
        return self._event_time and timestamp + self._lateness <= self.timers.watermark


def check_merging(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]) -> None:
    """Raise if windows merge and their trigger does not."""
    if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
        what = f"{type(trigger).__name__} cannot merge, but windows of {type(assigner).__name__} do"
        raise DefinitionError(describe(what, remedy="use a trigger whose can_merge() is true"))


def contents_of(reduce: ReduceFunction | None, aggregate: AggregateFunction | None) -> Contents:
    """Return what a window with these functions holds."""
    if reduce is not None:
        return reduced(reduce)
    return collected() if aggregate is None else aggregated(aggregate)


def window_call(function: Function, ctx: ProcessContext) -> WindowCall:
    """Return a window function of any of the four kinds as one callable."""
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, AllWindowFunction):
        apply_to_all = function.apply
        return lambda key, window, elements: apply_to_all(window, elements)
    if isinstance(function, ProcessWindowFunction):
        process = function.process

        def call(key: Any, window: Any, elements: list[Any]) -> Iterable[Any] | None:
            ctx.at(window)
            return process(key, ctx, elements)

        return call
    if isinstance(function, ProcessAllWindowFunction):
        process_all = function.process

        def call_all(key: Any, window: Any, elements: list[Any]) -> Iterable[Any] | None:
            ctx.at(window)
            return process_all(ctx, elements)

        return call_all
    what = f"{function!r} is no window function"
    remedy = "pass a WindowFunction, an AllWindowFunction, a ProcessWindowFunction or a ProcessAllWindowFunction"
    raise TypeMismatchError(describe(what, remedy=remedy))


def end_record_span(emissions: Emissions, start: int, index: int, timestamp: int) -> None:
    """Note that record `index` caused the rows from `start` on; it may fire several windows, one after another."""
    stop, last = len(emissions.rows), emissions.spans[-1] if emissions.spans else None
    if stop > start:
        number = last.number + last.stop - last.start if last is not None and last.record == index else 0
        emissions.spans.append(Span(start, stop, index, -1, FIRST, 0, timestamp, number))
