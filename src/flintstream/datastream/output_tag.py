"""PyFlink's path of OutputTag."""

from __future__ import annotations

from flintstream.model.tags import OutputTag

__all__ = [
    "OutputTag",
]
