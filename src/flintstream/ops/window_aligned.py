"""The short way for the common case: tumbling or sliding event-time windows with their default trigger.

Such windows are arithmetic, and all keys of one open and close together. So the contents that a run touches are held by
window, in a plain dict by key: a record costs one look-up, and the keyed state, whose entries are `(key, window)` pairs
and slower to reach, is read at the first record of a pair and written once at the end of the run. A pair that comes and
goes within a run never enters the state.

Invariant: results, their order and the state are those of `WindowOperator`, of which this is a faster copy.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from flintstream.model.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.model.context import TimeDomain
from flintstream.model.functions import AggregateFunction, Function, ReduceFunction
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.triggers import EventTimeTrigger, Trigger
from flintstream.model.windows import TimeWindow
from flintstream.ops.batch import I64
from flintstream.ops.keyed import KeyedTimerService
from flintstream.ops.operator import OperatorContext
from flintstream.ops.run import Emissions, Run
from flintstream.ops.window import WindowOperator, end_record_span
from flintstream.state.table import GONE, Table

_FAR = 1 << 62
"""Times beyond are left to `WindowOperator`, since int64 arithmetic on them could wrap around."""


def is_aligned(assigner: Any, trigger: Trigger[Any, Any] | None) -> bool:
    """Say whether the short way serves these windows."""
    if trigger is not None and type(trigger) is not EventTimeTrigger:
        return False
    if type(assigner) is TumblingEventTimeWindows:
        return True
    return type(assigner) is SlidingEventTimeWindows and assigner.size_ms % assigner.slide_ms == 0


class Pane(dict[Any, Any]):
    """What one window holds, by key, as far as the current run has touched it."""

    __slots__ = ("_cleanup_time", "_table", "_timers", "max_timestamp", "window")

    def __init__(self, window: TimeWindow, lateness: int, table: Table, timers: KeyedTimerService) -> None:
        super().__init__()
        self.window = window
        self.max_timestamp = window.end - 1
        self._cleanup_time = min(self.max_timestamp + lateness, MAX_TIMESTAMP)
        self._table = table
        self._timers = timers

    def __missing__(self, key: Any) -> Any:
        """Take over what the state holds; if that is nothing, the window is new to the key and needs its timers."""
        held = self._table.data[key, self.window]
        if held is None:
            if self.max_timestamp > self._timers.watermark:
                self._timers.event.register(key, self.window, self.max_timestamp)
            if self._cleanup_time != MAX_TIMESTAMP:
                self._timers.event.register(key, self.window, self._cleanup_time)
        return held

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
        super().open(ctx)
        self._panes: dict[int, Pane] = {}

    def _take_all(self, run: Run, emissions: Emissions) -> None:
        """The hot loop: as in `KeyedProcessOperator`, with the user's fold for a function."""
        batch, backend, timers, event = run.batch, self.backend, self.timers, self.timers.event
        assert batch.keys is not None and batch.watermarks is not None
        starts = self._last_starts(batch.timestamps)
        if starts is None:
            super()._take_all(run, emissions)
            return
        first, add = self._contents.first, self._contents.add
        panes_of: dict[int, list[Pane]] = {}
        panes: list[Pane] = []
        current: int | None = None
        now = timers.watermark
        # A record whose latest window starts at or before this has a window that is over.
        over = now - self._slide + 1
        columns = zip(
            count(), batch.keys.rows(), batch.values.rows(), starts.tolist(), batch.watermarks.tolist(), strict=False
        )
        for index, key, value, start, watermark in columns:
            if watermark > now:
                if watermark >= event.due:
                    self.fire_until(watermark, run, emissions)
                now = timers.watermark = watermark
                over = now - self._slide + 1
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

    def _last_starts(self, timestamps: I64) -> I64 | None:
        """Return the start of each record's latest window; None if a time is missing or out of any calendar."""
        if len(timestamps) and (int(timestamps.min()) < -_FAR or int(timestamps.max()) > _FAR):
            return None
        return timestamps - np.remainder(timestamps - self._offset, self._slide)

    def _starts(self, last: int) -> range:
        """Return the starts of all windows of a record, the latest first."""
        return range(last, last - self._size, -self._slide)

    def _pane(self, start: int) -> Pane:
        pane = self._panes.get(start)
        if pane is None:
            window = TimeWindow(start, start + self._size)
            pane = self._panes[start] = Pane(window, self._lateness, self._table, self.timers)
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
            self._take_late(index, value, int(run.batch.timestamps[index]), emissions)

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        window, entry = namespace, (key, namespace)
        pane = self._panes.get(window.start)
        if domain is not TimeDomain.EVENT_TIME or (pane is not None and pane.window.end != window.end):
            return super().fire(key, namespace, time, domain, rows)
        held = GONE if pane is None else pane.get(key, GONE)
        if held is GONE:
            held = self._table.data[entry]
        if time == window.end - 1 and held is not None:
            self._emit(key, window, self._contents.result(held), rows)
        if time == self._cleanup_time(window):
            if pane is not None:
                pane.pop(key, None)
            if self._table.data.pop(entry, None) is not None:
                self._table.dirty.add(entry)
            if self._clear is not None:
                self._process_ctx.at(window)
                self._clear(self._process_ctx)
        return window.end - 1

    def _finish_run(self) -> None:
        for pane in self._panes.values():
            pane.write_back()
        self._panes.clear()
