"""Functions of a whole window: called when a trigger fires, with everything the window holds.

Flink: WindowFunction and its relatives in pyflink.datastream.functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from flintstream.model.context import KeyedStateStore
from flintstream.model.functions import Function
from flintstream.model.panes import PaneInfo

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Turns the contents of one window of one key into any number of records."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Called when the window fires; every item of the result goes downstream."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Turns the contents of one window of a stream without keys into any number of records."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Called when the window fires; every item of the result goes downstream."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Like `WindowFunction`, with the clocks and with state beside the window's contents."""

    class Context(ABC, Generic[W2]):
        """What is known about the window that fires."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return processing time in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return event time in ms."""

        @abstractmethod
        def pane(self) -> PaneInfo:
            """Return which of the window's panes this is, if the stream declares panes, by `accumulating()` say."""

        def completeness(self) -> float | None:
            """Return which share of the records is believed to have come; None if no strategy has an opinion.

            `WatermarkStrategy.learned(...)` has one: the share of records whose lateness its bound covers.
            """
            return None

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this key and this window; whoever uses it clears it in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state of this key that all its windows share."""

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context[Any], elements: Iterable[IN]) -> Iterable[OUT]:
        """Called when the window fires; every item of the result goes downstream."""

    def clear(self, context: ProcessWindowFunction.Context[Any]) -> None:
        """Called when the window goes away; clear the window's own state here."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Like `ProcessWindowFunction`, for a stream without keys."""

    class Context(ABC, Generic[W2]):
        """What is known about the window that fires."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        def completeness(self) -> float | None:
            """Return which share of the records is believed to have come; None if no strategy has an opinion.

            `WatermarkStrategy.learned(...)` has one: the share of records whose lateness its bound covers.
            """
            return None

        @abstractmethod
        def pane(self) -> PaneInfo:
            """Return which of the window's panes this is, if the stream declares panes, by `accumulating()` say."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this window; whoever uses it clears it in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state that all windows share."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[Any], elements: Iterable[IN]) -> Iterable[OUT]:
        """Called when the window fires; every item of the result goes downstream."""

    def clear(self, context: ProcessAllWindowFunction.Context[Any]) -> None:
        """Called when the window goes away; clear the window's own state here."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Emits what the window holds: what follows an incremental aggregate when the user wants nothing more."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Emits what the window holds, for a stream without keys."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs
