"""Metrics as a function sees them; the engine supplies what is behind.

Flink: pyflink.metrics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Metric(ABC):  # noqa: B024  # a mark: metrics share nothing but their place in a group
    """Something that is measured."""


class Counter(Metric):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add `n`."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the count so far."""


class Meter(Metric):
    """A rate."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Note that `value` events happened now."""

    @abstractmethod
    def get_count(self) -> int:
        """Return how many events were noted so far."""


class Distribution(Metric):
    """Count, sum, least and greatest of integers."""

    @abstractmethod
    def update(self, value: int) -> None:
        """Note a value."""


class MetricGroup(ABC):
    """A named place where metrics are registered; groups nest."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group inside this one; with `extra`, a pair of key group and value group."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Register a counter."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Register a callable that is asked for a number whenever metrics are reported."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Register a meter over the last `time_span_in_seconds`."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Register a distribution."""
