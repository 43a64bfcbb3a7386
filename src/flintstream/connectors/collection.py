"""A list as a source: for tests, examples and small lookups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flintstream.connectors.conform import conform_records
from flintstream.model.connect import Split, SplitSource
from flintstream.model.types import to_type_info


class CollectionSource(SplitSource):
    """Reads a collection, in order and with parallelism one.

    Example:
        >>> source = CollectionSource(["a", "b", "c"])
        >>> source.read(0, 1, 3)
        ['b', 'c']

    Args:
        collection: The records; they are copied into a list.
        type_info: The type the records shall have, in any spelling `to_type_info` reads; None takes them as they are.
    """

    def __init__(self, collection: Iterable[Any], type_info: Any = None) -> None:
        self.type_info = to_type_info(type_info)
        records = list(collection)
        self.records = records if self.type_info is None else conform_records(records, self.type_info)

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 0, len(self.records))]

    def read(self, split: int, start: int, end: int) -> list[Any]:
        return self.records[start:end]
