"""PyFlink's path of durations and instants."""

from __future__ import annotations

from flintstream.model.time import Duration, Instant, Time

__all__ = [
    "Duration",
    "Instant",
    "Time",
]
