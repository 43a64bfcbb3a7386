"""Where the key of a record comes from: a field, read as a column, or the user's function, called per record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import DefinitionError, TypeMismatchError, describe
from flintstream.model.row import Row
from flintstream.model.time import to_timestamp_ms
from flintstream.ops.batch import Values
from flintstream.state.codec import Kind


def field_column(values: Values, field: str | int) -> Values:
    """Return one field of every record, as a column where the records are columns."""
    if values.is_column:
        array, kind = values.column()
        index = _column_index(kind, field)
        if index is not None and not array.null_count:
            return Values(None, array.field(index), kind[-1][index])
    return Values([field_of_row(row, field) for row in values.rows()])


def _column_index(kind: Kind, field: str | int) -> int | None:
    """Return which column holds a field, or None if only the records themselves know what is meant."""
    tag = kind[0] if type(kind) is list else None
    if isinstance(field, int):
        return field if tag in ("tuple", "row") and 0 <= field < len(kind[-1]) else None
    names = kind[-2] if tag in ("row", "dict", "class") else None
    return names.index(field) if names is not None and field in names else None


def field_of_row(row: Any, field: str | int) -> Any:
    """Return a field of one record: by position, by key, or as an attribute."""
    try:
        if isinstance(field, int) or isinstance(row, dict | Row):
            return row[field]
        return getattr(row, field)
    except (KeyError, IndexError, AttributeError, TypeError, DefinitionError):
        msg = f"a record has no field {field!r}: {row!r:.200}"
        raise DefinitionError(describe(msg, None, "name a field that every record has")) from None


@dataclass(frozen=True, slots=True)
class FieldKey:
    """The key is a field, or several."""

    fields: tuple[str | int, ...]

    def keys(self, values: Values) -> Values:
        """Return the key of every record."""
        if len(self.fields) == 1:
            return field_column(values, self.fields[0])
        parts = [field_column(values, field) for field in self.fields]
        if all(part.is_column for part in parts):
            columns = [part.column() for part in parts]
            names = [f"f{i}" for i in range(len(parts))]
            array = pa.StructArray.from_arrays([array for array, _ in columns], names)
            return Values(None, array, ["tuple", [kind for _, kind in columns]])
        return Values(list(zip(*(part.rows() for part in parts), strict=True)))


@dataclass(frozen=True, slots=True)
class FunctionKey:
    """The key is what the user's function returns."""

    function: Callable[[Any], Any]

    def keys(self, values: Values) -> Values:
        """Return the key of every record."""
        return Values(list(map(self.function, values.rows())))


@dataclass(frozen=True, slots=True)
class ConstantKey:
    """Every record has the same key: the whole stream in one partition."""

    def keys(self, values: Values) -> Values:
        """Return the key of every record."""
        return Values(None, pa.array(np.zeros(len(values), np.int64)), "int")


KeySource = FieldKey | FunctionKey | ConstantKey


def numbers(values: Values) -> Any:
    """Return values as an int64 array; used for timestamps taken from a field."""
    if values.is_column:
        array, kind = values.column()
        if not array.null_count:
            if pa.types.is_timestamp(array.type):
                return _millis(array.cast(pa.int64()).to_numpy(), array.type.unit)
            if kind == "int":
                return array.cast(pa.int64()).to_numpy()
    return np.fromiter(map(to_epoch_millis, values.rows()), np.int64, len(values))


def _millis(ticks: Any, unit: str) -> Any:
    """Return times in a unit of Arrow's as milliseconds, rounded down as everywhere."""
    return ticks * 1000 if unit == "s" else ticks // {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]


def to_epoch_millis(value: Any) -> int:
    """Return a record's event time in milliseconds: a number as it is, a datetime converted (naive ones are UTC)."""
    if isinstance(value, Integral):
        return int(value)
    try:
        return to_timestamp_ms(value)
    except TypeMismatchError:
        msg = f"event time is neither milliseconds nor a datetime: {value!r:.200}"
        remedy = "let the timestamp assigner return epoch milliseconds or a datetime"
        raise TypeMismatchError(describe(msg, None, remedy)) from None
