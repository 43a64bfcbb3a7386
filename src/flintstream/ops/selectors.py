"""Where the key of a record comes from: a field, read as a column, or the user's function, called per record."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.errors import DefinitionError, describe
from flintstream.ops.batch import Values
from flintstream.state.codec import decode


def field_column(values: Values, field: str | int) -> Values:
    """Return one field of every record, as a column where the records are columns."""
    if values.is_column:
        array, kind = values.column()
        if type(kind) is list and kind[0] in ("tuple", "row", "dict", "class") and not array.null_count:
            index = field if isinstance(field, int) else array.type.get_field_index(field)
            if 0 <= index < len(kind[-1]):
                return Values(None, array.field(index), kind[-1][index])
    return Values([field_of_row(row, field) for row in values.rows()])


def field_of_row(row: Any, field: str | int) -> Any:
    """Return a field of one record: by position, by key, or as an attribute."""
    try:
        if isinstance(field, int) or isinstance(row, dict):
            return row[field]
        return getattr(row, field)
    except (KeyError, IndexError, AttributeError, TypeError):
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
        if pa.types.is_timestamp(array.type):
            return array.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
        if kind == "int" and not array.null_count:
            return array.cast(pa.int64()).to_numpy()
        return np.array([to_epoch_millis(value) for value in decode(array, kind)], np.int64)
    return np.array([to_epoch_millis(value) for value in values.rows()], np.int64)


def to_epoch_millis(value: Any) -> int:
    """Return a record's event time in milliseconds: a number as it is, a datetime converted (naive ones are UTC)."""
    if isinstance(value, int):
        return value
    timestamp = getattr(value, "timestamp", None)
    if timestamp is None:
        msg = f"event time is neither milliseconds nor a datetime: {value!r:.200}"
        raise DefinitionError(describe(msg, None, "let the timestamp assigner return epoch milliseconds or a datetime"))
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return round(value.timestamp() * 1000)
