"""PyFlink's path of TypeSerializer."""

from __future__ import annotations

from flintstream.model.serializers import TypeSerializer

__all__ = [
    "TypeSerializer",
]
