"""PyFlink's path of rows."""

from __future__ import annotations

from flintstream.model.row import Row, RowKind

__all__ = [
    "Row",
    "RowKind",
]
