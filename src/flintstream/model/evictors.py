"""Evictors: which records of a window are left out when it gives a result.

An evictor sees all records of a window, before or after the window's function, and takes some away for good. So such a
window keeps every record, and nothing is aggregated as it comes; hence evictors are rare, and apart from triggers.

Flink: the evictors of org.apache.flink.streaming.api.windowing.evictors, which PyFlink lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused
from flintstream.model.metrics import MetricGroup
from flintstream.model.time import MIN_TIMESTAMP, DurationLike, to_millis

T = TypeVar("T")
W = TypeVar("W")


class TimestampedValue(Generic[T]):
    """A record of a window: its value, and its timestamp if it has one."""

    __slots__ = ("_timestamp", "_value")

    def __init__(self, value: T, timestamp: int | None = None) -> None:
        self._value = value
        self._timestamp = None if timestamp == MIN_TIMESTAMP else timestamp

    def get_value(self) -> T:
        """Return the record itself."""
        return self._value

    def get_timestamp(self) -> int | None:
        """Return the record's event time in ms, None if it has none."""
        return self._timestamp

    def has_timestamp(self) -> bool:
        """Say whether the record has an event time."""
        return self._timestamp is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimestampedValue):
            return False
        return self._value == other._value and self._timestamp == other._timestamp

    def __hash__(self) -> int:
        return hash((self._value, self._timestamp))

    def __repr__(self) -> str:
        return f"TimestampedValue({self._value!r}, {self._timestamp})"


class Evictor(ABC, Generic[T, W]):
    """Takes records out of a window that fires; write a subclass for rules of your own."""

    class EvictorContext(ABC):
        """The clocks."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return processing time in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group in which the evictor registers its metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return event time in ms."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Called when a window fires, before its function; removes from the list what the function must not see."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Called after the window's function; removes from the list what the window must not keep."""


class _Evicting(Evictor[Any, Any]):
    """The part that all evictors here share: one rule, applied before or after the function."""

    do_evict_after: bool

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        """Remove from the list what the rule takes away."""

    def evict_before(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)


@dataclass(frozen=True)
class CountEvictor(_Evicting):
    """Keeps the last `max_count` records."""

    max_count: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        if self.max_count < 0:
            what = f"CountEvictor got a count of {self.max_count}"
            raise refused(InvalidArgumentError, what, "give 0 or more")

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return the evictor for that many records."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        del elements[: max(0, len(elements) - self.max_count)]


@dataclass(frozen=True)
class TimeEvictor(_Evicting):
    """Keeps the records that are less than `window_size_ms` older than the newest one."""

    window_size_ms: int
    do_evict_after: bool = False

    @staticmethod
    def of(window_size: DurationLike, do_evict_after: bool = False) -> TimeEvictor:
        """Return the evictor for that length of time."""
        return TimeEvictor(to_millis(window_size), do_evict_after)

    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        # As in Flink the first record answers for all: records of a stream have timestamps, or none has.
        if not elements or not elements[0].has_timestamp():
            return
        times = [element.get_timestamp() or 0 for element in elements]
        cutoff = max(times) - self.window_size_ms
        elements[:] = [element for element, time in zip(elements, times, strict=True) if time > cutoff]


class DeltaFunction(ABC):
    """Measures how far two records are apart."""

    @abstractmethod
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        """Called with an older and a newer record; returns the distance between them."""


Delta: TypeAlias = DeltaFunction | Callable[[Any, Any], float]


@dataclass(frozen=True)
class DeltaEvictor(_Evicting):
    """Keeps the records that are nearer than `threshold` to the last one."""

    threshold: float
    delta_function: Delta
    do_evict_after: bool = False

    @staticmethod
    def of(threshold: float, delta_function: Delta, do_evict_after: bool = False) -> DeltaEvictor:
        """Return the evictor for that distance, measured by `delta_function(old, new)`."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        if not elements:
            return
        measure = self.delta_function
        delta = measure.get_delta if isinstance(measure, DeltaFunction) else measure
        last = elements[-1].get_value()
        elements[:] = [element for element in elements if delta(element.get_value(), last) < self.threshold]
