"""User metrics of one operator, summed by the driver over all subtasks.

Flink: pyflink.metrics. Counters and meters are sums; a distribution keeps sum, count, least and greatest.
"""

from __future__ import annotations

from typing import Any

from flintstream.ops.operator import OperatorContext


class OperatorMetrics:
    """A MetricGroup whose names are joined with dots."""

    def __init__(self, ctx: OperatorContext, prefix: str = "") -> None:
        self._ctx = ctx
        self._prefix = prefix

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetrics:
        """Return the group `name` below this one."""
        inner = name if extra is None else f"{name}.{extra}"
        return OperatorMetrics(self._ctx, f"{self._prefix}{inner}.")

    def counter(self, name: str) -> OperatorCounter:
        """Return the counter `name`."""
        return OperatorCounter(self._ctx, f"user.{self._prefix}{name}")

    def meter(self, name: str, time_span_in_seconds: int = 60) -> OperatorCounter:
        """Return the meter `name`; the driver makes a rate of its count."""
        return OperatorCounter(self._ctx, f"meter.{time_span_in_seconds}.{self._prefix}{name}")

    def get_info(self) -> Any:
        """Return the group's full name."""
        return f"{self._ctx.name}.{self._prefix}".rstrip(".")


class OperatorCounter:
    """A count that only the driver's sum gives meaning to; `get_count` is this subtask's own part."""

    def __init__(self, ctx: OperatorContext, name: str) -> None:
        self._ctx = ctx
        self._name = name

    def inc(self, n: int = 1) -> None:
        """Add to the count."""
        self._ctx.count(self._name, n)

    def dec(self, n: int = 1) -> None:
        """Take from the count."""
        self._ctx.count(self._name, -n)

    def mark_event(self, value: int = 1) -> None:
        """Add to a meter."""
        self._ctx.count(self._name, value)

    def get_count(self) -> int:
        """Return this subtask's part of the count."""
        return self._ctx.counters.get(self._name, 0)
