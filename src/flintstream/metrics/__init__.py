"""Metrics, at the path where PyFlink programs look for them."""

from __future__ import annotations

from flintstream.model.metrics import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = [
    "Counter",
    "Distribution",
    "Meter",
    "Metric",
    "MetricGroup",
]
