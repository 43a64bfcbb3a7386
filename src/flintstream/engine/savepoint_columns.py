"""Which columns of a user's table are the key and the value of some state, and what they hold.

Apart from writing rows, since it is about names: a value with fields may come as a struct or as a column for each of
them, under the names that `SavepointReader.state` shows, so that what was read can be written again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.engine.savepoint_spec import BROADCAST, MAP, StateSpec
from flintstream.engine.savepoint_values import FIELDS, values_of
from flintstream.engine.state_tables_kinds import Shape, fit, sub_shapes
from flintstream.errors import TypeMismatchError, describe
from flintstream.model.typeinfo import MapTypeInfo, TupleTypeInfo
from flintstream.state.codec import decode_keys


class Columns:
    """The columns of one table, read for one state."""

    def __init__(self, spec: StateSpec, table: pa.Table) -> None:
        self._spec = spec
        self._table = table
        self._arrays = dict(zip(table.column_names, map(_whole, table.columns), strict=True))

    def column(self, name: str) -> pa.Array:
        """Return a column that must be there."""
        if name not in self._arrays:
            known = ", ".join(map(repr, self._arrays))
            self._spec.refuse(f"the data has no column {name!r}", f"it has {known}: name one of these")
        return self._arrays[name]

    def keys(self) -> list[Any]:
        """Return the key of every row."""
        names, info, stored = self._spec.names.key, self._spec.kinds.key, self._spec.kinds.stored_key
        arrays = [self.column(name) for name in names]
        if info is None and stored is not None:
            whole = arrays[0] if len(arrays) == 1 and not _has_fields(stored) else self._struct(arrays, stored)
            return decode_keys(_fitted(whole, stored), stored[1])
        if isinstance(info, FIELDS) and not (len(arrays) == 1 and pa.types.is_struct(arrays[0].type)):
            fields = info.get_field_names()
            labels = fields if len(fields) == len(names) and set(fields) != set(names) else names
            return values_of(pa.StructArray.from_arrays(arrays, list(labels)), info)
        if len(arrays) > 1:
            return list(zip(*(values_of(array, None) for array in arrays), strict=True))
        return values_of(arrays[0], info)

    @staticmethod
    def _struct(arrays: Sequence[pa.Array], stored: Shape) -> pa.Array:
        if len(arrays) == 1 and pa.types.is_struct(arrays[0].type):
            return arrays[0]
        return pa.StructArray.from_arrays(list(arrays), [name for name, _ in sub_shapes(stored)][: len(arrays)])

    def map_keys(self) -> list[Any]:
        """Return the key inside the map of every row."""
        info = self._spec.kinds.value
        return values_of(
            self.column(self._spec.names.map_key), info.key_type if isinstance(info, MapTypeInfo) else None
        )

    def values(self) -> list[Any]:
        """Return the value of every row, of the declared type or as the column tells it."""
        info = self._spec.value_type
        if isinstance(info, FIELDS):
            names = info.get_field_names()
            places = [f"value_{index}" for index in range(len(names))]
            others = places if isinstance(info, TupleTypeInfo) else [f"value_{name}" for name in names]
            return values_of(
                self._fields([(name, [name, other]) for name, other in zip(names, others, strict=True)]), info
            )
        return values_of(self._value_column(), info)

    def stored_values(self, stored: Shape) -> pa.Array:
        """Return the value of every row as the state had it so far, without making an object of it."""
        shown = self._spec.kinds.value_names
        if not _has_fields(stored) or "" in shown:
            return _fitted(self._value_column(shown.get("")), stored)
        return _fitted(self._fields([(name, [shown[name]]) for name, _ in sub_shapes(stored)]), stored)

    def _value_column(self, shown: str | None = None) -> pa.Array:
        name = self._spec.names.value or (shown if shown in self._arrays else None)
        if name is not None:
            return self.column(name)
        if "value" in self._arrays:
            return self._arrays["value"]
        rest = [each for each in self._arrays if each not in self._taken()]
        if len(rest) != 1:
            found = ", ".join(map(repr, rest)) or "none"
            self._spec.refuse(f"no column is the value ({found} are left)", "name it with value=")
        return self._arrays[rest[0]]

    def _taken(self) -> Set[str]:
        names = self._spec.names
        taken = {*names.key, *filter(None, [names.last_access])}
        return taken | {names.map_key} if self._spec.shape in (MAP, BROADCAST) else taken

    def _fields(self, names: Sequence[tuple[str, Sequence[str]]]) -> pa.Array:
        """Return a struct of the columns that are the fields of a value, unless there is one already.

        `names` are the fields, each with the names that its column may have.
        """
        chosen = self._spec.names.value or "value"
        if chosen in self._arrays and pa.types.is_struct(self._arrays[chosen].type):
            return self._arrays[chosen]
        if self._spec.names.value is not None:
            return self.column(chosen)
        found: dict[str, pa.Array] = {}
        for name, labels in names:
            label = next((each for each in labels if each in self._arrays and each not in self._taken()), None)
            if label is not None:
                found[name] = self._arrays[label]
        if not found:
            known = ", ".join(name for name, _ in names)
            self._spec.refuse(f"the data has none of the value's fields {known}", "name its columns so")
        return pa.StructArray.from_arrays(list(found.values()), list(found), mask=self._nothing(found.values()))

    def _nothing(self, arrays: Any) -> pa.Array | None:
        """Return where all fields are null, which in a map stands for None; other state has no None."""
        if self._spec.shape not in (MAP, BROADCAST):
            return None
        nulls = [array.is_null().to_numpy(zero_copy_only=False) for array in arrays]
        return pa.array(np.logical_and.reduce(nulls), pa.bool_())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _has_fields(stored: Shape) -> bool:
    kind = stored[1]
    return type(kind) is list and kind[0] in ("tuple", "row", "dict", "class") and bool(kind[-1])


def _fitted(array: pa.Array, stored: Shape) -> pa.Array:
    try:
        return fit(array, stored[0])
    except (pa.ArrowException, ValueError, KeyError) as error:
        what = f"a column of {array.type} cannot be what the state holds so far, {stored[0]} ({error})"
        raise TypeMismatchError(describe(what, remedy="cast the column, or declare a type in the descriptor")) from None
