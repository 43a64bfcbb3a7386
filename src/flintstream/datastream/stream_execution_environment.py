"""PyFlink's path of StreamExecutionEnvironment."""

from __future__ import annotations

from flintstream.api.environment import StreamExecutionEnvironment

__all__ = [
    "StreamExecutionEnvironment",
]
