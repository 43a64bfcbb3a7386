"""The contract of a window assigner, apart from the assigners themselves because user code implements it too.

Flink: WindowAssigner and MergingWindowAssigner of pyflink.datastream.window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from flintstream.errors import JobError, describe
from flintstream.model.context import RuntimeContext
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.triggers import Trigger

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Says which windows a record belongs to; write a subclass for windows of your own.

    A PyFlink assigner's `get_window_serializer` is neither needed nor called: windows are kept as values.
    """

    class WindowAssignerContext(ABC):
        """What an assigner may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return processing time in ms."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the operator's context, with the state of the current key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Called for every record; returns the windows that it belongs to, possibly none."""

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger[T, W]:
        """Return the trigger for streams that name none."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Say whether the windows are ones of event time, so that records can be late for them."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can grow together, as sessions do."""

    class MergeCallback(ABC, Generic[W2]):
        """Is told which windows become one."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Called once for every group of windows that become one window."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Called with all windows of a key when one was added; reports every group that becomes one window."""


def require_timestamp(assigner: object, timestamp: int | None) -> int:
    """Return the timestamp of a record, or say what to do about a record without one.

    Raises:
        JobError: the record has no timestamp.
    """
    if timestamp is None or timestamp <= MIN_TIMESTAMP:
        what = f"a record has no timestamp, but {type(assigner).__name__} needs one"
        remedy = "call assign_timestamps_and_watermarks(...) before window(...), or use processing-time windows"
        raise JobError(describe(what, remedy=remedy))
    return timestamp
