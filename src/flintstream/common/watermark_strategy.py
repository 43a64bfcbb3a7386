"""PyFlink's path of watermark strategies."""

from __future__ import annotations

from flintstream.model.watermark_generators import Watermark, WatermarkGenerator, WatermarkOutput
from flintstream.model.watermarks import TimestampAssigner, WatermarkStrategy

__all__ = [
    "TimestampAssigner",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]
