"""The algebra of triggers: `a | b`, `a & b`, `a.then(b)`, `a.repeat()`.

One picture explains all of it. A trigger watches one **pane**: the records that a window has got since it last fired.
When the trigger fires, the pane is over, and the trigger is **spent**. Whoever holds it says what comes next: as the
trigger of a window, and as the `early` or `late` part of `after_watermark`, a spent trigger starts afresh with the next
pane; under `.repeat()` it does so by itself; in `.then(...)` the next one takes its place.

Flink: none; the model is that of Beam's trigger.py (AfterAny, AfterAll, AfterEach, Repeatedly).
Differs from Beam: a window's own trigger starts afresh when it is spent. In Beam it does not, and records that come
then are lost; here that is said by `.then(never())`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from flintstream.errors import TypeMismatchError
from flintstream.model.location import refused
from flintstream.model.trigger_machine import Held, Part, drop, is_ready_of, merged_of, timed_of, timers_of
from flintstream.model.trigger_moment import CLOCK, EVENT, Moment, PartContext, Timer
from flintstream.model.triggers import Trigger, TriggerResult


class TriggerExpression(Part):
    """A trigger that can be combined with others by `|`, `&`, `then` and `repeat`."""

    def __or__(self, other: Trigger[Any, Any]) -> AnyOf:
        """Fire when one of the two does, and begin a new pane for both."""
        return AnyOf((*(self.parts if isinstance(self, AnyOf) else _places((self,))), *_places((other,), self)))

    def __ror__(self, other: Trigger[Any, Any]) -> AnyOf:
        return AnyOf(_places((other, self)))

    def __and__(self, other: Trigger[Any, Any]) -> AllOf:
        """Fire when both have become ready in the same pane, however far apart."""
        return AllOf((*(self.parts if isinstance(self, AllOf) else _places((self,))), *_places((other,), self)))

    def __rand__(self, other: Trigger[Any, Any]) -> AllOf:
        return AllOf(_places((other, self)))

    def then(self, following: Trigger[Any, Any]) -> InTurn:
        """Let another trigger watch the next pane once this one is spent; after the last the whole is spent."""
        return InTurn((*(self.parts if isinstance(self, InTurn) else _places((self,))), *_places((following,), self)))

    def repeat(self) -> Repeated:
        """Start afresh by itself, pane after pane, and never be spent: what stands beside it is not disturbed."""
        return Repeated(self)


@dataclass(frozen=True)
class OfSeveral(TriggerExpression):
    """An expression of several parts."""

    parts: tuple[Part, ...]

    def children(self) -> tuple[Part, ...]:
        return self.parts

    def within(self, place: str) -> Part:
        return replace(self, parts=tuple(part.within(place) for part in self.parts))


@dataclass(frozen=True)
class AnyOf(OfSeveral):
    """Fires when any of its parts does; spent as soon as one of them is. Holds what each part holds.

    Parts that were not ready start afresh too, unless all that fired are ones that `.repeat()`. Merged windows go on
    with the parts merged one by one.
    """

    def taken(self, held: Held, at: Moment) -> Held:
        helds = held or (None,) * len(self.parts)
        return tuple(part.taken(each, at) for part, each in zip(self.parts, helds, strict=True))

    def is_ready(self, held: Held, at: Moment) -> bool:
        return any(is_ready_of(part, each, at) for part, each in zip(self.parts, held, strict=True))

    def fired(self, held: Held, at: Moment) -> Held:
        after, spent = list(held), False
        for index, part in enumerate(self.parts):
            if is_ready_of(part, held[index], at):
                after[index] = part.fired(held[index], at)
                spent = spent or after[index] is None
        if not spent:
            return tuple(after)
        for part, each in zip(self.parts, after, strict=True):
            drop(part, each, at)
        return None

    def merged(self, helds: list[Held], at: Moment) -> Held:
        return tuple(merged_of(part, [held[i] for held in helds], at) for i, part in enumerate(self.parts))

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        return [timer for part, each in zip(self.parts, held, strict=True) for timer in timers_of(part, each, at)]

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        return tuple(timed_of(part, each, timer, at) for part, each in zip(self.parts, held, strict=True))

    def dropped(self, held: Held, at: Moment) -> None:
        for part, each in zip(self.parts, held, strict=True):
            drop(part, each, at)


@dataclass(frozen=True)
class AllOf(OfSeveral):
    """Fires when all of its parts are ready; spent when all of them are. Holds (spent, what it holds) for each part.

    A part that is spent while another repeats counts as ready from then on. In a merged window a part is spent if it
    was so in all that merged.
    """

    def taken(self, held: Held, at: Moment) -> Held:
        helds = held or ((False, None),) * len(self.parts)
        return tuple(
            (spent, None if spent else part.taken(each, at))
            for part, (spent, each) in zip(self.parts, helds, strict=True)
        )

    def is_ready(self, held: Held, at: Moment) -> bool:
        return all(spent or is_ready_of(part, each, at) for part, (spent, each) in zip(self.parts, held, strict=True))

    def fired(self, held: Held, at: Moment) -> Held:
        after: list[Held] = []
        for part, (spent, each) in zip(self.parts, held, strict=True):
            left = None if spent else part.fired(each, at)
            after.append((left is None, left))
        return None if all(spent for spent, _ in after) else tuple(after)

    def merged(self, helds: list[Held], at: Moment) -> Held:
        after: list[Held] = []
        for index, part in enumerate(self.parts):
            mine = [held[index] for held in helds]
            spent = all(spent for spent, _ in mine)
            after.append((spent, None if spent else merged_of(part, [each for _, each in mine], at)))
        return tuple(after)

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        return [timer for part, (_, each) in zip(self.parts, held, strict=True) for timer in timers_of(part, each, at)]

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        return tuple(
            (spent, timed_of(part, each, timer, at)) for part, (spent, each) in zip(self.parts, held, strict=True)
        )

    def dropped(self, held: Held, at: Moment) -> None:
        for part, (_, each) in zip(self.parts, held, strict=True):
            drop(part, each, at)


@dataclass(frozen=True)
class InTurn(OfSeveral):
    """Each part in turn watches panes until it is spent; spent after the last. Holds (index, what that part holds).

    A merged window is as far as the furthest of its parts was; what the others held is forgotten.
    """

    def taken(self, held: Held, at: Moment) -> Held:
        index, each = held or (0, None)
        return index, self.parts[index].taken(each, at)

    def is_ready(self, held: Held, at: Moment) -> bool:
        return is_ready_of(self.parts[held[0]], held[1], at)

    def fired(self, held: Held, at: Moment) -> Held:
        index, each = held
        left = self.parts[index].fired(each, at)
        if left is not None:
            return index, left
        return None if index + 1 == len(self.parts) else (index + 1, None)

    def merged(self, helds: list[Held], at: Moment) -> Held:
        furthest = max(index for index, _ in helds)
        return furthest, merged_of(self.parts[furthest], [each for index, each in helds if index == furthest], at)

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        return timers_of(self.parts[held[0]], held[1], at)

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        return held[0], timed_of(self.parts[held[0]], held[1], timer, at)

    def dropped(self, held: Held, at: Moment) -> None:
        drop(self.parts[held[0]], held[1], at)


@dataclass(frozen=True)
class Repeated(TriggerExpression):
    """Fires as its part does and starts it afresh when that is spent. Holds a tuple of what the part holds."""

    part: Part

    def taken(self, held: Held, at: Moment) -> Held:
        return (self.part.taken(held[0] if held else None, at),)

    def is_ready(self, held: Held, at: Moment) -> bool:
        return is_ready_of(self.part, held[0], at)

    def fired(self, held: Held, at: Moment) -> Held:
        return (self.part.fired(held[0], at),)

    def merged(self, helds: list[Held], at: Moment) -> Held:
        return (merged_of(self.part, [held[0] for held in helds], at),)

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        return timers_of(self.part, held[0], at)

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        return (timed_of(self.part, held[0], timer, at),)

    def dropped(self, held: Held, at: Moment) -> None:
        drop(self.part, held[0], at)

    def children(self) -> tuple[Part, ...]:
        return (self.part,)

    def within(self, place: str) -> Part:
        return replace(self, part=self.part.within(place))

    def repeat(self) -> Self:
        return self


@dataclass(frozen=True)
class Foreign(TriggerExpression):
    """A Flink trigger, a user's own too, as a part: spent when it fires, and cleared then, as at the end of a window.

    Holds (verdict, timers of event time, timers of the clock); a verdict of 1 is FIRE, of 2 FIRE_AND_PURGE.
    """

    trigger: Trigger[Any, Any]
    namespace: str = ""

    def taken(self, held: Held, at: Moment) -> Held:
        ctx = self._context(held, at)
        return self._judged(held, self.trigger.on_element(at.element, at.timestamp, at.window, ctx), ctx, at)

    def timed(self, held: Held, timer: Timer, at: Moment) -> Held:
        ctx = self._context(held, at)
        if timer not in ctx.timers:
            return held
        ctx.timers.remove(timer)
        react = self.trigger.on_event_time if timer[0] == EVENT else self.trigger.on_processing_time
        return self._judged(held, react(timer[1], at.window, ctx), ctx, at)

    def is_ready(self, held: Held, at: Moment) -> bool:
        return held[0] > 0

    def fired(self, held: Held, at: Moment) -> Held:
        at.purges = at.purges or held[0] == 2
        self.dropped(held, at)

    def merged(self, helds: list[Held], at: Moment) -> Held:
        ctx = self._context(None, at)
        self.trigger.on_merge(at.window, ctx)
        return self._judged((max(held[0] for held in helds), (), ()), TriggerResult.CONTINUE, ctx, at)

    def timers(self, held: Held, at: Moment) -> list[Timer]:
        return [(clock, time) for clock in (EVENT, CLOCK) for time in held[1 + clock]]

    def dropped(self, held: Held, at: Moment) -> None:
        self.trigger.clear(at.window, self._context(held, at))

    def within(self, place: str) -> Part:
        return replace(self, namespace=f"{place}.{self.namespace}" if self.namespace else place)

    def can_merge(self) -> bool:
        return self.trigger.can_merge()

    def _context(self, held: Held, at: Moment) -> PartContext:
        return PartContext(at.ctx, self.namespace, () if held is None else self.timers(held, at))

    @staticmethod
    def _judged(held: Held, result: TriggerResult, ctx: PartContext, at: Moment) -> Held:
        verdict = held[0] if held else 0
        if result.is_fire():
            verdict = max(verdict, 2 if result.is_purge() else 1)
        elif result.is_purge():
            at.purges = True
        return verdict, *(tuple(sorted(time for one, time in ctx.timers if one == clock)) for clock in (EVENT, CLOCK))


def as_part(trigger: Any) -> Part:
    """Return any trigger as one that can be part of an expression."""
    if isinstance(trigger, Part):
        return trigger
    if isinstance(trigger, Trigger):
        return Foreign(cast("Trigger[Any, Any]", trigger))
    remedy = "use triggers such as after_count(5), every('1s') or CountTrigger.of(5)"
    raise refused(TypeMismatchError, f"{trigger!r:.100} is not a trigger", remedy)


def _places(triggers: Iterable[Any], before: Part | None = None) -> tuple[Part, ...]:
    """Return triggers as parts that know their places, the first of which is behind those of `before`."""
    first = 0 if before is None else max(1, len(before.children()))
    return tuple(as_part(trigger).within(str(first + index)) for index, trigger in enumerate(triggers))
