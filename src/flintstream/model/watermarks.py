"""Watermark strategies: where timestamps come from and how far event time has got, as a value.

Flink: pyflink.common.watermark_strategy. The strategy only says what is wanted; the engine computes it, over whole
columns where it can. Differs from PyFlink: a strategy never changes, so use what `with_...` returns; `with_idleness`
keeps the timestamp assigner; the assigner may be a plain callable; and generators, ingestion time, learned bounds and
ranges of time are additions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import pyarrow.compute as pc

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe
from flintstream.model.location import refused
from flintstream.model.row import get_field
from flintstream.model.time import MIN_TIMESTAMP, DurationLike, TimestampLike, to_millis, to_timestamp_ms
from flintstream.model.watermark_generators import GeneratorSupplier, WatermarkGenerator
from flintstream.model.watermark_options import LearnedBound, TimeRange, WatermarkAlignment


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
    """Takes the timestamp from a field of a row, dict, dataclass, object or tuple: ms, `datetime` or `Instant`."""

    column: str | int

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        column = self.column
        return to_timestamp_ms(value[column] if isinstance(column, int) else get_field(value, column))


@dataclass(frozen=True, eq=False)
class TimestampExpression:
    """An Arrow expression that gives the timestamps of whole columns; comparing two would make a third."""

    arrow: pc.Expression


WatermarkKind: TypeAlias = Literal["bounded", "monotonous", "none", "generator", "learned"]


@dataclass(frozen=True)
class WatermarkStrategy:
    """How timestamps and watermarks of a stream are made.

    Attributes:
        kind: "bounded" (records up to `bound_ms` late), "monotonous" (the same with 0), "none" (no watermarks),
            "generator" (those of the user's own class), "learned" (bounded, by what was seen).
        bound_ms: how far, in ms, the watermark stays behind the greatest timestamp.
        assigner: reads the timestamp of a record, or None for the one it has.
        column: the field that holds the timestamp, instead of an assigner.
        expression: what computes the timestamps of whole columns, instead of either.
        idle_timeout_ms: after how many ms without records a split is left out of the minimum, or None for never.
        generator: makes the watermark generator of a split, if `kind` says so.
        learning: how the bound is learned, if `kind` says so.
        is_ingestion: whether the source itself stamps records as they enter.
        alignment: the group of splits that keep pace with each other, or None.
        range: the event times to read, or None for all.
    """

    kind: WatermarkKind
    bound_ms: int = 0
    assigner: TimestampAssigner | None = None
    column: str | int | None = None
    idle_timeout_ms: int | None = None
    generator: GeneratorSupplier | None = None
    learning: LearnedBound | None = None
    is_ingestion: bool = False
    alignment: WatermarkAlignment | None = None
    range: TimeRange | None = None
    expression: TimestampExpression | None = None

    def __post_init__(self) -> None:
        if self.bound_ms < 0:
            what = f"records cannot be out of order by {self.bound_ms} ms"
            raise refused(InvalidArgumentError, what, "give 0 ms or more")
        if self.idle_timeout_ms is not None and self.idle_timeout_ms <= 0:
            what = f"an idle timeout of {self.idle_timeout_ms} ms is not positive"
            raise refused(InvalidArgumentError, what, "give 1 ms or more")

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

    @staticmethod
    def for_generator(generator_supplier: GeneratorSupplier) -> WatermarkStrategy:
        """Return the strategy whose watermarks a generator of the user's makes, one for each split.

        Args:
            generator_supplier: A subclass of `WatermarkGenerator`, or a function without arguments that makes one.
        """
        if isinstance(generator_supplier, WatermarkGenerator) or not callable(generator_supplier):
            what = f"{generator_supplier!r} does not make watermark generators"
            remedy = "pass the class, or a function that makes a new one: every split has its own"
            raise refused(TypeMismatchError, what, remedy)
        return WatermarkStrategy("generator", generator=generator_supplier)

    @staticmethod
    def for_ingestion_time() -> WatermarkStrategy:
        """Return the strategy that stamps records with the time at which they enter the job.

        Stamps never go back within a split, through restarts and when the clock is set back; event time follows the
        clock by itself, also while nothing comes.
        """
        return WatermarkStrategy("monotonous", is_ingestion=True)

    @staticmethod
    def learned(
        target: float = 0.999, *, max_out_of_orderness: DurationLike | None = None, half_life: int = 10_000
    ) -> WatermarkStrategy:
        """Return the strategy that chooses its bound by the lateness it sees, and again when that changes.

        Until a split has brought its first 128 records, its watermark waits. Window functions can ask how complete
        a result is believed to be: `context.completeness()`.

        Args:
            target: The share of records that shall be on time.
            max_out_of_orderness: The bound never grows beyond this.
            half_life: After how many records of a split the lateness of one counts half.
        """
        most = None if max_out_of_orderness is None else to_millis(max_out_of_orderness)
        return WatermarkStrategy("learned", learning=LearnedBound(target, most, half_life))

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Return this strategy with timestamps read by an assigner or by `f(value, record_timestamp)`."""
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, assigner=timestamp_assigner, column=None, expression=None)
        if isinstance(timestamp_assigner, type) or not callable(timestamp_assigner):
            what = f"{timestamp_assigner!r} cannot read timestamps"
            raise TypeMismatchError(
                describe(what, remedy="pass a TimestampAssigner object or a callable (value, record_timestamp)")
            )
        return replace(self, assigner=CallableTimestampAssigner(timestamp_assigner), column=None, expression=None)

    def with_timestamp_expression(self, expression: pc.Expression) -> WatermarkStrategy:
        """Return this strategy with timestamps computed on whole columns: `pc.field("seconds") * 1000`."""
        if not isinstance(cast("Any", expression), pc.Expression):
            what = f"{expression!r} is not an Arrow expression"
            raise refused(TypeMismatchError, what, "pass one such as pyarrow.compute.field('seconds') * 1000")
        return replace(self, assigner=None, column=None, expression=TimestampExpression(expression))

    def with_timestamp_column(self, column: str | int) -> WatermarkStrategy:
        """Return this strategy with timestamps taken from a field, by its name or, in a tuple, its position."""
        if column == "":
            raise refused(InvalidArgumentError, "the timestamp column has no name", "name a field")
        return replace(self, assigner=None, column=column, expression=None)

    def with_idleness(self, idle_timeout: DurationLike) -> WatermarkStrategy:
        """Return this strategy with splits left out after that time without records."""
        return replace(self, idle_timeout_ms=to_millis(idle_timeout))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: DurationLike,
        update_interval: DurationLike | None = None,
    ) -> WatermarkStrategy:
        """Return this strategy with splits that wait for the slowest of their group.

        Args:
            watermark_group: The group; sources that name the same one are aligned.
            max_allowed_watermark_drift: How far ahead of the slowest split others are read.
            update_interval: Without effect, and a warning: alignment is looked at before every epoch.
        """
        interval = None if update_interval is None else to_millis(update_interval)
        alignment = WatermarkAlignment(watermark_group, to_millis(max_allowed_watermark_drift), interval)
        return replace(self, alignment=alignment)

    def between(self, start: TimestampLike | None = None, end: TimestampLike | None = None) -> WatermarkStrategy:
        """Return this strategy for the records from `start` to before `end` only.

        A split ends as soon as its watermark says that nothing before `end` is to come; it is read no further.
        """
        borders = (None if border is None else to_timestamp_ms(border) for border in (start, end))
        return replace(self, range=TimeRange(*borders))

    def timestamp_assigner(self) -> TimestampAssigner | None:
        """Return what reads the timestamp of a record, given as assigner, callable or column."""
        return self.assigner if self.column is None else FieldTimestampAssigner(self.column)

    @property
    def is_sequential(self) -> bool:
        """Whether watermarks depend on all records of a split in their order, and not only on the greatest one."""
        return self.kind in ("generator", "learned") or self.range is not None

    def watermark_after(self, max_timestamp: int) -> int:
        """Return the watermark of a split whose greatest timestamp so far is `max_timestamp`.

        Example:
            >>> WatermarkStrategy.for_bounded_out_of_orderness("2s").watermark_after(10_000)
            7999
        """
        if self.kind == "none":
            return MIN_TIMESTAMP
        return max(MIN_TIMESTAMP, max_timestamp - self.bound_ms - 1)


def bounded(max_out_of_orderness: DurationLike, on: str | int | None = None) -> WatermarkStrategy:
    """Return `for_bounded_out_of_orderness`, with timestamps from the field `on`: `bounded("2s", on="ts")`."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(max_out_of_orderness)
    return strategy if on is None else strategy.with_timestamp_column(on)


def monotonous(on: str | int | None = None) -> WatermarkStrategy:
    """Return `for_monotonous_timestamps`, with timestamps from the field `on`: `monotonous(on="ts")`."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return strategy if on is None else strategy.with_timestamp_column(on)
