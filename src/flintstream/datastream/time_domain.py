"""PyFlink's path of TimeDomain."""

from __future__ import annotations

from flintstream.model.context import TimeDomain

__all__ = [
    "TimeDomain",
]
