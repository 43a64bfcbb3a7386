"""Windows: the finite pieces of a stream, as small values that serve as keys of state.

Intervals are half open here and everywhere: `[start, end)` holds `start` and not `end`, so the last millisecond of a
window is `max_timestamp = end - 1`. Flink: pyflink.datastream.window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from flintstream.model.time import MAX_TIMESTAMP


class Window(ABC):
    """A piece of a stream; equal windows share their state."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the last timestamp in ms that belongs to the window."""


class TimeWindow(Window):
    """The time from `start` to before `end`, in ms; ordered by start, then by end.

    One is made for every record, so it is a plain class: a frozen dataclass takes three times as long to make.
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Say whether the two have a time in common or touch: sessions that touch are one session."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window that holds a timestamp, in a grid of windows shifted by `offset`.

        Example:
            >>> TimeWindow.get_window_start_with_offset(-1, 0, 10)
            -10
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        """Report every group of windows that overlap or touch, once, with the window that covers the group."""
        group: list[TimeWindow] = []
        covering: TimeWindow | None = None
        for window in sorted(set(windows)):
            if covering is not None and covering.intersects(window):
                covering = covering.cover(window)
                group.append(window)
                continue
            if covering is not None and len(group) > 1:
                callback.merge(group, covering)
            covering, group = window, [window]
        if covering is not None and len(group) > 1:
            callback.merge(group, covering)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) <= (other.start, other.end)

    def __reduce__(self) -> tuple[Any, ...]:
        return TimeWindow, (self.start, self.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class MergeCallback(Protocol):
    """Is told which windows become one."""

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Called once for every group of windows that become one window."""
        ...


class CountWindow(Window):
    """The `id`-th group of records of a key; has no end in time."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __lt__(self, other: CountWindow) -> bool:
        return self.id < other.id

    def __le__(self, other: CountWindow) -> bool:
        return self.id <= other.id

    def __reduce__(self) -> tuple[Any, ...]:
        return CountWindow, (self.id,)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """Everything; all global windows are equal."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the global window."""
        return _GLOBAL

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __lt__(self, other: GlobalWindow) -> bool:
        return False

    def __le__(self, other: GlobalWindow) -> bool:
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return GlobalWindow.get, ()

    def __repr__(self) -> str:
        return "GlobalWindow"


_GLOBAL = GlobalWindow()
