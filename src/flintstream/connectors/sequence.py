"""A range of whole numbers as a source.

Flink: org.apache.flink.api.connector.source.lib.NumberSequenceSource.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.connect import Split, SplitSource


class NumberSequenceSource(SplitSource):
    """Emits the numbers from `start` to `end`, both included, one contiguous range in each parallel subtask.

    A position is the distance from `start` whatever the split, so a range can be read without knowing how many splits
    there are.

    Example:
        >>> source = NumberSequenceSource(1, 5)
        >>> [(split.start, split.end) for split in source.splits(2)]
        [(0, 3), (3, 5)]
        >>> source.read(1, 3, 5).to_pylist()
        [4, 5]
    """

    def __init__(self, start: int, end: int) -> None:
        if end < start:
            what = f"a number sequence cannot go from {start} to {end}"
            raise InvalidArgumentError(describe(what, remedy="give a start that is not above the end"))
        if start < -(2**63) or end >= 2**63 or end - start >= 2**63 - 1:
            what = f"the sequence from {start} to {end} does not fit into 63 bits"
            raise InvalidArgumentError(describe(what, remedy="give smaller bounds"))
        self.start = start
        self.end = end

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        each, extra = divmod(self.end - self.start + 1, parallelism)
        bounds = [number * each + min(number, extra) for number in range(parallelism + 1)]
        return [Split(number, bounds[number], bounds[number + 1]) for number in range(parallelism)]

    def read(self, split: int, start: int, end: int) -> pa.Array:
        return pa.array(np.arange(start, end, dtype=np.int64) + self.start)
