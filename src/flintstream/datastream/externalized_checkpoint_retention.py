"""PyFlink's path of ExternalizedCheckpointRetention."""

from __future__ import annotations

from flintstream.model.config import ExternalizedCheckpointRetention

__all__ = [
    "ExternalizedCheckpointRetention",
]
