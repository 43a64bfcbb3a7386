"""PyFlink's path of RuntimeExecutionMode."""

from __future__ import annotations

from flintstream.model.config import RuntimeExecutionMode

__all__ = [
    "RuntimeExecutionMode",
]
