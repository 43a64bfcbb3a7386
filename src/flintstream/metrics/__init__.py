"""Metrics, at the path where PyFlink programs look for them."""

from __future__ import annotations

from flintstream.model.metrics import (
    Counter,
    Distribution,
    DistributionResult,
    Histogram,
    HistogramStatistics,
    Meter,
    MeterResult,
    Metric,
    MetricGroup,
)

__all__ = [
    "Counter",
    "Distribution",
    "DistributionResult",
    "Histogram",
    "HistogramStatistics",
    "Meter",
    "MeterResult",
    "Metric",
    "MetricGroup",
]
