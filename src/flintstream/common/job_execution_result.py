"""PyFlink's path of JobExecutionResult."""

from __future__ import annotations

from flintstream.model.job import JobExecutionResult

__all__ = [
    "JobExecutionResult",
]
