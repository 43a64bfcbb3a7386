"""How an expression of triggers runs: what each part of it holds, one state for the whole, timers that follow from it.

A part is a pure function of a small value, what it **holds** of the current pane: a count, a deadline, the tuple of
what its own parts hold. None is a trigger that starts afresh, and one that is spent. The value of the whole expression
is one state of the window. Which timers are needed follows from it, so no part can delete a timer that another needs,
nor leave one behind. What the parts mean is said in `trigger_algebra`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, cast

from flintstream.model.state import ListState, ListStateDescriptor
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.trigger_moment import CLOCK, EVENT, Moment, Timer
from flintstream.model.triggers import Trigger, TriggerResult
from flintstream.model.windows import Window

Held = Any
"""What a part remembers of the current pane: numbers, truth values and tuples of them."""

_HELD = ListStateDescriptor("expression")
_RESULTS = {
    (False, False): TriggerResult.CONTINUE,
    (True, False): TriggerResult.FIRE,
    (False, True): TriggerResult.PURGE,
    (True, True): TriggerResult.FIRE_AND_PURGE,
}


class Part(Trigger[Any, Window]):
    """A trigger that is an expression, or a part of one."""

    @abstractmethod
    def taken(self, held: Held, at: Moment) -> Held:
        """Return what is held after one more record."""

    @abstractmethod
    def is_ready(self, held: Held, at: Moment) -> bool:
        """Say whether the trigger fires; once ready it stays so until `fired`. `held` is not None."""

    @abstractmethod
    def fired(self, held: Held, at: Moment) -> Held:
        """Called when the window fires and this part was ready; returns what is held then, None if it is spent."""

    @abstractmethod
    def merged(self, helds: list[Held], at: Moment) -> Held:
        """Return what the window holds that others became; there is at least one, and None is not among them."""

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        """Return the timers that are still needed."""
        return []

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        """Return what is held after a timer, which may be another part's."""
        return held

    def dropped(self, held: Held, at: Moment) -> None:
        """Called when what is held is thrown away otherwise than by `fired`."""

    def children(self) -> tuple[Part, ...]:
        """Return the parts of this part."""
        return ()

    def within(self, place: str) -> Part:
        """Return the same trigger as a part of another; `place` tells the state of Flink's triggers apart."""
        return self

    @property
    def goes_by_clock(self) -> bool:
        """Whether it needs processing time to go on while no records come."""
        return any(part.goes_by_clock for part in self.children())

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        clock = ctx.get_current_processing_time() - 1
        at = Moment(window, ctx, ctx.get_current_watermark(), clock, element, timestamp)
        cell = _cell(ctx)
        held = _only(cell)
        return self._settle(cell, held, self.taken(held, at), at)

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_time((CLOCK, time), Moment(window, ctx, ctx.get_current_watermark(), time))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_time((EVENT, time), Moment(window, ctx, time, ctx.get_current_processing_time() - 1))

    def _on_time(self, timer: Timer, at: Moment) -> TriggerResult:
        cell = _cell(at.ctx)
        held = _only(cell)
        if held is None:
            return TriggerResult.CONTINUE
        return self._settle(cell, held, self.timed(held, timer, at), at, timer)

    def _settle(
        self, cell: ListState[Held], before: Held, after: Held, at: Moment, gone: Timer | None = None
    ) -> TriggerResult:
        """Fire if it is time to, and bring state and timers up to date; the timer `gone` is no longer set."""
        fires = after is not None and self.is_ready(after, at)
        if fires:
            after = self.fired(after, at)
        if gone is not None or after != before:
            cell.update([] if after is None else [after])
            had = [timer for timer in timers_of(self, before, at) if timer != gone]
            needed = timers_of(self, after, at)
            if had != needed:
                _delete(set(had).difference(needed), at.ctx)
                _register(set(needed).difference(had), at.ctx)
        return _RESULTS[fires, at.purges]

    def can_merge(self) -> bool:
        return all(part.can_merge() for part in self.children())

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        at = Moment(window, ctx, ctx.get_current_watermark(), ctx.get_current_processing_time() - 1)
        ctx.merge_partitioned_state(_HELD)
        cell = _cell(ctx)
        helds = list(cell.get())
        if helds:
            held = self.merged(helds, at)
            cell.update([held])
            _register(self.timers(held, at), ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        cell = _cell(ctx)
        held = _only(cell)
        if held is not None:
            at = Moment(window, ctx, MIN_TIMESTAMP, MIN_TIMESTAMP)
            _delete(self.timers(held, at), ctx)
            self.dropped(held, at)
            cell.clear()


def _cell(ctx: Trigger.TriggerContext) -> ListState[Held]:
    return cast("ListState[Held]", ctx.get_partitioned_state(_HELD))


def _only(cell: ListState[Held]) -> Held:
    for held in cell.get():
        return held
    return None


def _register(timers: Iterable[Timer], ctx: Trigger.TriggerContext) -> None:
    for clock, time in timers:
        (ctx.register_event_time_timer if clock == EVENT else ctx.register_processing_time_timer)(time)


def _delete(timers: Iterable[Timer], ctx: Trigger.TriggerContext) -> None:
    for clock, time in timers:
        (ctx.delete_event_time_timer if clock == EVENT else ctx.delete_processing_time_timer)(time)


def is_ready_of(part: Part, held: Held, at: Moment) -> bool:
    return held is not None and part.is_ready(held, at)


def timers_of(part: Part, held: Held, at: Moment) -> list[Timer]:
    return [] if held is None else part.timers(held, at)


def timed_of(part: Part, held: Held, timer: Timer, at: Moment) -> Held:
    return None if held is None else part.timed(held, timer, at)


def drop(part: Part, held: Held, at: Moment) -> None:
    if held is not None:
        part.dropped(held, at)


def merged_of(part: Part, helds: list[Held], at: Moment) -> Held:
    present = [held for held in helds if held is not None]
    return part.merged(present, at) if present else None
