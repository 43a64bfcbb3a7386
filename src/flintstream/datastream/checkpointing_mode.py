"""PyFlink's path of CheckpointingMode."""

from __future__ import annotations

from flintstream.model.config import CheckpointingMode

__all__ = [
    "CheckpointingMode",
]
