"""PyFlink's path of ExecutionConfig."""

from __future__ import annotations

from flintstream.api.config import ExecutionConfig

__all__ = [
    "ExecutionConfig",
]
