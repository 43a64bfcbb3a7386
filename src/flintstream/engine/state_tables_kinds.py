"""Shapes of stored columns: an Arrow type with its kind; which of them fit into one column, and how.

Apart from the columns that people see, since this is only about types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flintstream.state.codec import Kind
from flintstream.state.row_codes import class_name

Shape = tuple[pa.DataType, Kind]
"""An Arrow type, and the kind of what it holds."""

_NO_KIND: Shape = (pa.null(), "none")
_SCALARS: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "datetime": pa.timestamp("us"),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "pickle": pa.large_binary(),
}


def joint(one: Shape, other: Shape) -> Shape | None:
    """Return the shape of a column that holds both, or None if there is none that tells them apart no more."""
    if one == other or other[1] == "none":
        return one
    if one[1] == "none":
        return other
    if type(one[1]) is str or type(other[1]) is str:
        return (_SCALARS.get(one[1], one[0]), one[1]) if one[1] == other[1] else None
    tag = one[1][0]
    if other[1][0] != tag:
        return None
    if tag == "list":
        inner = joint(_element(one), _element(other))
        return None if inner is None else (pa.large_list(inner[0]), ["list", inner[1]])
    return _joint_structs(one, other)


def _joint_structs(one: Shape, other: Shape) -> Shape | None:
    tag = one[1][0]
    mine, theirs = dict(sub_shapes(one)), dict(sub_shapes(other))
    if tag == "class":
        if class_name(one[1][1]) != class_name(other[1][1]):
            return None
    elif set(mine) != set(theirs):
        return None
    # Of a class whose fields have changed since, either side may lack some.
    names = [*mine, *(name for name in theirs if name not in mine)]
    fields = {name: joint(mine.get(name, _NO_KIND), theirs.get(name, _NO_KIND)) for name in names}
    found = {name: each for name, each in fields.items() if each is not None}
    if len(found) < len(fields):
        return None
    kinds = [each[1] for each in found.values()]
    kind: list[Any] = [*one[1][:-1], kinds]
    if tag == "class":
        kind = ["class", one[1][1], names, kinds]
    return pa.struct([pa.field(name, each[0]) for name, each in found.items()]), kind


def sub_shapes(shape: Shape) -> Iterator[tuple[str, Shape]]:
    """Yield the fields of a struct: name, shape."""
    dtype, kind = shape
    for index, inner in enumerate(kind[-1]):
        field = dtype.field(index)
        yield field.name, (field.type, inner)


def _element(shape: Shape) -> Shape:
    return shape[0].value_type, shape[1][1]


def shown_type(shape: Shape) -> pa.DataType:
    """Return the type in which a column is shown: one that every tool reads."""
    return _open(shape[0])


def _open(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(dtype):
        return _open(dtype.value_type)
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype):
        return pa.binary()
    if pa.types.is_large_list(dtype) or pa.types.is_list(dtype):
        return pa.list_(_open(dtype.value_type))
    if pa.types.is_struct(dtype):
        # Few tools have structs of nothing: such a value is there or is not.
        return (
            pa.struct([pa.field(field.name, _open(field.type)) for field in dtype]) if dtype.num_fields else pa.bool_()
        )
    return dtype


def fit(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return a column as one of a shape that it fits into."""
    if array.type == dtype:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), dtype)
    if pa.types.is_boolean(dtype) and pa.types.is_struct(array.type) and not array.type.num_fields:
        return pa.array([ok or None for ok in array.is_valid().to_pylist()], pa.bool_())
    if pa.types.is_struct(dtype) and not dtype.num_fields:
        return pa.array([{} if ok else None for ok in array.is_valid().to_pylist()], dtype)
    if pa.types.is_struct(dtype):
        known = {field.name: child for field, child in zip(array.type, array.flatten(), strict=True)}
        columns = [
            fit(known[field.name], field.type) if field.name in known else pa.nulls(len(array), field.type)
            for field in dtype
        ]
        return pa.StructArray.from_arrays(columns, fields=list(dtype), mask=array.is_null())
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _fit_lists(array, dtype)
    return array.cast(dtype)


def _fit_lists(array: Any, dtype: Any) -> pa.Array:
    if not len(array):
        return pa.array([], dtype)
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    values = fit(array.values.slice(start, end - start), dtype.value_type)
    offsets = array.offsets.to_numpy() - start
    if pa.types.is_large_list(dtype):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=array.is_null())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=dtype, mask=array.is_null())
