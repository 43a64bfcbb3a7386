"""PyFlink's path of JobID."""

from __future__ import annotations

from flintstream.model.job import JobID

__all__ = [
    "JobID",
]
