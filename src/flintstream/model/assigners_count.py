"""Assigners by count: the n-th group of a key's records, as PyFlink's `count_window` makes them.

Flink: CountTumblingWindowAssigner and CountSlidingWindowAssigner of pyflink.datastream.window. They keep a counter in
the key's state, unlike the assigners by time, which need none; hence the separate file.
Differs from Flink: a window is purged when it is full (PyFlink keeps its contents for ever).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused
from flintstream.model.state import ValueStateDescriptor
from flintstream.model.triggers import CountTrigger, PurgingTrigger, Trigger
from flintstream.model.types import Types
from flintstream.model.window_assigner import WindowAssigner
from flintstream.model.windows import CountWindow

_TUMBLE_COUNT = ValueStateDescriptor("tumble-count-assigner", Types.LONG())
_SLIDE_COUNT = ValueStateDescriptor("slide-count-assigner", Types.LONG())


class _Counting(WindowAssigner[Any, CountWindow]):
    """The part that both assigners share."""

    window_size: int

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        # A full window gets no more records, and nothing else would ever remove what it holds.
        return PurgingTrigger.of(CountTrigger(self.window_size))

    def is_event_time(self) -> bool:
        return False


@dataclass(frozen=True)
class CountTumblingWindowAssigner(_Counting):
    """Every `window_size` records of a key are a window."""

    window_size: int

    def __post_init__(self) -> None:
        _check_positive(self)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return the assigner for that many records."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return [CountWindow(_next_index(context, _TUMBLE_COUNT) // self.window_size)]


@dataclass(frozen=True)
class CountSlidingWindowAssigner(_Counting):
    """A window begins with every `window_slide`-th record of a key and holds `window_size` records."""

    window_size: int
    window_slide: int

    def __post_init__(self) -> None:
        _check_positive(self)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return the assigner for that many records and that slide."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        # Window i holds the records i * slide <= index < i * slide + size.
        index = _next_index(context, _SLIDE_COUNT)
        first = max(0, (index - self.window_size) // self.window_slide + 1)
        return [CountWindow(i) for i in range(index // self.window_slide, first - 1, -1)]


def _next_index(context: WindowAssigner.WindowAssignerContext, descriptor: ValueStateDescriptor) -> int:
    state = context.get_runtime_context().get_state(descriptor)
    index = state.value() or 0
    state.update(index + 1)
    return index


def _check_positive(assigner: CountTumblingWindowAssigner | CountSlidingWindowAssigner) -> None:
    if min(vars(assigner).values()) < 1:
        raise refused(InvalidArgumentError, f"{assigner} is empty", "give sizes and slides of 1 or more")
