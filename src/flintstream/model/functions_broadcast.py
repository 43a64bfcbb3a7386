"""Functions of a stream and a broadcast stream: every instance sees every broadcast record and keeps the same map.

Flink: the ...BroadcastProcessFunction classes of pyflink.datastream.functions, and KeyedStateFunction, which only
Flink's Java API has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flintstream.model.context import TimeDomain, TimerService
from flintstream.model.functions import Function
from flintstream.model.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class BaseBroadcastProcessFunction(Function):
    """What both broadcast functions share: the contexts of the two sides."""

    class BaseContext(ABC):
        """What is known about the current record on either side."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the timestamp in ms of the current record, None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return processing time in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return event time in ms."""

    class Context(BaseContext):
        """The broadcast side: may change the broadcast state, and must change it alike everywhere."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return the broadcast state with that name."""

    class ReadOnlyContext(BaseContext):
        """The other side: may only read the broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Return the broadcast state with that name."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """For a stream without keys."""

    class Context(BaseBroadcastProcessFunction.Context):
        """The broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The other side."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Any:
        """Called for every record of the stream; what is yielded goes downstream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Any:
        """Called in every instance for every broadcast record; what is yielded goes downstream."""


class KeyedStateFunction(ABC):
    """Does something with one state of every key; see `apply_to_keyed_state`."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None:
        """Called for every key, with its state of the kind that the descriptor names."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """For a keyed stream, with state and timers for each key."""

    class Context(BaseBroadcastProcessFunction.Context):
        """The broadcast side: has no current key."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
        ) -> None:
            """Call `function(key, state)` for every key of this instance that has such state; it may change it."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The keyed side."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks and the timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the current record or timer."""

    class OnTimerContext(ReadOnlyContext):
        """What is known about the timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timer belongs to."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Any:
        """Called for every record of the keyed stream; what is yielded goes downstream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Any:
        """Called in every instance for every broadcast record; what is yielded goes downstream."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Any:
        """Called when a timer of the current key fires; what is yielded goes downstream."""
        return None
