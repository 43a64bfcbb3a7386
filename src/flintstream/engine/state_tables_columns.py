"""Stored columns of state as the columns that people see: keys, windows and fields under names of their own.

A stored table has one column for the key, one for each further part of an entry and one for the value, each with a
kind. What people see is derived from these kinds alone, never from values: structs become their fields, a window its
borders, the stamp of a value that expires a column. So no class is loaded and nothing is unpickled, whoever wrote it.

Partitions need not agree on kinds (one big integer makes a whole column of pickles). Kinds that fit together become
one column; of those that do not, each gets a column of its own, `value`, then `value_pickle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.engine.state_tables_kinds import Shape, fit, joint, shown_type, sub_shapes
from flintstream.state.codec import field_of, kind_of_field
from flintstream.state.fold import entry_columns
from flintstream.state.partials import TABLE_METADATA

_WINDOWS = ("window", "count_window", "global_window")
_INTERNAL = frozenset({"gone", "key_group", "place"})
DOMAIN = "domain"
"""The column that tells timers of event time from those of processing time."""
EXPLODED = "position"
"""The column that tells the place of an element in its list, where lists are shown row by row."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column as it is shown: where it is found, and for which variant of the stored one."""

    name: str
    type: pa.DataType
    stored: str
    path: tuple[str, ...]
    variant: int
    is_key: bool


@dataclass(frozen=True)
class Layout:
    """The columns of a table as they are shown, for all shapes that its parts have."""

    columns: tuple[Column, ...]
    variants: dict[str, list[Shape]]
    is_bag: bool = False
    """Whether several rows may have one key."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of what is shown."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    @property
    def key_names(self) -> list[str]:
        """Return the columns that tell one row from another."""
        return [column.name for column in self.columns if column.is_key]

    def show(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a stored batch as it is shown."""
        chosen = {name: self._variant(batch, name) for name in self.variants}
        arrays = [self._array(batch, column, chosen[column.stored]) for column in self.columns]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _variant(self, batch: pa.RecordBatch, name: str) -> int | None:
        index = batch.schema.get_field_index(name)
        if index < 0:
            return None
        field = batch.schema.field(index)
        shape = (field.type, kind_of_field(field))
        return next(number for number, each in enumerate(self.variants[name]) if joint(each, shape) is not None)

    @staticmethod
    def _array(batch: pa.RecordBatch, column: Column, variant: int | None) -> pa.Array:
        if variant != column.variant:
            return pa.nulls(batch.num_rows, column.type)
        array = batch.column(column.stored)
        for name in column.path:
            index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
            if index < 0:
                return pa.nulls(batch.num_rows, column.type)
            array = array.flatten()[index]
        return fit(array, column.type)


def layout_of(schemas: Sequence[pa.Schema]) -> Layout:
    """Return how stored batches of these schemas, all of one table, are shown."""
    if not schemas:
        return Layout((), {})
    variants: dict[str, list[Shape]] = {}
    for schema in schemas:
        for field in schema:
            if field.name not in _INTERNAL:
                _add_variant(variants.setdefault(field.name, []), (field.type, kind_of_field(field)))
    for shapes in variants.values():
        shapes.sort(key=lambda shape: shape[1] == "pickle")  # what can be read comes first
    names = _Names()
    columns = tuple(_columns(schemas, variants, names))
    is_bag = any(is_partials_schema(each) or is_held_schema(each) for each in schemas)
    return Layout(columns, {column.stored: variants[column.stored] for column in columns}, is_bag)


def _add_variant(known: list[Shape], shape: Shape) -> None:
    for number, each in enumerate(known):
        both = joint(each, shape)
        if both is not None:
            known[number] = both
            return
    known.append(shape)


class _Names:
    """Names that are taken: Spark takes `a` and `A` for one column."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str, base: str) -> str:
        chosen = name if name.casefold() not in self._taken else f"{base}_{name}"
        while chosen.casefold() in self._taken:
            chosen += "_"
        self._taken.add(chosen.casefold())
        return chosen


def is_partials_schema(schema: pa.Schema) -> bool:
    """Whether stored rows are partial results of windows, of which several may belong to one key and window."""
    return _word(schema) == b"partials"


def is_held_schema(schema: pa.Schema) -> bool:
    """Whether stored rows are records that wait, of which several may be equal."""
    return _word(schema) == b"held"


def _word(schema: pa.Schema) -> bytes:
    return (schema.metadata or {}).get(TABLE_METADATA, b"")


def _columns(schemas: Sequence[pa.Schema], variants: dict[str, list[Shape]], names: _Names) -> Iterator[Column]:
    if any(map(is_partials_schema, schemas)):
        yield from _partial_columns(variants, names)
        return
    is_map = False
    if any(map(is_held_schema, schemas)):
        yield from _expanded("time", "time", variants, names, is_key=True)
    else:
        for stored, base in _entry_roles(schemas[0], variants):
            is_map = is_map or base == "map_key"
            yield from _expanded(stored, base, variants, names, is_key=True, whole=base.startswith("map_key"))
    for further in (DOMAIN, EXPLODED):
        if further in variants:
            yield from _expanded(further, further, variants, names, is_key=True)
    if "value" in variants:
        # In a map None is a value like others, and no fields could tell it from an object of which all are None.
        yield from _expanded("value", "value", variants, names, is_key=False, whole=is_map)


def _entry_roles(schema: pa.Schema, variants: dict[str, list[Shape]]) -> Iterator[tuple[str, str]]:
    """Yield the columns that make an entry, with what they are to people."""
    parts = entry_columns(schema)
    is_timers = "value" not in variants and len(parts) == 3
    further = 0
    for stored in parts:
        kind = variants[stored][0][1]
        if stored == "key":
            yield stored, "map_key" if _word(schema) == b"broadcast" else "key"
        elif is_timers and stored == parts[-1]:
            yield stored, "time"
        elif type(kind) is list and kind[0] in _WINDOWS:
            yield stored, "window"
        elif is_timers and kind == "none":
            continue  # timers that belong to no window
        else:
            further += 1
            yield stored, "map_key" if further == 1 else f"map_key_{further}"


def _expanded(
    stored: str, base: str, variants: dict[str, list[Shape]], names: _Names, *, is_key: bool, whole: bool = False
) -> Iterator[Column]:
    for number, shape in enumerate(variants[stored]):
        label = base if number == 0 else f"{base}_{_tag(shape)}"
        for name, path, inner in _fields(label, shape, (), whole=whole):
            chosen = names.take(name, label)
            yield Column(chosen, shown_type(inner), stored, path, number, is_key)


def _tag(shape: Shape) -> str:
    kind = shape[1]
    return kind if type(kind) is str else kind[0]


def _fields(
    base: str, shape: Shape, path: tuple[str, ...], *, whole: bool
) -> Iterator[tuple[str, tuple[str, ...], Shape]]:
    """Yield the columns into which one is taken apart, or that is left `whole`: name, way to it, shape."""
    kind = shape[1]
    tag = kind[0] if type(kind) is list else None
    if tag is None or tag == "list" or not kind[-1] or (whole and tag != "stamped"):
        yield base, path, shape
        return
    inner = list(sub_shapes(shape))
    if tag == "global_window":
        return
    if tag == "stamped":
        (value, of_value), (stamp, of_stamp) = inner
        yield from _fields(base, of_value, (*path, value), whole=whole)
        yield "last_access", (*path, stamp), of_stamp
        return
    naming = _NAMING.get(tag) or (_by_position if tag == "tuple" or (tag == "row" and kind[1] is None) else _by_name)
    for index, (name, each) in enumerate(inner):
        yield naming(base, index, name), (*path, name), each


def _by_position(base: str, index: int, name: str) -> str:
    return f"{base}_{index}"


def _by_name(base: str, index: int, name: str) -> str:
    return name


def _of_window(base: str, index: int, name: str) -> str:
    return f"window_{name}"


_NAMING: dict[str, Callable[[str, int, str], str]] = {"window": _of_window, "count_window": _of_window}


def _partial_columns(variants: dict[str, list[Shape]], names: _Names) -> Iterator[Column]:
    """Yield the columns of partial results: the key as it was, the window, and what was aggregated so far."""
    keys = [name for name in variants if name.startswith("k") and ":" in name]
    for stored in sorted(keys):
        place = stored.partition(":")[0]
        number, _, width = place[1:].partition("/")
        base = f"key_{number}" if width else "key"
        yield from _expanded(stored, base, variants, names, is_key=True)
    # Sessions tell their borders themselves; what they are piled by is no time.
    borders = {"start": "window_start", "end": "window_end"} if "start" in variants else {}
    borders = borders or {"window_start": "window_start"}
    for stored, base in borders.items():
        yield from _expanded(stored, base, variants, names, is_key=True)
    for stored in variants:
        if stored not in keys and stored not in borders and stored != "window_start":
            yield from _expanded(stored, stored.rstrip(".").replace(".", "_"), variants, names, is_key=False)


def exploded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a stored batch with a row for each element of its lists, and the element's place in its list."""
    index = batch.schema.get_field_index("value")
    kind = kind_of_field(batch.schema.field(index)) if index >= 0 else None
    if not (type(kind) is list and kind[0] == "list"):
        return batch
    lists: Any = batch.column(index)
    parents = pc.call_function("list_parent_indices", [lists])
    values = pc.call_function("list_flatten", [lists])
    others = [name for name in batch.schema.names if name != "value"]
    columns = [batch.column(name).take(parents) for name in others]
    fields = [batch.schema.field(name) for name in others]
    starts = lists.offsets.to_numpy()
    owners = parents.to_numpy()
    places = np.arange(len(values)) - (starts[:-1] - starts[0])[owners]
    columns += [pa.array(places, pa.int64()), values]
    fields += [pa.field(EXPLODED, pa.int64()), field_of("value", values, kind[1])]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata))
