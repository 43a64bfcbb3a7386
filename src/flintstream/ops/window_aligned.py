"""The short way for the common case: tumbling or sliding event-time windows with their default trigger.

Such windows are arithmetic, and all keys of one open and close together. So the contents that a run touches are held by
window, in a plain dict by key: a record costs one look-up, and the keyed state, whose entries are `(key, window)` pairs
and slower to reach, is read at the first record of a pair and written once at the end of the run. A pair that comes and
goes within a run never enters the state, and a window that ends gives all its keys at once.

Invariant: results, their order and the rows of the state are those of `WindowOperator`, of which this is a faster copy.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import count
from typing import Any

import numpy as np

from flintstream.model.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.model.functions import AggregateFunction, Function, ReduceFunction
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.triggers import EventTimeTrigger, Trigger
from flintstream.model.window_assigner import require_timestamp
from flintstream.model.windows import TimeWindow
from flintstream.ops.batch import I64
from flintstream.ops.operator import OperatorContext
from flintstream.ops.run import Emissions, Run, Span
from flintstream.ops.window import WindowOperator, end_record_span
from flintstream.ops.window_timers import TimerGroup, WindowTimers, in_timer_order
from flintstream.state.table import GONE, Table

_FAR = 1 << 62
"""Times beyond are computed one by one, since int64 arithmetic on them could wrap around."""


def is_aligned(assigner: Any, trigger: Trigger[Any, Any] | None) -> bool:
    """Say whether the short way serves these windows."""
    if trigger is not None and type(trigger) is not EventTimeTrigger:
        return False
    if type(assigner) is TumblingEventTimeWindows:
        return True
    return type(assigner) is SlidingEventTimeWindows and assigner.size_ms % assigner.slide_ms == 0


class Pane(dict[Any, Any]):
    """What one window holds, by key, as far as the current run has touched it.

    `firing` and `leaving` are the keys with a timer at the window's end and at its cleanup time; None: no such timers.
    An `odd` window may have contents that an earlier program left without them.
    """

    __slots__ = ("_firing", "_is_odd", "_leaving", "_loaded", "_table", "max_timestamp", "window")

    def __init__(
        self,
        window: TimeWindow,
        table: Table,
        firing: TimerGroup | None = None,
        leaving: TimerGroup | None = None,
        is_odd: bool = False,
    ) -> None:
        super().__init__()
        self.window = window
        self.max_timestamp = min(window.end - 1, MAX_TIMESTAMP)
        self._table = table
        self._firing = firing
        self._leaving = leaving
        self._is_odd = is_odd
        self._loaded: set[Any] = set()

    def __missing__(self, key: Any) -> Any:
        """Take over what the state holds; a window that is new to the key gets its timers."""
        leaving, firing = self._leaving, self._firing
        held = None
        # Who has contents has a timer, so keys that are new to an open window need not be looked for in the state.
        if self._is_odd or firing is None or leaving is None or key in firing or key in leaving:
            held = self._table.data[key, self.window]
            if held is not None:
                self._loaded.add(key)
        if firing is not None and key not in firing:
            firing.fresh[key] = None
        if leaving is not None and key not in leaving:
            leaving.fresh[key] = None
        return held

    def forget(self, key: Any) -> None:
        """Remove what the window holds for a key."""
        if self.pop(key, GONE) is GONE or key in self._loaded:
            self._table.delete((key, self.window))

    def write_back(self) -> None:
        """Hand all contents over to the state."""
        table, window = self._table, self.window
        for key, held in self.items():
            entry = (key, window)
            if held is None:
                table.delete(entry)
            else:
                table.data[entry] = held
                table.dirty.add(entry)


class AlignedWindowOperator(WindowOperator):
    """`WindowOperator` for the windows that `is_aligned` names."""

    def __init__(
        self,
        assigner: TumblingEventTimeWindows | SlidingEventTimeWindows,
        allowed_lateness_ms: int = 0,
        late_tag: str | None = None,
        reduce: ReduceFunction | None = None,
        aggregate: AggregateFunction | None = None,
        apply: Function | None = None,
    ) -> None:
        super().__init__(assigner, None, allowed_lateness_ms, late_tag, reduce, aggregate, apply)
        self._size, self._offset = assigner.size_ms, assigner.offset_ms
        self._slide = assigner.slide_ms if isinstance(assigner, SlidingEventTimeWindows) else assigner.size_ms

    def open(self, ctx: OperatorContext) -> None:
        # Before the timer service asks for a table of that name.
        self._due = ctx.backend.table(f"{ctx.uid}/#event-timers", lambda: WindowTimers("event"))
        super().open(ctx)
        self._panes: dict[int, Pane] = {}
        self._odd = {group.window for group in self._due.groups() if not self._is_own(group)}

    def _is_own(self, group: TimerGroup) -> bool:
        """Whether timers are such as this program sets; others were set by one with another trigger or lateness."""
        return group.time in (min(group.window.max_timestamp(), MAX_TIMESTAMP), self._cleanup_time(group.window))

    def _take_all(self, run: Run, emissions: Emissions) -> None:
        """The hot loop: as in `KeyedProcessOperator`, with the user's fold for a function."""
        batch, backend, timers, due = run.batch, self.backend, self.timers, self._due
        assert batch.keys is not None and batch.watermarks is not None
        first, add, slide = self._contents.first, self._contents.add, self._slide
        panes_of: dict[int, list[Pane]] = {}
        panes: list[Pane] = []
        current: int | None = None
        now = timers.watermark
        # A record whose latest window starts at or before `over` has a window that has ended.
        over = now - slide + 1
        starts, watermarks = self._last_starts(batch.timestamps), batch.watermarks.tolist()
        columns = zip(count(), batch.keys.rows(), batch.values.rows(), starts, watermarks, strict=False)
        for index, key, value, start, watermark in columns:
            if watermark > now:
                if watermark >= due.due:
                    self.fire_until(watermark, run, emissions)
                now = timers.watermark = watermark
                over = now - slide + 1
            backend.key = key
            if start <= over:
                self._take_behind(index, key, value, start, run, emissions)
                continue
            if start != current:
                current = start
                if start not in panes_of:
                    panes_of[start] = [self._pane(at) for at in self._starts(start)]
                panes = panes_of[start]
            for pane in panes:
                held = pane[key]
                pane[key] = first(value) if held is None else add(held, value)

    def _last_starts(self, timestamps: I64) -> list[int]:
        """Return the start of each record's latest window."""
        offset, slide = self._offset, self._slide
        if len(timestamps) and (int(timestamps.min()) < -_FAR or int(timestamps.max()) > _FAR):
            times = [require_timestamp(self._assigner, time) for time in timestamps.tolist()]
            return [time - (time - offset) % slide for time in times]
        return (timestamps - np.remainder(timestamps - offset, slide)).tolist()

    def _starts(self, last: int) -> range:
        """Return the starts of all windows of a record, the latest first."""
        return range(last, last - self._size, -self._slide)

    def _pane(self, start: int) -> Pane:
        pane = self._panes.get(start)
        if pane is None:
            window = TimeWindow(start, start + self._size)
            end, cleanup = min(window.end - 1, MAX_TIMESTAMP), self._cleanup_time(window)
            firing = self._due.group(end, window) if end > self.timers.watermark else None
            leaving = firing if cleanup == end else None
            if end < cleanup < MAX_TIMESTAMP:
                leaving = self._due.group(cleanup, window)
            # One object per window where there can be, since equal objects are slower to compare.
            known = leaving or firing
            window = window if known is None else known.window
            pane = Pane(window, self._table, firing, leaving, window in self._odd)
            self._panes[start] = pane
        return pane

    def _take_behind(self, index: int, key: Any, value: Any, last: int, run: Run, emissions: Emissions) -> None:
        """Take a record behind the watermark: some of its windows are late, and others fire at once."""
        watermark, contents = self.timers.watermark, self._contents
        taken = False
        for start in self._starts(last):
            if start + self._size - 1 + self._lateness <= watermark:
                break
            taken = True
            pane = self._pane(start)
            held = pane[key]
            held = pane[key] = contents.first(value) if held is None else contents.add(held, value)
            if pane.max_timestamp <= watermark and held is not None:
                begin = len(emissions.rows)
                self._emit(key, pane.window, contents.result(held), emissions.rows)
                end_record_span(emissions, begin, index, pane.max_timestamp)
        if not taken:
            windows = [TimeWindow(start, start + self._size) for start in self._starts(last)]
            self._take_late(index, value, int(run.batch.timestamps[index]), emissions, windows)

    def fire_until(self, watermark: int, run: Run, emissions: Emissions) -> None:
        due, timers, reached = self._due, self.timers, run.watermarks
        while due.due <= watermark:
            step = bisect_right(reached, max(timers.watermark, due.due - 1))
            if step == len(reached) or reached[step] > watermark:
                return
            timers.begin_advance(int(reached[step - 1]) if step else run.start, int(reached[step]))
            while due.due <= timers.watermark:
                self._fire_group(due.pop_group(), step, emissions)

    def _fire_group(self, group: TimerGroup, step: int, emissions: Emissions) -> None:
        """Fire a window for all its keys, or clean up after it, or both."""
        window, rows, data, backend = group.window, emissions.rows, self._table.data, self.backend
        end = min(window.end - 1, MAX_TIMESTAMP)
        cleanup = self._cleanup_time(window)
        # An earlier program may have allowed more lateness, or less: no window must stay behind for that.
        fires, leaves = group.time == end, group.time >= cleanup
        leaving = self._due.group(cleanup, window) if fires and end < cleanup < MAX_TIMESTAMP else None
        pane = self._panes.get(window.start)
        if pane is None or pane.window.end != window.end:
            pane = Pane(window, self._table)
        keys, hashes = in_timer_order(group)
        self.timers.begin_timer(group.time)
        result, begin, ends = self._contents.result, len(rows), [len(rows)]
        for key in keys:
            backend.key = key
            held = pane.get(key, GONE)
            if held is GONE:
                held = data[key, window]
            if fires and held is not None:
                self._emit(key, window, result(held), rows)
            if leaving is not None and key not in leaving:
                leaving.fresh[key] = None
            if leaves:
                pane.forget(key)
                if self._clear is not None:
                    self._process_ctx.at(window)
                    self._clear(self._process_ctx)
            ends.append(len(rows))
        self.timers.firing = None
        if len(rows) > begin:
            places: Any = np.repeat(hashes, np.diff(ends))
            emissions.spans.append(Span(begin, len(rows), -1, step, group.time, places, end))

    def _finish_run(self) -> None:
        for pane in self._panes.values():
            pane.write_back()
        self._panes.clear()
