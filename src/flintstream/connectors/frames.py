"""Any Spark DataFrame as a source, batch or streaming. What it is stays opaque here; the Spark room reads it."""

from __future__ import annotations

from typing import Any

from flintstream.model.connect import Source


class FrameSource(Source):
    """A DataFrame. Its rows are seen as `Row`s with the columns' names."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self._is_bounded = not bool(getattr(frame, "isStreaming", False))

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    def __getstate__(self) -> dict[str, Any]:
        # A DataFrame lives in the driver; the workers, who get the plan, never need it.
        return {"frame": None, "_is_bounded": self._is_bounded}
