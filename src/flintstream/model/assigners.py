"""The assigners: which windows a record belongs to, as plain values that any process can read.

Flink: the assigners of pyflink.datastream.window. Sizes and offsets are fields in milliseconds, so the engine can
compute the windows of whole columns at once. The short forms `tumbling`, `sliding` and `session` mean event time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flintstream.errors import InvalidArgumentError, JobError, describe
from flintstream.model.location import refused
from flintstream.model.time import DurationLike, format_millis, to_millis
from flintstream.model.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger, Trigger
from flintstream.model.triggers_further import EndOfStreamTrigger
from flintstream.model.window_assigner import MergingWindowAssigner, WindowAssigner, require_timestamp
from flintstream.model.windows import GlobalWindow, TimeWindow

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "session",
    "sliding",
    "tumbling",
]


class _EventTime(WindowAssigner[Any, TimeWindow]):
    """The part that all event-time assigners share."""

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTime(WindowAssigner[Any, TimeWindow]):
    """The part that all processing-time assigners share."""

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class _Sessions(MergingWindowAssigner[Any, TimeWindow]):
    """The part that all session assigners share."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


@dataclass(frozen=True)
class _Tumbling:
    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if abs(self.offset_ms) >= self.size_ms:
            what = f"{type(self).__name__} got size {self.size_ms} ms and offset {self.offset_ms} ms"
            raise refused(InvalidArgumentError, what, "keep size > 0 and |offset| < size")

    def window_at(self, timestamp: int) -> TimeWindow:
        """Return the window that holds a timestamp."""
        start = TimeWindow.get_window_start_with_offset(timestamp, self.offset_ms, self.size_ms)
        return TimeWindow(start, start + self.size_ms)

    def __str__(self) -> str:
        return f"{type(self).__name__}({_in_words(self.size_ms, self.offset_ms)})"


@dataclass(frozen=True)
class TumblingEventTimeWindows(_Tumbling, _EventTime):
    """Windows of one size, end to end, in event time.

    Example:
        >>> TumblingEventTimeWindows.of("5s").window_at(12_345)
        TimeWindow(start=10000, end=15000)
    """

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingEventTimeWindows:
        """Return windows of that size; `offset` shifts the grid, which begins at 1970-01-01T00:00Z."""
        return TumblingEventTimeWindows(to_millis(size), _offset_ms(offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.window_at(require_timestamp(self, timestamp))]


@dataclass(frozen=True)
class TumblingProcessingTimeWindows(_Tumbling, _ProcessingTime):
    """Windows of one size, end to end, in processing time."""

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingProcessingTimeWindows:
        """Return windows of that size; `offset` shifts the grid, which begins at 1970-01-01T00:00Z."""
        return TumblingProcessingTimeWindows(to_millis(size), _offset_ms(offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.window_at(context.get_current_processing_time())]


@dataclass(frozen=True)
class _Sliding:
    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if abs(self.offset_ms) >= self.slide_ms or self.size_ms <= 0:
            what = (
                f"{type(self).__name__} got size {self.size_ms} ms, slide {self.slide_ms} ms"
                f" and offset {self.offset_ms} ms"
            )
            raise refused(InvalidArgumentError, what, "keep size > 0, slide > 0 and |offset| < slide")

    def windows_at(self, timestamp: int) -> list[TimeWindow]:
        """Return the windows that hold a timestamp, the latest first; none, if it falls into a gap."""
        last_start = TimeWindow.get_window_start_with_offset(timestamp, self.offset_ms, self.slide_ms)
        starts = range(last_start, timestamp - self.size_ms, -self.slide_ms)
        return [TimeWindow(start, start + self.size_ms) for start in starts]

    def __str__(self) -> str:
        return f"{type(self).__name__}({format_millis(self.size_ms)}, {_in_words(self.slide_ms, self.offset_ms)})"


@dataclass(frozen=True)
class SlidingEventTimeWindows(_Sliding, _EventTime):
    """Windows of one size in event time, a new one after every slide, so that they overlap."""

    @staticmethod
    def of(size: DurationLike, slide: DurationLike, offset: DurationLike | None = None) -> SlidingEventTimeWindows:
        """Return windows of that size and slide; `offset` shifts the grid, which begins at 1970-01-01T00:00Z."""
        return SlidingEventTimeWindows(to_millis(size), to_millis(slide), _offset_ms(offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self.windows_at(require_timestamp(self, timestamp))


@dataclass(frozen=True)
class SlidingProcessingTimeWindows(_Sliding, _ProcessingTime):
    """Windows of one size in processing time, a new one after every slide, so that they overlap."""

    @staticmethod
    def of(size: DurationLike, slide: DurationLike, offset: DurationLike | None = None) -> SlidingProcessingTimeWindows:
        """Return windows of that size and slide; `offset` shifts the grid, which begins at 1970-01-01T00:00Z."""
        return SlidingProcessingTimeWindows(to_millis(size), to_millis(slide), _offset_ms(offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self.windows_at(context.get_current_processing_time())


class SessionWindowTimeGapExtractor(ABC):
    """Says for each record how long its session waits for the next one."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Called for every record; returns the gap in ms, more than 0."""


GapExtractor: TypeAlias = SessionWindowTimeGapExtractor | Callable[[Any], int]


@dataclass(frozen=True)
class _FixedGap:
    session_gap_ms: int

    def __post_init__(self) -> None:
        if self.session_gap_ms <= 0:
            what = f"{type(self).__name__} got a gap of {self.session_gap_ms} ms"
            raise refused(InvalidArgumentError, what, "give 1 ms or more")

    def session_from(self, start: int) -> TimeWindow:
        """Return the session of one record."""
        return TimeWindow(start, start + self.session_gap_ms)

    def __str__(self) -> str:
        return f"{type(self).__name__}({format_millis(self.session_gap_ms)})"


@dataclass(frozen=True)
class _DynamicGap:
    gap_extractor: GapExtractor

    def session_from(self, start: int, element: Any) -> TimeWindow:
        """Return the session of one record."""
        extractor = self.gap_extractor
        gap = extractor.extract(element) if isinstance(extractor, SessionWindowTimeGapExtractor) else extractor(element)
        if gap <= 0:
            what = f"the session gap of {element!r} is {gap} ms"
            raise JobError(describe(what, remedy="let the extractor return 1 ms or more"))
        return TimeWindow(start, start + gap)


@dataclass(frozen=True)
class EventTimeSessionWindows(_FixedGap, _EventTime, _Sessions):
    """Sessions in event time: records with at most the gap between them belong together."""

    @staticmethod
    def with_gap(size: DurationLike) -> EventTimeSessionWindows:
        """Return sessions with that gap."""
        return EventTimeSessionWindows(to_millis(size))

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows:
        """Return sessions whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.session_from(require_timestamp(self, timestamp))]


@dataclass(frozen=True)
class ProcessingTimeSessionWindows(_FixedGap, _ProcessingTime, _Sessions):
    """Sessions in processing time."""

    @staticmethod
    def with_gap(size: DurationLike) -> ProcessingTimeSessionWindows:
        """Return sessions with that gap."""
        return ProcessingTimeSessionWindows(to_millis(size))

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.session_from(context.get_current_processing_time())]


@dataclass(frozen=True)
class DynamicEventTimeSessionWindows(_DynamicGap, _EventTime, _Sessions):
    """Sessions in event time whose gap depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows:
        """Return sessions whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.session_from(require_timestamp(self, timestamp), element)]


@dataclass(frozen=True)
class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTime, _Sessions):
    """Sessions in processing time whose gap depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.session_from(context.get_current_processing_time(), element)]


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window for everything; it gives results only if it is given a trigger."""

    default_trigger: Trigger[Any, Any] = field(default_factory=NeverTrigger)

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """Return the assigner of a window that gives its result when the input has ended."""
        return GlobalWindows(EndOfStreamTrigger())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return self.default_trigger

    def is_event_time(self) -> bool:
        return False


def tumbling(size: DurationLike, offset: DurationLike | None = None) -> TumblingEventTimeWindows:
    """Return event-time windows of one size, end to end: `stream.window(tumbling("5s"))`."""
    return TumblingEventTimeWindows.of(size, offset)


def sliding(size: DurationLike, slide: DurationLike, offset: DurationLike | None = None) -> SlidingEventTimeWindows:
    """Return overlapping event-time windows: `stream.window(sliding("1m", "30s"))`."""
    return SlidingEventTimeWindows.of(size, slide, offset)


def session(gap: DurationLike | GapExtractor) -> EventTimeSessionWindows | DynamicEventTimeSessionWindows:
    """Return event-time sessions: `stream.window(session("5m"))`; a function gives each record a gap of its own."""
    if isinstance(gap, SessionWindowTimeGapExtractor) or callable(gap):
        return DynamicEventTimeSessionWindows(gap)
    return EventTimeSessionWindows.with_gap(gap)


def _offset_ms(offset: DurationLike | None) -> int:
    return 0 if offset is None else to_millis(offset)


def _in_words(step_ms: int, offset_ms: int) -> str:
    return format_millis(step_ms) + (f", offset {format_millis(offset_ms)}" if offset_ms else "")
