"""Records that take something back: rows of a changelog, and the changes that a regular join gives.

A sink that keeps the last value of each key must remove what a DELETE names; a row as it was before an update says
nothing to it, because the row as it is afterwards follows. Sinks that only add cannot do either, and must not guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from flintstream.errors import SinkError, describe
from flintstream.model.joins_reference import Change
from flintstream.model.row import Row, RowKind


def kind_of(value: Any) -> RowKind:
    """Return what a record does to the table that a changelog describes."""
    if isinstance(value, Row):
        return value.get_row_kind()
    return cast("Change[Any]", value).kind if isinstance(value, Change) else RowKind.INSERT


def record_of(value: Any) -> Any:
    """Return the record of a change."""
    return cast("Change[Any]", value).value if isinstance(value, Change) else value


def last_values(values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    """Return the records that say what a key's value is now, and for each whether it is gone."""
    kinds = [kind_of(value) for value in values]
    kept = [(value, kind) for value, kind in zip(values, kinds, strict=True) if kind is not RowKind.UPDATE_BEFORE]
    return [record_of(value) for value, _ in kept], [kind is RowKind.DELETE for _, kind in kept]


def only_additions(values: Sequence[Any], remedy: str) -> list[Any]:
    """Return the records of a sink that only adds.

    Raises:
        SinkError: one takes something back.
    """
    for value in values:
        if kind_of(value) in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
            what = f"a record takes back what was written: {kind_of(value)} {record_of(value)!r:.200}"
            raise SinkError(describe(what, remedy=remedy))
    return [record_of(value) for value in values]
