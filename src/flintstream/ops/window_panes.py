"""Counts the panes of windows, and turns what a window shows into what leaves the operator.

Apart from `WindowOperator` because most programs declare no panes and pay nothing for them. What must be known of a
window is one row of state: how many panes it has given, whether one of them was on time, and, where panes are taken
back, what the last one was. Invariant: the row goes when the window goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from flintstream.model.panes import Pane, PaneInfo, PaneMode, Panes, PaneTiming
from flintstream.model.tags import OutputTag
from flintstream.ops.operator import OperatorContext
from flintstream.state.table import Table

_NONE_YET = (0, False, [])


@dataclass(frozen=True, slots=True)
class Cause:
    """How far the clock of the windows is when one fires, and whether a timer of that clock makes it fire.

    `is_last` says that the window goes away at the same moment.
    """

    reached: int
    by_timer: bool = False
    is_last: bool = False


class PaneCounter:
    """The panes of a partition's windows: rows `(key, window) -> (number, whether its end was passed, results)`."""

    def __init__(self, ctx: OperatorContext, panes: Panes) -> None:
        self._table = ctx.backend.table(f"{ctx.uid}/#panes", lambda: Table("panes", parts=2))
        self._shown = panes.shown
        self._retracts = panes.mode is PaneMode.RETRACTING
        self.discards = panes.mode is PaneMode.DISCARDING

    def next(self, key: Any, window: Any, cause: Cause) -> PaneInfo:
        """Return the pane that a window is about to give."""
        number, over, _ = self._table.data[key, window] or _NONE_YET
        end, timing = window.max_timestamp(), PaneTiming.LATE
        if not over and (cause.reached < end or (cause.by_timer and cause.reached == end)):
            timing = PaneTiming.EARLY if cause.reached < end else PaneTiming.ON_TIME
        return PaneInfo(timing, number, cause.is_last)

    def give(self, key: Any, window: Any, info: PaneInfo, rows: list[Any], start: int) -> None:
        """Make panes of the rows from `start` on, behind what they replace; side outputs stay as they are."""
        entry = (key, window)
        _, _, before = self._table.data[entry] or _NONE_YET
        results = rows[start:]
        if self._shown:
            results = [row if _is_tagged(row) else Pane(row, info, window) for row in results]
        rows[start:] = [*_retractions(before), *results]
        kept = [row for row in results if not _is_tagged(row)] if self._retracts else []
        self._table.put(entry, (info.number + 1, info.timing is not PaneTiming.EARLY, kept))

    def purge(self, key: Any, window: Any, is_endless: bool) -> None:
        """The window's contents are gone, so what it gives next replaces nothing.

        A window without an end is gone altogether, since nothing else would ever remove what is kept of it.
        """
        held = self._table.data[key, window]
        if held is not None and is_endless:
            self._table.delete((key, window))
        elif held is not None and held[2]:
            self._table.put((key, window), (held[0], held[1], []))

    def merge(self, key: Any, result: Any, merged: Iterable[Any], is_over: bool) -> None:
        """Let a window go on where those left off that it was made of; it replaces what any of them has given."""
        number, over, results = 0, False, list[Any]()
        for window in merged:
            held = self._table.data[key, window]
            if held is not None:
                number, over, results = max(number, held[0]), over or held[1], [*results, *held[2]]
                self._table.delete((key, window))
        if number:
            # If the end of the window lies ahead again, so does its pane on time.
            self._table.put((key, result), (number, over and is_over, results))

    def clear(self, key: Any, window: Any) -> None:
        """Forget a window."""
        if self._table.data[key, window] is not None:
            self._table.delete((key, window))


def _is_tagged(row: Any) -> bool:
    return type(row) is tuple and len(row) == 2 and isinstance(row[0], OutputTag)


def _retractions(before: list[Pane[Any]]) -> list[Pane[Any]]:
    return [replace(pane, info=replace(pane.info, is_retraction=True)) for pane in before]
