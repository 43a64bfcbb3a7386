"""What assigners, triggers, evictors and window functions may ask while a window is processed.

One object of each kind serves all keys and windows: it stands at the backend's current key and at `window`, which the
operator moves before it calls.

Flink: WindowOperator.Context, WindowOperator.WindowContext, EvictingWindowOperator.EvictorContext.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from flintstream.errors import UnsupportedError, describe
from flintstream.model.context import KeyedStateStore, RuntimeContext
from flintstream.model.evictors import Evictor
from flintstream.model.functions_window import ProcessAllWindowFunction, ProcessWindowFunction
from flintstream.model.panes import PaneInfo
from flintstream.model.state import State, StateDescriptor
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.triggers import Trigger
from flintstream.model.window_assigner import WindowAssigner
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.keyed import KeyedTimerService
from flintstream.ops.metrics import OperatorMetrics
from flintstream.ops.operator import OperatorContext
from flintstream.ops.window_state import NoWindowStateStore, WindowStateStore
from flintstream.state.backend import KeyedBackend


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """What an assigner may ask."""

    def __init__(self, timers: KeyedTimerService, runtime: OperatorRuntimeContext) -> None:
        self._timers = timers
        self._runtime = runtime

    def get_current_processing_time(self) -> int:
        return self._timers.now

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime


class EvictorContext(Evictor.EvictorContext):
    """What an evictor may ask."""

    def __init__(self, ctx: OperatorContext, timers: KeyedTimerService) -> None:
        self._timers = timers
        self._metrics = OperatorMetrics(ctx)

    def get_current_processing_time(self) -> int:
        return self._timers.now

    def get_metric_group(self) -> Any:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.watermark


class TriggerContext(Trigger.OnMergeContext):
    """What a trigger may ask of the current key and `window`; `merged` are the windows that became `window`.

    `is_kept(window, time, of event time)` tells the operator's own timers, which no trigger can take back.
    """

    def __init__(
        self, ctx: OperatorContext, timers: KeyedTimerService, is_kept: Callable[[Any, int, bool], bool]
    ) -> None:
        self._backend: KeyedBackend = ctx.backend
        self._timers = timers
        self._is_kept = is_kept
        self._moved: list[tuple[StateDescriptor, dict[Any, Any]]] = []
        self._metrics = OperatorMetrics(ctx)
        self._state = WindowStateStore(ctx, "trigger")
        self.window: Any = None
        self.merged: Collection[Any] = ()

    def get_current_processing_time(self) -> int:
        return self._timers.now

    def get_metric_group(self) -> Any:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.processing.register(self._backend.key, self.window, min(time, MAX_TIMESTAMP))

    def register_event_time_timer(self, time: int) -> None:
        self._timers.event.register(self._backend.key, self.window, min(time, MAX_TIMESTAMP))

    def delete_processing_time_timer(self, time: int) -> None:
        if not self._is_kept(self.window, time, False):
            self._timers.processing.unregister(self._backend.key, self.window, min(time, MAX_TIMESTAMP))

    def delete_event_time_timer(self, time: int) -> None:
        if not self._is_kept(self.window, time, True):
            self._timers.event.unregister(self._backend.key, self.window, min(time, MAX_TIMESTAMP))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        self._state.window = self.window
        return self._state.get_any_state(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        sources = [window for window in self.merged if window != self.window]
        self._moved.append((state_descriptor, self._state.copies(state_descriptor, sources)))
        self._state.merge(state_descriptor, self.window, self.merged)

    def clear_merged(self, trigger: Trigger[Any, Any]) -> None:
        """Let a trigger clear the windows that became another.

        State that was merged is shown to it once more, since that may be all it has to find its timers by.
        """
        result = self.window
        for window in self.merged:
            if window == result:
                continue
            self.window = window
            for descriptor, copies in self._moved:
                self._state.restore(descriptor, window, copies.get(window))
            trigger.clear(window, self)
            for descriptor, _ in self._moved:
                self._state.restore(descriptor, window, None)
        self._moved.clear()
        self.window = result


class ProcessContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """What a window function may ask about the window that fires or goes away."""

    def __init__(
        self, ctx: OperatorContext, timers: KeyedTimerService, runtime: OperatorRuntimeContext, merging: bool
    ) -> None:
        self._timers = timers
        self._runtime = runtime
        self._state = NoWindowStateStore(ctx) if merging else WindowStateStore(ctx, "window")
        self._name = ctx.name
        self.pane_info: PaneInfo | None = None
        self._ctx = ctx

    def at(self, window: Any) -> None:
        """Stand at a window."""
        self._state.window = window

    def window(self) -> Any:
        return self._state.window

    def current_processing_time(self) -> int:
        return self._timers.now

    def current_watermark(self) -> int:
        return self._timers.watermark

    def completeness(self) -> float | None:
        return self._ctx.completeness(self._timers.watermark)

    def pane(self) -> PaneInfo:
        if self.pane_info is None:
            what = "a window function asked for its pane, but the panes of these windows are not counted"
            remedy = "call accumulating(), discarding() or retracting() on the windowed stream"
            raise UnsupportedError(describe(what, f"operator {self._name!r}", remedy))
        return self.pane_info

    def window_state(self) -> KeyedStateStore:
        return self._state

    def global_state(self) -> KeyedStateStore:
        return self._runtime
