"""Metrics as a function sees them, and as the job's result shows them; the engine supplies what is behind.

Flink: pyflink.metrics, and the histograms of org.apache.flink.metrics.
Differs from Flink: what a function counts is committed with its epoch, once, however often a task was tried; the job's
result has the whole of it, over all subtasks and all restarts. What a function reads back (`get_count`) is only what
its own instance has seen since it was opened in its process.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused

Number = int | float


class Metric(ABC):  # noqa: B024  # a mark: metrics share nothing but their place in a group
    """Something that is measured."""


class Counter(Metric):
    """A number that goes up and down; the job's result has the sum over all subtasks."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add `n`."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the count so far of this instance, since it was opened here."""


class Meter(Metric):
    """A rate; the job's result has a `MeterResult`."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Note that `value` events happened now."""

    @abstractmethod
    def get_count(self) -> int:
        """Return how many events this instance has noted since it was opened here."""


class Distribution(Metric):
    """Count, sum, least and greatest of numbers; the job's result has a `DistributionResult`."""

    @abstractmethod
    def update(self, value: Number) -> None:
        """Note a value."""


class Histogram(Metric):
    """How numbers are spread, in a bounded space; the job's result has `HistogramStatistics`."""

    @abstractmethod
    def update(self, value: Number) -> None:
        """Note a value."""

    @abstractmethod
    def get_count(self) -> int:
        """Return how many values this instance has noted since it was opened here."""

    @abstractmethod
    def get_statistics(self) -> HistogramStatistics:
        """Return how the values that this instance has noted since it was opened here are spread."""


class MetricGroup(ABC):
    """A named place where metrics are registered; groups nest.

    In the job's result a metric stands under its operator's uid as `user.<groups>.<name>`. A name that is registered
    twice is one metric.
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group inside this one; with `extra`, a pair of key group and value group."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Register a counter."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Register a callable that is asked for a number at the end of every epoch.

        The job's result has the last answer of each subtask, by its index.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Register a meter over the last `time_span_in_seconds`."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Register a distribution."""

    @abstractmethod
    def histogram(self, name: str, relative_error: float = 0.01) -> Histogram:
        """Register a histogram whose quantiles are wrong by at most `relative_error` of their value."""


@dataclass(frozen=True, slots=True)
class MeterResult:
    """What all meters of one name have noted: in all, and per second over their time span up to the last epoch."""

    count: int
    rate: float


@dataclass(frozen=True, slots=True)
class DistributionResult:
    """What all distributions of one name have noted; `min` and `max` are None if that is nothing."""

    count: int
    sum: Number
    min: Number | None
    max: Number | None

    @property
    def mean(self) -> float | None:
        """The mean, None if nothing was noted."""
        return self.sum / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class HistogramStatistics:
    """How numbers are spread: a few of them, each standing for those within the histogram's relative error.

    Attributes:
        weights: pairs of a value and how many it stands for, by ascending value.
    """

    count: int
    sum: Number
    sum_of_squares: Number
    min: Number | None
    max: Number | None
    weights: tuple[tuple[float, int], ...]

    def get_quantile(self, quantile: float) -> float:
        """Return the value below or at which a share of `quantile` of the values is; NaN if there are none."""
        if not 0.0 <= quantile <= 1.0:
            raise refused(InvalidArgumentError, f"a quantile is {quantile}", "give a share from 0 to 1")
        if self.min is None or self.max is None:
            return math.nan
        wanted, seen = max(1, math.ceil(quantile * self.count)), 0
        for value, weight in self.weights:
            seen += weight
            if seen >= wanted:
                return min(max(value, float(self.min)), float(self.max))
        return float(self.max)

    def size(self) -> int:
        """Return how many values were noted."""
        return self.count

    def get_mean(self) -> float:
        """Return the mean, NaN if there is none."""
        return self.sum / self.count if self.count else math.nan

    def get_std_dev(self) -> float:
        """Return the standard deviation of a sample, 0.0 of fewer than two values."""
        if self.count < 2:
            return 0.0
        spread = self.sum_of_squares - self.sum * self.sum / self.count
        return math.sqrt(max(0.0, spread) / (self.count - 1))

    def get_max(self) -> Number | None:
        """Return the greatest value, None if there is none."""
        return self.max

    def get_min(self) -> Number | None:
        """Return the least value, None if there is none."""
        return self.min
