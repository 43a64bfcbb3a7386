"""What an aggregate that takes records one by one is: the base of the built-in ones and of users' own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flintstream.errors import JobError, describe
from flintstream.ops.aggregates_column import Field


class RecordAggregate(ABC):
    """One aggregate; `add` is called with None only if it `takes_none`."""

    takes_none = False

    def __init__(self, field: Field) -> None:
        self.field = field

    @abstractmethod
    def create(self) -> Any: ...

    @abstractmethod
    def add(self, held: Any, value: Any, timestamp: int) -> Any: ...

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any: ...

    @abstractmethod
    def result(self, held: Any) -> Any: ...

    def require_number(self, value: Any) -> None:
        """Refuse what has no sum, as columns do."""
        if type(value) is float or (type(value) is int and -(1 << 63) <= value < 1 << 63):
            return
        what = f"field {self.field!r} holds a {type(value).__name__}, which is no number of 64 bits"
        raise JobError(describe(what, None, "aggregate a field of numbers"))
