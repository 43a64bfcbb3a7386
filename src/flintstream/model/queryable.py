"""The mark of state that others may look up while the job runs.

A value of its own, since descriptors and windows both carry it.

Flink: StateDescriptor.setQueryable, of the releases that had queryable state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.location import refused


@dataclass(frozen=True, slots=True)
class Queryable:
    """A name for those who ask, and whether they may see what is not committed yet."""

    name: str
    uncommitted: bool = False
    results: tuple[tuple[Any, ...], ...] = ()
    """Of a window with built-in aggregates: the name of each result, and kind, field and options of the aggregate."""

    @staticmethod
    def of(name: Any, uncommitted: Any) -> Queryable:
        """Return the mark that a user asks for."""
        if not isinstance(name, str):
            raise refused(TypeMismatchError, f"{name!r:.100} is no name for queryable state", "give a string")
        if not name:
            raise refused(InvalidArgumentError, "queryable state has no name", "give it a name")
        return Queryable(name, bool(uncommitted))

    def told(self, table: str, kind: str, **more: Any) -> dict[str, Any]:
        """Return the mark as a manifest has it; `kind` says what the rows of the table are."""
        return {"table": table, "kind": kind, "uncommitted": self.uncommitted, **more}
