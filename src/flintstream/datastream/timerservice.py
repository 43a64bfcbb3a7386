"""PyFlink's path of TimerService."""

from __future__ import annotations

from flintstream.model.context import TimerService

__all__ = [
    "TimerService",
]
