"""PyFlink's path of watermark strategies."""

from __future__ import annotations

from flintstream.model.watermarks import TimestampAssigner, WatermarkStrategy

__all__ = [
    "TimestampAssigner",
    "WatermarkStrategy",
]
