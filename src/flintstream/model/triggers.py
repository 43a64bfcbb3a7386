"""Triggers: when a window gives a result, and when it forgets what it holds.

Invariant: a trigger holds configuration, never state, since one object serves all keys and windows and comes back from
a pickle in another process. What it must remember goes into the state that its context hands out.

Flink: the triggers of pyflink.datastream.window.
Differs from Flink: a continuous trigger takes back its timer at the end of a window when the window is cleared (Flink
lets it run into the void), and a continuous processing-time trigger sets no further timer once the window has ended
(Flink sets one at the same, past moment for ever if the window is one of event time).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from flintstream.errors import InvalidArgumentError, UnsupportedError, describe
from flintstream.model.location import refused
from flintstream.model.metrics import MetricGroup
from flintstream.model.state import ReducingState, ReducingStateDescriptor, State, StateDescriptor
from flintstream.model.time import DurationLike, to_millis
from flintstream.model.types import Types
from flintstream.model.windows import Window

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """What happens to a window now: (give a result, forget the contents)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Say whether the window gives a result."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Say whether the window forgets what it holds; its triggers' state stays."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window gives a result; write a subclass for rules of your own."""

    class TriggerContext(ABC):
        """The clocks, timers and state of the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return processing time in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group in which the trigger registers its metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return event time in ms."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called when processing time reaches `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called when the watermark reaches `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Take back a processing-time timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Take back an event-time timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Return the state with that name for the current key and window."""

    class OnMergeContext(TriggerContext):
        """The context of the window that others became."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the named state of all the old windows into that of the new one."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called for every record that is added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of the window fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of the window fires."""

    def can_merge(self) -> bool:
        """Say whether the trigger can be used with windows that merge."""
        return False

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows became `window`: merge state and set the timers that the new window needs."""
        name = type(self).__name__
        remedy = "override can_merge and on_merge, or use windows that do not merge"
        raise UnsupportedError(describe(f"{name} cannot be used with merging windows", remedy=remedy))

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Called when the window goes away: take back timers and clear state."""


# Module constants, not fields: a trigger is compared and pickled by its configuration alone.
_FIRE_TIME = ReducingStateDescriptor("fire-time", min, Types.LONG())
_COUNT = ReducingStateDescriptor("count", operator.add, Types.LONG())


@dataclass(frozen=True)
class EventTimeTrigger(Trigger[Any, Window]):
    """Fires when the watermark passes the end of the window, and again for every late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        # A merged window that is already over is fired by on_element, for the record that caused the merge.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger[Any, Window]):
    """Fires when processing time passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(Trigger[Any, Window]):
    """Fires whenever the watermark passes a multiple of the interval, and at the end of the window."""

    interval_ms: int

    def __post_init__(self) -> None:
        _check_interval(self.interval_ms)

    @staticmethod
    def of(interval: DurationLike) -> ContinuousEventTimeTrigger:
        """Return the trigger for that interval."""
        return ContinuousEventTimeTrigger(to_millis(interval))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if _fire_time(ctx).get() is None:
            self._set_next(timestamp - timestamp % self.interval_ms, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        if _fire_time(ctx).get() != time:
            return TriggerResult.CONTINUE
        _fire_time(ctx).clear()
        self._set_next(time, window, ctx)
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(_FIRE_TIME)
        fire_time = _fire_time(ctx).get()
        if fire_time is not None:
            ctx.register_event_time_timer(fire_time)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        fire_time = _fire_time(ctx).get()
        if fire_time is not None:
            ctx.delete_event_time_timer(fire_time)
            _fire_time(ctx).clear()

    def _set_next(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        fire_time = min(time + self.interval_ms, window.max_timestamp())
        _fire_time(ctx).add(fire_time)
        ctx.register_event_time_timer(fire_time)


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(Trigger[Any, Window]):
    """Fires whenever processing time passes a multiple of the interval, at the latest at the end of the window."""

    interval_ms: int

    def __post_init__(self) -> None:
        _check_interval(self.interval_ms)

    @staticmethod
    def of(interval: DurationLike) -> ContinuousProcessingTimeTrigger:
        """Return the trigger for that interval."""
        return ContinuousProcessingTimeTrigger(to_millis(interval))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if _fire_time(ctx).get() is None:
            now = ctx.get_current_processing_time()
            self._set_next(now - now % self.interval_ms, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if _fire_time(ctx).get() != time:
            return TriggerResult.CONTINUE
        _fire_time(ctx).clear()
        if time < window.max_timestamp():
            self._set_next(time, window, ctx)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(_FIRE_TIME)
        fire_time = _fire_time(ctx).get()
        if fire_time is not None:
            ctx.register_processing_time_timer(fire_time)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        fire_time = _fire_time(ctx).get()
        if fire_time is not None:
            ctx.delete_processing_time_timer(fire_time)
            _fire_time(ctx).clear()

    def _set_next(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        fire_time = min(time + self.interval_ms, window.max_timestamp())
        _fire_time(ctx).add(fire_time)
        ctx.register_processing_time_timer(fire_time)


@dataclass(frozen=True)
class CountTrigger(Trigger[Any, Window]):
    """Fires whenever the window has received that many records since it last fired."""

    max_count: int

    def __post_init__(self) -> None:
        if self.max_count < 1:
            what = f"CountTrigger got a count of {self.max_count}"
            raise refused(InvalidArgumentError, what, "give 1 or more")

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return the trigger for that many records."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = cast("ReducingState[int]", ctx.get_partitioned_state(_COUNT))
        count.add(1)
        if cast("int", count.get()) < self.max_count:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(_COUNT)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(_COUNT).clear()


@dataclass(frozen=True)
class PurgingTrigger(Trigger[Any, Window]):
    """Fires as another trigger does, and forgets the window's contents each time."""

    nested_trigger: Trigger[Any, Any]

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Return the trigger around another."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _with_purge(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _with_purge(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _with_purge(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


@dataclass(frozen=True)
class NeverTrigger(Trigger[Any, Window]):
    """Never fires: what a global window has until it is given a trigger."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Do nothing: there are neither timers nor state to carry over."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Do nothing: there are neither timers nor state."""


def _with_purge(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


def _fire_time(ctx: Trigger.TriggerContext) -> ReducingState[int]:
    return cast("ReducingState[int]", ctx.get_partitioned_state(_FIRE_TIME))


def _check_interval(interval_ms: int) -> None:
    if interval_ms <= 0:
        what = f"a continuous trigger got an interval of {interval_ms} ms"
        raise refused(InvalidArgumentError, what, "give 1 ms or more")
