"""PyFlink's path of JobClient."""

from __future__ import annotations

from flintstream.model.job import JobClient

__all__ = [
    "JobClient",
]
