"""A table of summaries: objects in memory, plain values in the changelog.

Separate from `Table` because a summary is changed by every record of its key, and must be packed once an epoch only.
A restored one stays packed until its key comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flintstream.state.table import GONE, Table, write_rows

Packed = tuple[Any, ...]
"""A summary as columns can hold it; its kind and settings come first."""


class Summary(ABC):
    """A summary in memory; `count` is how many values it has seen."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    @abstractmethod
    def add(self, value: Any) -> None:
        """Take in a value."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take in what another summary of the same kind and settings has seen."""

    @abstractmethod
    def pack(self) -> Packed:
        """Return all that there is to it, behind kind and settings."""


class SummaryTable(Table):
    """Rows `entry -> summary`; `data` holds summaries, and what was restored as it was packed."""

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        if not self.dirty:
            return None
        entries, values = zip(*self.dirty_rows(), strict=True)
        return write_rows(self, list(entries), list(values), max_parallelism)

    def rows(self) -> Iterator[tuple[Any, Any]]:
        return super().rows() if self.scan is not None else ((entry, packed(each)) for entry, each in self.data.items())

    def dirty_rows(self) -> Iterator[tuple[Any, Any]]:
        get = self.data.get
        for entry in self.dirty:
            yield entry, packed(get(entry, GONE))

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        if not self.data:
            return None
        return write_rows(self, list(self.data), list(map(packed, self.data.values())), max_parallelism)


def packed(summary: Any) -> Any:
    """Return a summary as columns can hold it; whatever else comes is that already."""
    return summary.pack() if isinstance(summary, Summary) else summary
