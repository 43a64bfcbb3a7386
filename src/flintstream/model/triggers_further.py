"""Flink's less common triggers, which PyFlink lacks: by distance, with a timeout, at the end of the input.

Flink: DeltaTrigger, ProcessingTimeoutTrigger, GlobalWindows.EndOfStreamTrigger. Differs from Flink: the last of these
takes back its timer when its window is cleared, and can be used with windows that merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from flintstream.errors import InvalidArgumentError
from flintstream.model.evictors import Delta, DeltaFunction
from flintstream.model.location import refused
from flintstream.model.state import ValueState, ValueStateDescriptor
from flintstream.model.time import MAX_TIMESTAMP, DurationLike, to_millis
from flintstream.model.triggers import Trigger, TriggerResult
from flintstream.model.types import Types
from flintstream.model.windows import Window

_LAST_ELEMENT = ValueStateDescriptor("last-element")
_TIMEOUT = ValueStateDescriptor("timeout", Types.LONG())


@dataclass(frozen=True)
class DeltaTrigger(Trigger[Any, Window]):
    """Fires for a record that is farther than `threshold` from the one at which it last fired, at first from the first.

    The record that fires belongs to the window already; for windows that end before it see `DeltaWindows`.
    """

    threshold: float
    delta_function: Delta

    @staticmethod
    def of(threshold: float, delta_function: Delta) -> DeltaTrigger:
        """Return the trigger for that distance, measured by `delta_function(old, new)`."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = cast("ValueState[Any]", ctx.get_partitioned_state(_LAST_ELEMENT))
        # A tuple around the record tells one that is None from none at all.
        last, measure = state.value(), self.delta_function
        delta = measure.get_delta if isinstance(measure, DeltaFunction) else measure
        if last is None:
            state.update((element,))
        elif delta(last[0], element) > self.threshold:
            state.update((element,))
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(_LAST_ELEMENT).clear()


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger[Any, Window]):
    """Fires as another trigger does, and when so much processing time has passed since the first record.

    As in Flink every timer of the window makes it fire, that at the window's end too.
    """

    nested_trigger: Trigger[Any, Any]
    timeout_ms: int
    reset_timer_on_new_record: bool = False
    should_clear_on_timeout: bool = True

    def __post_init__(self) -> None:
        if self.timeout_ms < 1:
            what = f"ProcessingTimeoutTrigger got a timeout of {self.timeout_ms} ms"
            raise refused(InvalidArgumentError, what, "give 1 ms or more")

    @staticmethod
    def of(
        nested_trigger: Trigger[Any, Any],
        timeout: DurationLike,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Return the trigger around another.

        `reset_timer_on_new_record` counts the time from the last record instead of the first;
        `should_clear_on_timeout` clears the other trigger when the time is over.
        """
        return ProcessingTimeoutTrigger(
            nested_trigger, to_millis(timeout), reset_timer_on_new_record, should_clear_on_timeout
        )

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        state = cast("ValueState[int]", ctx.get_partitioned_state(_TIMEOUT))
        timeout = state.value()
        if timeout is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(timeout)
            timeout = None
        if timeout is None:
            timeout = ctx.get_current_processing_time() + self.timeout_ms
            state.update(timeout)
            ctx.register_processing_time_timer(timeout)
        return result

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed_out(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed_out(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def _timed_out(self, result: TriggerResult, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        state = cast("ValueState[int]", ctx.get_partitioned_state(_TIMEOUT))
        timeout = state.value()
        if timeout is not None:
            ctx.delete_processing_time_timer(timeout)
            state.clear()
        self.nested_trigger.clear(window, ctx)


@dataclass(frozen=True)
class EndOfStreamTrigger(Trigger[Any, Window]):
    """Fires when the input has ended, and only then."""

    @staticmethod
    def create() -> EndOfStreamTrigger:
        """Return the trigger."""
        return EndOfStreamTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(MAX_TIMESTAMP)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == MAX_TIMESTAMP else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.register_event_time_timer(MAX_TIMESTAMP)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(MAX_TIMESTAMP)
