"""What the parts of a trigger expression look at: one moment of one window, and a place of their own for its timers.

Apart from the algebra because this is all of it that touches the context of the operator. A Flink trigger within an
expression gets a context of its own, so that neither its state nor its timers are mistaken for those of another part.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from flintstream.model.metrics import MetricGroup
from flintstream.model.state import State, StateDescriptor
from flintstream.model.triggers import Trigger

EVENT, CLOCK = 0, 1
Timer = tuple[int, int]
"""A clock, EVENT or CLOCK, and a time on it in ms."""


class Moment:
    """When a part is asked: at a record, at a timer, or at a merge.

    `event_time` and `clock` are how far both clocks are: up to these times all timers have fired. At a timer of event
    time it is the timer's own time and not the watermark, so that what happens does not depend on how far one step of
    the watermark went. `purges` is set by a part that wants the window's contents forgotten.
    """

    __slots__ = ("clock", "ctx", "element", "event_time", "purges", "timestamp", "window")

    def __init__(
        self,
        window: Any,
        ctx: Trigger.TriggerContext,
        event_time: int,
        clock: int,
        element: Any = None,
        timestamp: int = 0,
    ) -> None:
        self.window = window
        self.ctx = ctx
        self.event_time = event_time
        self.clock = clock
        self.element = element
        self.timestamp = timestamp
        self.purges = False

    def is_over(self) -> bool:
        """Say whether event time has passed the end of the window."""
        return self.window.max_timestamp() <= self.event_time

    def is_still_to_come(self, timer: Timer) -> bool:
        """Say whether a timer has not fired yet."""
        return timer[1] > (self.event_time if timer[0] == EVENT else self.clock)


class PartContext(Trigger.OnMergeContext):
    """What a Flink trigger within an expression sees: names of state are its own, timers are kept in `timers`."""

    def __init__(self, outer: Trigger.TriggerContext, namespace: str, timers: Iterable[Timer]) -> None:
        self._outer = outer
        self._namespace = namespace
        self.timers = set(timers)

    def get_current_processing_time(self) -> int:
        return self._outer.get_current_processing_time()

    def get_metric_group(self) -> MetricGroup:
        return self._outer.get_metric_group()

    def get_current_watermark(self) -> int:
        return self._outer.get_current_watermark()

    def register_processing_time_timer(self, time: int) -> None:
        self.timers.add((CLOCK, time))

    def register_event_time_timer(self, time: int) -> None:
        self.timers.add((EVENT, time))

    def delete_processing_time_timer(self, time: int) -> None:
        self.timers.discard((CLOCK, time))

    def delete_event_time_timer(self, time: int) -> None:
        self.timers.discard((EVENT, time))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        return self._outer.get_partitioned_state(_renamed(self._namespace, state_descriptor))

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        assert isinstance(self._outer, Trigger.OnMergeContext)
        self._outer.merge_partitioned_state(_renamed(self._namespace, state_descriptor))


# Asked for per record; the same descriptor gives the same object, by which the operator finds its view of the state.
@lru_cache(maxsize=1024)
def _renamed(namespace: str, descriptor: StateDescriptor) -> StateDescriptor:
    renamed = copy.copy(descriptor)
    renamed.name = f"{namespace}.{descriptor.name}"
    return renamed
