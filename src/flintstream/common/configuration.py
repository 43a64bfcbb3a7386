"""PyFlink's path of Configuration."""

from __future__ import annotations

from flintstream.model.config import Configuration

__all__ = [
    "Configuration",
]
