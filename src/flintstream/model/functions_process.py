"""Functions that see one record, its time, and timers: the lowest level of the API.

Flink: ProcessFunction and KeyedProcessFunction of pyflink.datastream.functions. A process function returns an iterable
or is a generator; what it yields goes downstream, and a yielded pair `tag, value` goes to the side output of that tag.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flintstream.model.context import TimeDomain, TimerService
from flintstream.model.functions import Function


class ProcessFunction(Function):
    """Turns one record of a stream without keys into any number of records."""

    class Context(ABC):
        """What is known about the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks; without keys there is nothing to set a timer for."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's timestamp in ms, None if it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        """Called for every record; what is yielded goes downstream."""


class KeyedProcessFunction(Function):
    """Turns records of one key into any number of records, with state and timers for that key."""

    class Context(ABC):
        """What is known about the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the current record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the timestamp in ms of the current record or timer, None if it has none."""

    class OnTimerContext(Context):
        """What is known about the timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timer belongs to."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Called for every record; what is yielded goes downstream."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """Called when a timer of the current key fires; what is yielded goes downstream."""
        return None
