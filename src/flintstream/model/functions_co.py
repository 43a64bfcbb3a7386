"""Functions of two streams that were connected: one method for each input, state shared between them.

Flink: the Co... functions of pyflink.datastream.functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flintstream.model.context import TimeDomain, TimerService
from flintstream.model.functions import Function


class CoMapFunction(Function):
    """Turns one record of either stream into one record."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Called for every record of the first stream; the result goes downstream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Called for every record of the second stream; the result goes downstream."""


class CoFlatMapFunction(Function):
    """Turns one record of either stream into any number of records."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """Called for every record of the first stream; every item of the result goes downstream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """Called for every record of the second stream; every item of the result goes downstream."""


class CoProcessFunction(Function):
    """Turns records of two streams without keys into any number of records."""

    class Context(ABC):
        """What is known about the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks; without keys there is nothing to set a timer for."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's timestamp in ms, None if it has none."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Called for every record of the first stream; what is yielded goes downstream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Called for every record of the second stream; what is yielded goes downstream."""


class KeyedCoProcessFunction(Function):
    """Turns records of one key in two streams into any number of records, with shared state and timers."""

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
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Called for every record of the first stream; what is yielded goes downstream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Called for every record of the second stream; what is yielded goes downstream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        """Called when a timer of the current key fires; what is yielded goes downstream."""
        return None
