"""Records as columns that a table of PostgreSQL takes, found out before the epoch is committed.

Rows are inserted after the commit, when it is too late to refuse one. So a task brings its records into the types of
the table's columns already: what does not fit fails the epoch there, with the field's name and the user's line. Types
that Arrow lacks (numbers of any length, JSON, arrays, ...) travel as the text that PostgreSQL reads.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from flintstream.connectors.fields import VALUE, fields_of, has_names, json_text
from flintstream.connectors.postgres_client import Column
from flintstream.errors import SinkError, describe

pc: Any = pyarrow.compute
"""Untyped, because its functions are made when it is imported and no type checker sees them."""

_types: Any = pa.types
_CARRIERS: dict[str, pa.DataType] = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_NUMBERS = ("is_integer", "is_floating", "is_decimal")
_TEXTS = ("is_string", "is_large_string", "is_string_view")
_TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("int2", "int4", "int8", "float4", "float8"), (*_NUMBERS, *_TEXTS)),
    "bool": ("is_boolean", *_TEXTS),
    "bytea": ("is_binary", "is_large_binary", "is_fixed_size_binary"),
    "date": ("is_date", *_TEXTS),
    "time": ("is_time", *_TEXTS),
    "timestamp": ("is_timestamp", "is_date", *_TEXTS),
    "timestamptz": ("is_timestamp", "is_date", *_TEXTS),
}
"""What a column's values may be made of; a number is no time, because nobody says in which unit."""
_JSON = ("json", "jsonb")
_SCALARS = (*_NUMBERS, *_TEXTS, "is_boolean", "is_date", "is_time", "is_timestamp")
_CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")


def fit(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return a batch with exactly these columns; fields without names are taken by their places.

    Raises:
        SinkError: names the field that does not fit.
    """
    names = [column.name for column in columns]
    given = list(batch.schema.names)
    if not set(given) & set(names) and (given == [VALUE] or all(re.fullmatch(r"f\d+", name) for name in given)):
        given = _by_place(given, names)
    _check_known(given, names)
    arrays = [
        fit_column(batch.column(given.index(name)) if name in given else pa.nulls(batch.num_rows), column)
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names)


def fit_rows(values: Sequence[Any], columns: Sequence[Column]) -> pa.RecordBatch:
    """Return Python records as a batch with exactly these columns, each value made into what it is by itself."""
    names = [column.name for column in columns]
    records: list[Mapping[str, Any]] = []
    for value in values:
        record = fields_of(value)
        if not has_names(value):
            record = dict(zip(_by_place(list(record), names), record.values(), strict=True))
        _check_known(record, names)
        records.append(record)
    arrays = [_fit_values([record.get(column.name) for record in records], column) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names)


def _by_place(given: Sequence[str], names: Sequence[str]) -> list[str]:
    if len(given) != len(names):
        what = f"records have {len(given)} fields, but {len(names)} columns are written: {', '.join(names)}"
        raise SinkError(describe(what, remedy="give the columns that the fields are for"))
    return list(names)


def _check_known(given: Iterable[str], names: Sequence[str]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        what = f"field {unknown[0]!r} is none of the columns that are written: {', '.join(names)}"
        remedy = "leave it out before the sink, or name it in columns=[...] if the database would fill it by itself"
        raise SinkError(describe(what, remedy=remedy))


def _fit_values(values: Sequence[Any], column: Column) -> pa.Array:
    try:
        if column.kind not in _CARRIERS:
            values = [_rendered(value, column) for value in values]
        return array_of(values, lambda array: fit_column(array, column))
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
        raise _misfit(column, str(error).partition("\n")[0]) from None


def array_of(values: Sequence[Any], convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return converted values; those of several types one by one, because Arrow would make one type of them."""
    if len({type(value) for value in values if value is not None}) <= 1:
        return convert(pa.array(values))
    return pa.concat_arrays([convert(pa.array([value])) for value in values])


def _rendered(value: Any, column: Column) -> Any:
    """Return a value for a column that takes text as PostgreSQL would read it, or as it is if Arrow knows how."""
    if value is None or isinstance(value, str):
        return value
    if column.kind in _JSON:
        return json_text(value)
    if column.category == "A" and isinstance(value, list | tuple):
        return array_text(list(cast("list[Any]", value)))
    return str(value) if type(value) is int or isinstance(value, decimal.Decimal | uuid.UUID) else value


def fit_column(array: pa.Array, column: Column) -> pa.Array:
    """Return values in the type that carries them to a column."""
    carrier = _CARRIERS.get(column.kind, pa.string())
    if _types.is_dictionary(array.type):
        array = cast("Any", array).dictionary_decode()
    if array.null_count and column.is_required:
        raise _misfit(column, "a record has no value")
    if _types.is_null(array.type):
        return pa.nulls(len(array), carrier)
    if column.kind in _TAKES:
        if not any(getattr(_types, each)(array.type) for each in _TAKES[column.kind]):
            raise _misfit(column, f"values are {array.type}")
        return _cast(array, carrier, column)
    return _as_text(array, column)


def _cast(array: pa.Array, carrier: pa.DataType, column: Column) -> pa.Array:
    try:
        if _types.is_date(array.type) and column.kind == "timestamptz":
            array = array.cast(pa.timestamp("us"))
        return array.cast(carrier)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit(column, str(error).partition("\n")[0]) from None


def _as_text(array: pa.Array, column: Column) -> pa.Array:
    is_text = any(getattr(_types, each)(array.type) for each in _TEXTS)
    if not is_text and column.kind in _JSON:
        array = pa.array([None if v is None else json_text(v) for v in array.to_pylist()], pa.string())
    elif not is_text and column.category == "A":
        array = pa.array([None if v is None else array_text(v) for v in array.to_pylist()], pa.string())
    elif not any(getattr(_types, each)(array.type) for each in _SCALARS):
        raise _misfit(column, f"values are {array.type}")
    text = _cast(array, pa.string(), column)
    if pc.any(pc.match_substring(text, "\0")).as_py():
        raise _misfit(column, "a text holds the character NUL, which PostgreSQL cannot store")
    longest = pc.max(pc.utf8_length(text)).as_py() if column.length is not None else None
    if longest is not None and column.length is not None and longest > column.length:
        raise _misfit(column, f"a text has {longest} characters")
    return text


def _misfit(column: Column, why: str) -> SinkError:
    kind = column.declared or column.kind
    what = f"column {column.name!r} ({kind}{', not null' if column.is_required else ''}) cannot take a field: {why}"
    return SinkError(describe(what, remedy="map the records to what the column takes before the sink"))


def array_text(value: Any) -> str:
    r"""Return a list as PostgreSQL writes arrays.

    >>> array_text([1, None, 'a "b"'])
    '{1,NULL,"a \\"b\\""}'
    """
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(array_text, cast("list[Any]", value))) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int | float | decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        value = f"\\x{value.hex()}"
    text = value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def csv_of(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the CSV that COPY reads: null is nothing, and an empty text is quoted."""
    arrays = [
        pa.array([None if v is None else f"\\x{v.hex()}" for v in column.to_pylist()], pa.string())
        if _types.is_binary(column.type)
        else column
        for column in batch.columns
    ]
    out = io.BytesIO()
    pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(arrays, batch.schema.names), out, _CSV)
    return out.getvalue()
