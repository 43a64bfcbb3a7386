"""Any Spark DataFrame as a source, batch or streaming. What it is stays opaque here; the Spark room reads it.

A DataFrame has no order of its own, so its rows are one split in the order in which tasks happen to read them, unless
the user names columns that tell splits apart and order their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.model.connect import Source


class FrameSource(Source):
    """A DataFrame. Its rows are seen as `Row`s with the columns' names.

    Args:
        frame: The DataFrame.
        split_by: The columns whose values name a row's split; without any there is one split.
        order_by: The columns that order the rows of a split; without any they have no order.
    """

    def __init__(self, frame: Any, split_by: Sequence[str] = (), order_by: Sequence[str] = ()) -> None:
        self.frame = frame
        self.split_by = tuple(split_by)
        self.order_by = tuple(order_by)
        self._is_bounded = not bool(getattr(frame, "isStreaming", False))
        self._reads_socket = not self._is_bounded and _reads_socket(frame)

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    @property
    def weakness(self) -> str | None:
        return "is not replayable" if self._reads_socket else None

    @property
    def order(self) -> str:
        """What is known of the order of its records, in words."""
        if not self.order_by:
            return "unordered, one split"
        splits = f"a split for each {', '.join(self.split_by)}" if self.split_by else "one split"
        return f"{splits}, ordered by {', '.join(self.order_by)}"

    def __getstate__(self) -> dict[str, Any]:
        # A DataFrame lives in the driver; the workers, who get the plan, never need it.
        return {**self.__dict__, "frame": None}


def _reads_socket(frame: Any) -> bool:
    """Whether a stream comes from a socket, the one source of Spark's own that cannot be read again.

    A plan is the only thing that tells, and Spark Connect does not show one.
    """
    inner = getattr(frame, "_jdf", None)
    if inner is None:
        return False
    leaves = inner.queryExecution().analyzed().collectLeaves()
    return any(str(leaves.apply(index).toString()) == "socket" for index in range(leaves.size()))
