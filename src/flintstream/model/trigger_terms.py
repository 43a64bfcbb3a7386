"""The terms of the trigger algebra: what a trigger expression is built from.

Each watches one pane, the records of a window since it last fired; see `trigger_algebra` for what comes after that.
The functions at the end are the spelling for users; the classes are values, compared and pickled by their settings.

Flink: CountTrigger, ContinuousProcessingTimeTrigger and their relatives. Differs from Flink: nothing fires for a pane
without records, except `after_watermark` when the watermark passes the end of a window that has fired before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.location import refused
from flintstream.model.time import MAX_TIMESTAMP, DurationLike, to_millis
from flintstream.model.trigger_algebra import TriggerExpression, as_part
from flintstream.model.trigger_machine import Held, Part, drop, is_ready_of, merged_of, timed_of, timers_of
from flintstream.model.trigger_moment import CLOCK, EVENT, Moment, Timer
from flintstream.model.triggers import EventTimeTrigger, Trigger


@dataclass(frozen=True)
class AfterCount(TriggerExpression):
    """Fires when the pane has that many records. Holds their number; merged windows add theirs up."""

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            what = f"after_count got {self.count!r}"
            raise refused(InvalidArgumentError, what, "give a number of records, 1 or more")

    def taken(self, held: Held, at: Moment) -> Held:
        return (held or 0) + 1

    def is_ready(self, held: Held, at: Moment) -> bool:
        return held >= self.count

    def fired(self, held: Held, at: Moment) -> Held:
        return None

    def merged(self, helds: list[Held], at: Moment) -> Held:
        return sum(helds)


@dataclass(frozen=True)
class OnRecord(TriggerExpression):
    """Fires for a record that fulfils the predicate; None: for every record. Holds True once there was one."""

    predicate: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.predicate is not None and not callable(self.predicate):
            what = f"on(...) got {self.predicate!r:.100}"
            raise refused(TypeMismatchError, what, "pass a function such as lambda record: record.vip")

    def taken(self, held: Held, at: Moment) -> Held:
        return True if held or self.predicate is None or self.predicate(at.element) else None

    def is_ready(self, held: Held, at: Moment) -> bool:
        return True

    def fired(self, held: Held, at: Moment) -> Held:
        return None

    def merged(self, helds: list[Held], at: Moment) -> Held:
        return True


@dataclass(frozen=True)
class _AtDeadline(TriggerExpression):
    """Fires when one of the clocks reaches a deadline. Holds that; a merged window has the earliest one."""

    duration_ms: int

    def __post_init__(self) -> None:
        if self.duration_ms < 1:
            what = f"{type(self).__name__} got a duration of {self.duration_ms} ms"
            raise refused(InvalidArgumentError, what, "give 1 ms or more")

    @property
    def _which(self) -> int:
        return CLOCK

    @property
    def goes_by_clock(self) -> bool:
        return self._which == CLOCK

    def is_ready(self, held: Held, at: Moment) -> bool:
        return not at.is_still_to_come((self._which, held))

    def fired(self, held: Held, at: Moment) -> Held:
        return None

    def merged(self, helds: list[Held], at: Moment) -> Held:
        return min(helds)

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        timer = self._which, held
        return [timer] if at.is_still_to_come(timer) else []


@dataclass(frozen=True)
class After(_AtDeadline):
    """Fires when so much processing time has passed since the first record of the pane."""

    def taken(self, held: Held, at: Moment) -> Held:
        return at.clock + 1 + self.duration_ms if held is None else held


@dataclass(frozen=True)
class Every(_AtDeadline):
    """Fires when a clock passes a multiple of the interval, at the latest at the end of the window on that clock."""

    event_time: bool = False

    @property
    def _which(self) -> int:
        return EVENT if self.event_time else CLOCK

    def taken(self, held: Held, at: Moment) -> Held:
        if held is not None:
            return held
        # A record may be behind the watermark: then it is the next multiple that the watermark will pass.
        since = max(at.timestamp, at.event_time) if self.event_time else at.clock + 1
        deadline, end = since - since % self.duration_ms + self.duration_ms, at.window.max_timestamp()
        has_end = at.is_still_to_come((self._which, end))
        return min(deadline, end) if has_end else min(deadline, MAX_TIMESTAMP)


@dataclass(frozen=True)
class Never(TriggerExpression):
    """Never fires."""

    def taken(self, held: Held, at: Moment) -> Held:
        return None

    def is_ready(self, held: Held, at: Moment) -> bool:
        return False

    def fired(self, held: Held, at: Moment) -> Held:
        return None

    def merged(self, helds: list[Held], at: Moment) -> Held:
        return None


@dataclass(frozen=True)
class AfterWatermark(TriggerExpression):
    """Fires when the watermark passes the end of the window; `early` and `late` fire panes before and after that.

    Holds (late, what `early` or `late` holds). A merged window is late if its end has passed; if that lies ahead, it
    waits for it again, whatever its parts had fired.
    """

    early: Part | None = None
    late: Part | None = None

    def taken(self, held: Held, at: Moment) -> Held:
        # A window that opens with a late record has no result on time: `late` decides from the start.
        is_late, inner = held or (self.late is not None and at.is_over(), None)
        part = self.late if is_late else self.early
        return is_late, None if part is None else part.taken(inner, at)

    def is_ready(self, held: Held, at: Moment) -> bool:
        is_late, inner = held
        if not is_late and at.is_over():
            return True
        part = self.late if is_late else self.early
        return part is not None and is_ready_of(part, inner, at)

    def fired(self, held: Held, at: Moment) -> Held:
        is_late, inner = held
        if is_late or not at.is_over():
            part = self.late if is_late else self.early
            assert part is not None
            return is_late, part.fired(inner, at)
        if self.early is not None:
            drop(self.early, inner, at)
        return None if self.late is None else (True, None)

    def merged(self, helds: list[Held], at: Moment) -> Held:
        is_late = at.is_over() and any(late for late, _ in helds)
        part = self.late if is_late else self.early
        mine = [inner for late, inner in helds if late == is_late]
        return is_late, None if part is None else merged_of(part, mine, at)

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        is_late, inner = held
        part = self.late if is_late else self.early
        own = (EVENT, at.window.max_timestamp())
        return [
            *([own] if not is_late and at.is_still_to_come(own) else ()),
            *(() if part is None else timers_of(part, inner, at)),
        ]

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        is_late, inner = held
        part = self.late if is_late else self.early
        return is_late, None if part is None else timed_of(part, inner, timer, at)

    def dropped(self, held: Held, at: Moment) -> None:
        is_late, inner = held
        part = self.late if is_late else self.early
        if part is not None:
            drop(part, inner, at)

    def children(self) -> tuple[Part, ...]:
        return tuple(part for part in (self.early, self.late) if part is not None)

    def within(self, place: str) -> Part:
        early, late = (None if part is None else part.within(place) for part in (self.early, self.late))
        return replace(self, early=early, late=late)


def after_watermark(early: Trigger[Any, Any] | None = None, late: Trigger[Any, Any] | None = None) -> TriggerExpression:
    """Fire when the watermark passes the end of the window, and before and after that as `early` and `late` say.

    Both start afresh after each of their panes. `late` is asked for records that come after the watermark has passed
    and within the allowed lateness. Without it the trigger is spent when the watermark has passed; as the trigger of a
    window it then starts afresh, so that every late record fires, as in Flink: `late=never()` prevents that.

    >>> after_watermark(early=every("1s"), late=each())
    AfterWatermark(early=Every(duration_ms=1000, event_time=False), late=OnRecord(predicate=None))
    """
    first = None if early is None else as_part(early).within("early")
    return AfterWatermark(first, None if late is None else as_part(late).within("late"))


def after_count(count: int) -> TriggerExpression:
    """Fire when the pane has `count` records."""
    return AfterCount(count)


def after(delay: DurationLike) -> TriggerExpression:
    """Fire when so much processing time has passed since the first record of the pane."""
    return After(to_millis(delay))


def every(interval: DurationLike, event_time: bool = False) -> TriggerExpression:
    """Fire when processing time passes a multiple of the interval and the pane has records.

    With `event_time` it is the watermark that passes it. At the latest it fires at the end of the window, if that is a
    time on the same clock.
    """
    return Every(to_millis(interval), bool(event_time))


def each() -> TriggerExpression:
    """Fire for every record."""
    return OnRecord()


def on(predicate: Callable[[Any], Any]) -> TriggerExpression:
    """Fire for every record for which `predicate(record)` is true."""
    if predicate is None:
        raise refused(TypeMismatchError, "on(...) got None", "pass a function, or use each()")
    return OnRecord(predicate)


def never() -> TriggerExpression:
    """Fire never: `after_count(10).then(never())` fires once."""
    return Never()


def simplified(trigger: Trigger[Any, Any]) -> Trigger[Any, Any]:
    """Return an equal trigger for which there may be a faster operator."""
    return EventTimeTrigger() if trigger == AfterWatermark() else trigger
