"""PyFlink's path of CheckpointConfig."""

from __future__ import annotations

from flintstream.api.config import CheckpointConfig

__all__ = [
    "CheckpointConfig",
]
