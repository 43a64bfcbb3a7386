"""Windows that the data cuts: a record may end the open window of its key, before or after it is put into one.

Everything else is `WindowOperator`: contents, triggers, evictors, functions. So this is a mixin over it, with the one
question that an ordinary assigner is not asked. Invariant: once a window has ended, nothing of it is left.
"""

from __future__ import annotations

from typing import Any

from flintstream.model.assigners_data import DataWindows
from flintstream.model.triggers import TriggerResult
from flintstream.model.windows import GlobalWindow
from flintstream.ops.operator import OperatorContext
from flintstream.ops.run import Emissions
from flintstream.ops.window import WindowOperator, end_record_span
from flintstream.ops.window_evict import EvictingWindowOperator
from flintstream.ops.window_panes import Cause
from flintstream.state.table import Table


class DataWindowOperator(WindowOperator):
    """`WindowOperator` for `DataWindows`."""

    def open(self, ctx: OperatorContext) -> None:
        # A window without an end is over when event time is.
        self._event_time = True
        super().open(ctx)
        # A tuple around each mark tells a mark of None from a key without a window.
        self._marks = ctx.backend.table(f"{ctx.uid}/#window-marks", lambda: Table("window-marks"))

    @property
    def _cutter(self) -> DataWindows[Any]:
        assert isinstance(self._assigner, DataWindows)
        return self._assigner

    def _take(self, index: int, key: Any, value: Any, timestamp: int, emissions: Emissions) -> None:
        cutter, held = self._cutter, self._marks.data[key]
        if held is not None and cutter.begins_window(value, held[0]):
            self._end(index, key, timestamp, emissions)
            held = None
        if held is None:
            self._marks.put(key, (cutter.mark(value),))
        super()._take(index, key, value, timestamp, emissions)
        if cutter.ends_window(value):
            self._end(index, key, timestamp, emissions)

    def _end(self, index: int, key: Any, timestamp: int, emissions: Emissions) -> None:
        """Let the open window of a key give its result, and remove all traces of it."""
        window = GlobalWindow.get()
        entry = (key, window)
        start = len(emissions.rows)
        cause = Cause(window.max_timestamp(), by_timer=True, is_last=True)
        self._obey(TriggerResult.FIRE, key, window, entry, emissions.rows, cause)
        end_record_span(emissions, start, index, timestamp)
        self._clear_all(key, window, entry)

    def _clear_all(self, key: Any, window: Any, entry: tuple[Any, Any]) -> None:
        super()._clear_all(key, window, entry)
        self._marks.delete(key)


class EvictingDataWindowOperator(DataWindowOperator, EvictingWindowOperator):
    """The same with an evictor."""
