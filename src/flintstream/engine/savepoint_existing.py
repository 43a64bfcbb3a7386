"""What some state is so far, as those need it who replace it: shapes, and the columns in which they are shown.

Apart from reading columns, since it looks the other way: from what is stored to what a user will name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from flintstream.engine.state_tables_columns import Layout
from flintstream.engine.state_tables_kinds import Shape, sub_shapes


@dataclass(frozen=True, slots=True)
class Existing:
    """The shapes of keys and values, None where they are of several kinds; and the names of their columns."""

    key: Shape | None = None
    key_names: tuple[str, ...] = ()
    value: Shape | None = None
    value_names: dict[str, str] = field(default_factory=dict[str, str])


def existing(layout: Layout) -> Existing:
    """Return what a table is so far; values that expire are told without their stamps."""
    key, value = _only(layout, "key"), _only(layout, "value")
    key_names = tuple(column.name for column in layout.columns if column.stored == "key") if key else ()
    if value is None:
        return Existing(key, key_names)
    stamped = value[1][0] == "stamped" if type(value[1]) is list else False
    inside = 1 if stamped else 0
    names = {
        "".join(column.path[inside:]): column.name
        for column in layout.columns
        if column.stored == "value" and not (stamped and column.path == ("stamp",))
    }
    return Existing(key, key_names, _unstamped(value), names)


def _only(layout: Layout, name: str) -> Shape | None:
    shapes = layout.variants.get(name, [])
    return shapes[0] if len(shapes) == 1 and shapes[0][1] != "none" else None


def _unstamped(shape: Shape) -> Shape:
    kind = shape[1]
    if type(kind) is str:
        return shape
    if kind[0] == "stamped":
        return next(sub_shapes(shape))[1]
    if kind[0] == "list":
        element = _unstamped((shape[0].value_type, kind[1]))
        return pa.large_list(element[0]), ["list", element[1]]
    return shape
