"""PyFlink's path of JobStatus."""

from __future__ import annotations

from flintstream.model.job import JobStatus

__all__ = [
    "JobStatus",
]
