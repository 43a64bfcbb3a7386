"""Marks tables that others may look up, where an operator opens its state.

The mark travels with the task's report into the manifest, so that whoever looks needs neither driver nor program. One
place for it, because functions and windows both open state.
"""

from __future__ import annotations

from typing import Any

from flintstream.errors import DefinitionError, UnsupportedError, describe
from flintstream.model.queryable import Queryable
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
)
from flintstream.ops.operator import OperatorContext


def mark_state(ctx: OperatorContext, descriptor: StateDescriptor, table: str, **more: Any) -> None:
    """Mark the table of a state if its descriptor says so."""
    if descriptor.queryable is not None:
        mark_table(ctx, descriptor.queryable, table, _kind_of(descriptor), state=descriptor.name, **more)


def mark_table(ctx: OperatorContext, mark: Queryable, table: str, kind: str, **more: Any) -> None:
    """Mark a table; a name stands for one table of an operator."""
    told = mark.told(table, kind, **more)
    known = ctx.backend.queryable.setdefault(mark.name, told)
    if known["table"] != table:
        what = f"two states are queryable as {mark.name!r}"
        raise DefinitionError(describe(what, f"operator {ctx.name!r}", "give one of them another name"))
    ctx.backend.queryable[mark.name] = told


def refuse_mark(ctx: OperatorContext, descriptor: StateDescriptor, what: str) -> None:
    """Refuse a mark on state that nobody could look up by a key."""
    if descriptor.queryable is not None:
        told = f"state {descriptor.name!r} is to be queryable, but {what}"
        remedy = "leave set_queryable(...) out, or keep what is asked for in a ValueState"
        raise UnsupportedError(describe(told, f"operator {ctx.name!r}", remedy))


def _kind_of(descriptor: StateDescriptor) -> str:
    if isinstance(descriptor, MapStateDescriptor):
        return "map"
    if isinstance(descriptor, ListStateDescriptor):
        return "list"
    return "aggregating" if isinstance(descriptor, AggregatingStateDescriptor) else "value"
