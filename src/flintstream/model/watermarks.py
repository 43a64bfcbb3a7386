"""Watermark strategies: where timestamps come from and how far event time has got, as a value.

Flink: pyflink.common.watermark_strategy. The strategy only says what is wanted; the engine computes it, over whole
columns where it can. Differs from PyFlink: a strategy never changes, so use what `with_...` returns; `with_idleness`
keeps the timestamp assigner; and the assigner may be a plain callable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe
from flintstream.model.row import get_field
from flintstream.model.time import MIN_TIMESTAMP, DurationLike, to_millis, to_timestamp_ms


class TimestampAssigner(ABC):
    """Reads the event-time timestamp of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Called for every record with the timestamp it already has; returns its timestamp in ms."""


@dataclass(frozen=True)
class CallableTimestampAssigner(TimestampAssigner):
    """A `TimestampAssigner` made from `f(value, record_timestamp)`."""

    wrapped: Callable[[Any, int], int]

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.wrapped(value, record_timestamp)


@dataclass(frozen=True)
class FieldTimestampAssigner(TimestampAssigner):
    """Takes the timestamp from a named field of a row, dict, dataclass or object: ms, a `datetime` or an `Instant`."""

    column: str

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return to_timestamp_ms(get_field(value, self.column))


WatermarkKind: TypeAlias = Literal["bounded", "monotonous", "none"]


@dataclass(frozen=True)
class WatermarkStrategy:
    """How timestamps and watermarks of a stream are made.

    Attributes:
        kind: "bounded" (records up to `bound_ms` late), "monotonous" (the same with 0), "none" (no watermarks).
        bound_ms: how far, in ms, the watermark stays behind the greatest timestamp.
        assigner: reads the timestamp of a record, or None for the one it has.
        column: the field that holds the timestamp, instead of an assigner.
        idle_timeout_ms: after how many ms without records a split is left out of the minimum, or None for never.
    """

    kind: WatermarkKind
    bound_ms: int = 0
    assigner: TimestampAssigner | None = None
    column: str | None = None
    idle_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        if self.bound_ms < 0:
            what = f"records cannot be out of order by {self.bound_ms} ms"
            raise InvalidArgumentError(describe(what, remedy="give 0 ms or more"))
        if self.idle_timeout_ms is not None and self.idle_timeout_ms <= 0:
            what = f"an idle timeout of {self.idle_timeout_ms} ms is not positive"
            raise InvalidArgumentError(describe(what, remedy="give 1 ms or more"))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return the strategy for timestamps that never go back within a split."""
        return WatermarkStrategy("monotonous")

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: DurationLike) -> WatermarkStrategy:
        """Return the strategy for records that come at most that much after later ones."""
        return WatermarkStrategy("bounded", to_millis(max_out_of_orderness))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return the strategy that makes no watermarks: event time stands still until a bounded input ends."""
        return WatermarkStrategy("none")

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Return this strategy with timestamps read by an assigner or by `f(value, record_timestamp)`."""
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, assigner=timestamp_assigner, column=None)
        if isinstance(timestamp_assigner, type) or not callable(timestamp_assigner):
            what = f"{timestamp_assigner!r} cannot read timestamps"
            raise TypeMismatchError(
                describe(what, remedy="pass a TimestampAssigner object or a callable (value, record_timestamp)")
            )
        return replace(self, assigner=CallableTimestampAssigner(timestamp_assigner), column=None)

    def with_timestamp_column(self, column: str) -> WatermarkStrategy:
        """Return this strategy with timestamps taken from a named field."""
        if not column:
            raise InvalidArgumentError(describe("the timestamp column has no name", remedy="name a field"))
        return replace(self, assigner=None, column=column)

    def with_idleness(self, idle_timeout: DurationLike) -> WatermarkStrategy:
        """Return this strategy with splits left out after that time without records."""
        return replace(self, idle_timeout_ms=to_millis(idle_timeout))

    def timestamp_assigner(self) -> TimestampAssigner | None:
        """Return what reads the timestamp of a record, whether it was given as assigner, callable or column."""
        return self.assigner if self.column is None else FieldTimestampAssigner(self.column)

    def watermark_after(self, max_timestamp: int) -> int:
        """Return the watermark of a split whose greatest timestamp so far is `max_timestamp`.

        Example:
            >>> WatermarkStrategy.for_bounded_out_of_orderness("2s").watermark_after(10_000)
            7999
        """
        if self.kind == "none":
            return MIN_TIMESTAMP
        return max(MIN_TIMESTAMP, max_timestamp - self.bound_ms - 1)


def bounded(max_out_of_orderness: DurationLike, on: str | None = None) -> WatermarkStrategy:
    """Return `for_bounded_out_of_orderness`, with timestamps from the field `on`: `bounded("2s", on="ts")`."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(max_out_of_orderness)
    return strategy if on is None else strategy.with_timestamp_column(on)


def monotonous(on: str | None = None) -> WatermarkStrategy:
    """Return `for_monotonous_timestamps`, with timestamps from the field `on`: `monotonous(on="ts")`."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return strategy if on is None else strategy.with_timestamp_column(on)
