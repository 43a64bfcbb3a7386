"""Windows that the data itself cuts: one window per key at a time, until a record begins another or ends it.

Where such a window ends is not known before the record comes that ends it, and that record may not belong to it. So
these assigners say more than which window a record goes into, and an operator of their own listens to them.

Flink: none; there one takes GlobalWindows with a DeltaTrigger, which puts the record that ends a window into it, and
keeps the trigger's state for ever. Here nothing of a window is left when it has ended.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.location import refused
from flintstream.model.triggers import EventTimeTrigger, Trigger
from flintstream.model.window_assigner import WindowAssigner
from flintstream.model.windows import GlobalWindow

T = TypeVar("T")


class DataWindows(WindowAssigner[T, GlobalWindow]):
    """Windows cut by the records of a key, in the order in which they come; write a subclass for rules of your own.

    A window gives its result when it ends, with the timestamp of the record that ended it. By default one that is still
    open when the input ends gives it then; a trigger may say otherwise, and give results in between.
    """

    def mark(self, element: T) -> Any:
        """Called for the first record of every window; what it returns is kept, and shown to `begins_window`."""
        return None

    @abstractmethod
    def begins_window(self, element: T, mark: Any) -> bool:
        """Called for every further record; says whether the window ends before it, so that it begins another."""

    @abstractmethod
    def ends_window(self, element: T) -> bool:
        """Called for every record; says whether it is the last one of its window."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        # Event time passes the end of a window without one when the input ends.
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return False


@dataclass(frozen=True)
class DeltaWindows(DataWindows[Any]):
    """A window ends before the record whose value differs by more than `threshold` from that of its first record."""

    threshold: float
    value: Callable[[Any], Any]

    def __post_init__(self) -> None:
        _check_callable(self.value, "lambda record: record['speed']")
        if not self.threshold >= 0:
            what = f"DeltaWindows got a threshold of {self.threshold}"
            raise refused(InvalidArgumentError, what, "give 0 or more")

    @staticmethod
    def of(threshold: float, value: Callable[[Any], Any]) -> DeltaWindows:
        """Return windows within which `value(record)` stays within `threshold` of where it was at first."""
        return DeltaWindows(threshold, value)

    def mark(self, element: Any) -> Any:
        return self.value(element)

    def begins_window(self, element: Any, mark: Any) -> bool:
        return abs(self.value(element) - mark) > self.threshold

    def ends_window(self, element: Any) -> bool:
        return False


@dataclass(frozen=True)
class UntilWindows(DataWindows[Any]):
    """A window ends with the record that fulfils a condition."""

    condition: Callable[[Any], bool]

    def __post_init__(self) -> None:
        _check_callable(self.condition, "lambda record: record['type'] == 'logout'")

    @staticmethod
    def of(condition: Callable[[Any], bool]) -> UntilWindows:
        """Return windows that end with a record for which `condition(record)` is true."""
        return UntilWindows(condition)

    def begins_window(self, element: Any, mark: Any) -> bool:
        return False

    def ends_window(self, element: Any) -> bool:
        return bool(self.condition(element))


def _check_callable(function: object, example: str) -> None:
    if not callable(function):
        raise refused(TypeMismatchError, f"{function!r:.100} is not a function", f"pass one such as {example}")
