"""Records as the columns that vectorised functions see, and their results as records again.

A record with fields becomes a RecordBatch, any other value one Array. On the way back Arrow's many types become the few
that records are made of everywhere (one integer, one float, one text), so that a result is the same Python value
whether numpy, pandas or Arrow computed it. What kind of record it is, dict, tuple, row or dataclass, is that of the
input, unless a type was declared. No Python object is made for a record.

pandas gets its nullable types, since numpy's change with the data: a column of integers with a None in it would be one
of floats, and a result would depend on what else came in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flintstream.errors import JobError, TypeMismatchError, describe
from flintstream.model.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    ListTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeType,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flintstream.ops.aggregates_column import lengths_of
from flintstream.ops.batch import Values
from flintstream.ops.conform import conform_to
from flintstream.state.codec import Kind

_RECORDS = ("tuple", "row", "dict", "class")
_NATURAL: dict[object, pa.DataType] = {
    **dict.fromkeys((BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT), pa.int64()),
    **dict.fromkeys((BasicType.FLOAT, BasicType.DOUBLE), pa.float64()),
    **dict.fromkeys((BasicType.STRING, BasicType.CHAR), pa.string()),
    BasicType.BOOLEAN: pa.bool_(),
    SqlTimeType.DATE: pa.date32(),
    SqlTimeType.TIME: pa.time64("us"),
    SqlTimeType.TIMESTAMP: pa.timestamp("us"),
}
_DECLARE = "declare the type: input_type= of @vectorized, type= of computed_by, or output_type= of the operator before"


class InputType:
    """Holds the input of a function to its declared type, before it is made columns."""

    def __init__(self, declared: TypeInformation, name: str) -> None:
        self._conform = conform_to(declared, name, "")
        self._name = name

    def __call__(self, values: Values) -> Values:
        """Return values of the declared type, or say which is not."""
        try:
            return self._conform(values)
        except TypeMismatchError as error:
            what = str(error).rpartition("; ")[0].removeprefix(f"{self._name!r} emitted ")
            remedy = "declare the type that the records have"
            raise TypeMismatchError(describe(f"{self._name!r} got {what}", None, remedy)) from None


def to_arrow(values: Values, known: TypeInformation | None = None) -> tuple[pa.Array | pa.RecordBatch, Kind]:
    """Return values as a RecordBatch if they have fields, else as an Array, and their kind.

    Nulls of a known type are of that type.
    """
    array, kind = values.column()
    if kind == "pickle":
        array, kind = _in_one_order(values, known).column()
    _check_kind(kind, "")
    if type(kind) is str or kind[0] not in _RECORDS:
        return _typed(array, kind, known), kind
    if array.null_count:
        what = "a record is None among records with fields, which has no place in a batch of columns"
        raise JobError(describe(what, None, "filter(lambda record: record is not None) before it"))
    names, infos = names_of(kind), _field_types(known)
    fields = [_typed(array.field(i), inner, infos.get(names[i])) for i, inner in enumerate(kind[-1])]
    return pa.RecordBatch.from_arrays(fields, names=names), kind


def _in_one_order(values: Values, known: TypeInformation | None) -> Values:
    """Return dicts that differ in the order of their keys alone with one order; anything else as it is."""
    rows = values.rows()
    if set(map(type, rows)) != {dict} or len(set(map(frozenset, rows))) != 1:
        return values
    names = known.get_field_names() if isinstance(known, DictTypeInfo) else list(rows[0])
    return Values([{name: row[name] for name in names} for row in rows])


def names_of(kind: Kind) -> list[str]:
    """Return the names of the fields of a kind of records."""
    names = kind[-2] if kind[0] in ("row", "dict", "class") else None
    return list(names) if names is not None else [f"f{index}" for index in range(len(kind[-1]))]


def _check_kind(kind: Kind, path: str) -> None:
    """Raise if some value has no column."""
    if type(kind) is str:
        if kind == "pickle":
            where = f"field {path!r} holds" if path else "the records are"
            what = f"{where} values of several types, or of one that has no column"
            raise JobError(describe(what, None, _DECLARE))
        return
    if kind[0] == "list":
        _check_kind(kind[1], f"{path}[]")
    elif kind[0] in _RECORDS:
        for name, inner in zip(names_of(kind), kind[-1], strict=True):
            _check_kind(inner, f"{path}.{name}" if path else name)


def _field_types(known: TypeInformation | None) -> dict[str, TypeInformation]:
    if isinstance(known, TupleTypeInfo | RowTypeInfo | DictTypeInfo | DataclassTypeInfo):
        return dict(zip(known.get_field_names(), known.get_field_types(), strict=True))
    return {}


def _typed(array: pa.Array, kind: Kind, known: TypeInformation | None) -> pa.Array:
    """Return a column of which nothing is known but that it is null as one of its declared type."""
    if kind != "none" or known is None:
        return array
    wanted = natural_type(known)
    return array if wanted is None else array.cast(wanted)


def natural_type(info: TypeInformation) -> pa.DataType | None:
    """Return the Arrow type in which values of a declared type stand in records; None if they have none."""
    if isinstance(info, BasicTypeInfo):
        return _NATURAL.get(info.basic_type)
    if isinstance(info, SqlTimeTypeInfo):
        return _NATURAL.get(info.time_type)
    if isinstance(info, PrimitiveArrayTypeInfo):
        return pa.binary() if info.element_type == BasicTypeInfo(BasicType.BYTE) else None
    if isinstance(info, ListTypeInfo):
        inner = natural_type(info.elem_type)
        return None if inner is None else pa.large_list(inner)
    if isinstance(info, TupleTypeInfo | RowTypeInfo | DictTypeInfo | DataclassTypeInfo):
        types = [natural_type(each) for each in info.get_field_types()]
        if all(each is not None for each in types):
            return pa.struct(list(zip(info.get_field_names(), cast("list[pa.DataType]", types), strict=True)))
    return None


def to_format(data: pa.Array | pa.RecordBatch, format: str) -> Any:
    """Return columns in the form that a function wants."""
    if format == "arrow":
        return data
    if format == "pandas":
        return _to_pandas(data)
    if isinstance(data, pa.RecordBatch):
        return {name: _to_numpy(data.column(name), name) for name in data.schema.names}
    return _to_numpy(data, None)


def _to_pandas(data: pa.Array | pa.RecordBatch) -> Any:
    import pandas as pd  # noqa: PLC0415  # takes half a second, and few jobs need it

    def nullable(dtype: pa.DataType) -> Any:
        if pa.types.is_integer(dtype):
            return pd.Int64Dtype()
        if pa.types.is_floating(dtype):
            return pd.Float64Dtype()
        if pa.types.is_boolean(dtype):
            return pd.BooleanDtype()
        return pd.StringDtype("pyarrow") if _is_text(dtype) else None

    if isinstance(data, pa.RecordBatch):
        return data.to_pandas(types_mapper=nullable)
    # An array alone forgets its type there.
    return pa.RecordBatch.from_arrays([data], names=["value"]).to_pandas(types_mapper=nullable)["value"]


def _to_numpy(array: pa.Array, name: str | None) -> Any:
    if array.null_count and (pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)):
        where = "a record" if name is None else f"field {name!r}"
        what = f"{where} is None, for which numpy's {array.type} has no value"
        raise JobError(describe(what, None, 'use "arrow" or "pandas", or keep None away from it'))
    return array.to_numpy(zero_copy_only=False)


def from_format(result: Any) -> pa.Array | pa.RecordBatch:
    """Return what a function returned, in whatever form, as a RecordBatch or an Array of plain Arrow types."""
    if isinstance(result, pa.Table | pa.RecordBatch):
        return _batch(dict(zip(_distinct(result.schema.names), result.columns, strict=True)))
    if isinstance(result, pa.Array | pa.ChunkedArray):
        return _flat(result)
    if isinstance(result, np.ndarray):
        return _from_numpy(cast("np.ndarray[Any, Any]", result))
    if isinstance(result, Mapping):
        return _batch(cast("Mapping[str, Any]", result))
    kind = type(result).__name__
    if type(result).__module__.split(".")[0] == "pandas" and kind in ("DataFrame", "Series"):
        if kind == "Series":
            return _from_series(result)
        return _batch({name: result[name] for name in _distinct(list(result.columns))})
    what = f"the function returned {result!r:.200}"
    remedy = "return a RecordBatch, an Array, a DataFrame, a Series, a numpy array or a dict of them"
    raise JobError(describe(what, None, remedy))


def _distinct(names: list[Any]) -> list[Any]:
    if len(set(names)) < len(names):
        what = f"two columns have one name: {', '.join(map(str, names))}"
        raise JobError(describe(what, None, "name each of its own"))
    return names


def _batch(columns: Mapping[Any, Any]) -> pa.RecordBatch:
    arrays = [from_format(column) for column in columns.values()]
    for name, array in zip(columns, arrays, strict=True):
        if isinstance(array, pa.RecordBatch) or type(name) is not str:
            raise JobError(describe(f"column {name!r} is no column of a batch", None, "name one array by a text"))
    lengths = sorted({len(array) for array in arrays})
    if len(lengths) != 1:
        found = ", ".join(map(str, lengths)) or "none"
        raise JobError(describe(f"the columns have different lengths: {found}", None, "return one value for each row"))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _flat(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column


def _from_numpy(array: np.ndarray[Any, Any]) -> pa.Array:
    if array.ndim != 1:
        what = f"the function returned an array of {array.ndim} dimensions"
        raise JobError(describe(what, None, "return one value for each row"))
    return _converted(lambda: pa.array(array), array.dtype)


def _from_series(series: Any) -> pa.Array:
    # NaN is a number there, and must not become None on its way back.
    is_plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb"
    source = series.to_numpy() if is_plain else series
    return _flat(_converted(lambda: pa.array(source, from_pandas=not is_plain), series.dtype))


def _converted(convert: Callable[[], pa.Array], dtype: Any) -> pa.Array:
    try:
        return convert()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as error:
        what = f"the function returned {dtype}, which has no column: {error}"
        raise JobError(describe(what, None, "return numbers, text, times, or lists of them")) from None


def to_values(data: pa.Array | pa.RecordBatch, like: Kind, declared: TypeInformation | None) -> Values:
    """Return results as records: of a batch those of the declared kind, else of the kind that the input had."""
    if not isinstance(data, pa.RecordBatch):
        return Values(None, *plain(data))
    columns = {name: plain(column) for name, column in zip(data.schema.names, data.columns, strict=True)}
    if isinstance(declared, DataclassTypeInfo):
        rows = zip(*(Values(None, *column).rows() for column in columns.values()), strict=True)
        return Values([declared.cls(**dict(zip(columns, row, strict=True))) for row in rows])
    tag, names = _shape(list(columns), like, declared)
    arrays = [columns[name][0] for name in names]
    kinds = [columns[name][1] for name in names]
    if tag[0] == "tuple" or tag[1:2] == [None]:
        names = [f"f{index}" for index in range(len(names))]
    return Values(None, pa.StructArray.from_arrays(arrays, names), [*tag, kinds])


def _shape(names: list[str], like: Kind, declared: TypeInformation | None) -> tuple[list[Any], list[str]]:
    """Return the beginning of the kind of results with these fields, and the order of the fields."""
    if isinstance(declared, TupleTypeInfo):
        return ["tuple"], names
    if isinstance(declared, RowTypeInfo):
        wanted = None if declared.field_names is None else list(declared.field_names)
        fits = wanted is not None and sorted(wanted) == sorted(names)
        return (["row", wanted], cast("list[str]", wanted)) if fits else (["row", wanted and names], names)
    tag = like[0] if type(like) is list and declared is None else "dict"
    if tag == "tuple":
        return ["tuple"], names
    if tag == "row":
        return ["row", None if like[1] is None else names], names
    if tag == "class":
        if sorted(names) != sorted(like[2]):
            what = f"the function returned the fields {', '.join(names)}, which are not those of the records' class"
            remedy = f"return {', '.join(like[2])}, or declare output_type"
            raise JobError(describe(what, None, remedy))
        return ["class", like[1], like[2]], like[2]
    return ["dict", names], names


def plain(array: pa.Array) -> tuple[pa.Array, Kind]:
    """Return a column in the type in which its values stand in records everywhere, and its kind."""
    dtype = array.type
    types = pa.types
    if types.is_dictionary(dtype):
        return plain(array.dictionary_decode())
    if types.is_list(dtype) or types.is_large_list(dtype) or types.is_fixed_size_list(dtype):
        # Arrow aborts if it casts nothing, sliced out of something.
        whole = array if len(array) else pa.array([], dtype)
        lists = whole if types.is_large_list(dtype) else whole.cast(pa.large_list(dtype.value_type))
        inner, kind = plain(lists.flatten())
        # Anew, since a slice's own begin somewhere, which goes not together with nulls.
        offsets = np.append(0, np.cumsum(lengths_of(lists)))
        absent = lists.is_null() if lists.null_count else None
        return pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=absent), ["list", kind]
    if types.is_struct(dtype):
        fields = [plain(array.field(index)) for index in range(dtype.num_fields)]
        names = [field.name for field in dtype]
        absent = array.is_null() if array.null_count else None
        kinds = [kind for _, kind in fields]
        return pa.StructArray.from_arrays([each for each, _ in fields], names, mask=absent), ["dict", names, kinds]
    for is_type, kind, wanted in _PLAIN:
        if is_type(dtype):
            return (array if dtype.equals(wanted) else _converted(partial(array.cast, wanted), dtype)), kind
    return array, "any"


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)


def _is_bytes(dtype: pa.DataType) -> bool:
    return pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype)


def _is_naive_time(dtype: pa.DataType) -> bool:
    return pa.types.is_timestamp(dtype) and dtype.tz is None


_PLAIN: list[tuple[Any, str, pa.DataType]] = [
    (pa.types.is_null, "none", pa.null()),
    (pa.types.is_boolean, "bool", pa.bool_()),
    (pa.types.is_integer, "int", pa.int64()),
    (pa.types.is_floating, "float", pa.float64()),
    (_is_text, "str", pa.string()),
    (_is_bytes, "bytes", pa.binary()),
    (_is_naive_time, "datetime", pa.timestamp("us")),
    (pa.types.is_date, "date", pa.date32()),
    (pa.types.is_time, "time", pa.time64("us")),
]
