"""Records as the columns of a file, whatever Python values they are.

A record with fields (a `Row`, a tuple, a dict, a dataclass) gives a column for each field, any other value the single
column "value"; a tuple's fields are f0, f1, ... The codec does most of it; what it would pickle (mixed numbers, dicts
with different keys, decimals) is looked at value by value here, because a file must not hold pickles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from flintstream.errors import SinkError, describe
from flintstream.model.row import Row
from flintstream.state.codec import Kind, encode

VALUE = "value"


def batch_of_column(array: pa.Array, kind: Kind) -> pa.RecordBatch | None:
    """Return the columns of records that are an Arrow column already; None if it holds what no file can hold."""
    if _has_pickles(kind):
        return None
    if not pa.types.is_struct(array.type):
        return pa.RecordBatch.from_arrays([array], [VALUE])
    if not array.type.num_fields:
        return None
    # Flattened, so that a record that is None becomes a line of nulls.
    return pa.RecordBatch.from_arrays(array.flatten(), schema=pa.schema([pa.field(f.name, f.type) for f in array.type]))


def _has_pickles(kind: Kind) -> bool:
    if isinstance(kind, str):
        return kind == "pickle"
    inner: list[Kind] = [kind[1]] if kind[0] == "list" else kind[-1]
    return any(map(_has_pickles, inner))


def batch_of_rows(values: Sequence[Any]) -> pa.RecordBatch:
    """Return the columns of Python records.

    Example:
        >>> batch_of_rows([("a", 1), ("b", 2.5)]).to_pydict()
        {'f0': ['a', 'b'], 'f1': [1.0, 2.5]}

    Raises:
        SinkError: names the field whose values have no common column type.
    """
    batch = batch_of_column(*encode(values))
    if batch is not None:
        return batch
    records = [_as_fields(value) for value in values]
    names = list(dict.fromkeys(name for record in records for name in record))
    if not names:
        what = f"a record such as {values[0]!r} has no fields to write"
        raise SinkError(describe(what, remedy="write records with a field or more"))
    columns = [_column(name, [record.get(name) for record in records]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _as_fields(value: Any) -> Mapping[str, Any]:
    fields = _plain(value)
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {VALUE: fields}


def _plain(value: Any) -> Any:
    """Return a value made of dicts, lists and scalars only."""
    if isinstance(value, Row):
        names = value.get_field_names() or [f"f{index}" for index in range(len(value))]
        return {name: _plain(item) for name, item in zip(names, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        names = getattr(items, "_fields", None) or [f"f{index}" for index in range(len(items))]
        return {name: _plain(item) for name, item in zip(names, items, strict=True)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | set | frozenset):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
        types = ", ".join(sorted({type(value).__name__ for value in values if value is not None}))
        what = f"field {name!r} has values that no column can hold: {types} ({error})"
        remedy = "map the records to numbers, strings, times, lists or fields of one type each before the sink"
        raise SinkError(describe(what, remedy=remedy)) from error
