"""Holds an operator to the type that was declared for its output: checks, and converts where PyFlink converts.

Works on whole columns: the types of a uniform column are one `set(map(type, ...))`, a struct is taken apart into its
fields, and a column whose kind already says it all is not looked at. Only a column that fails is searched value by
value, for the message. Types that were merely inferred are never enforced, so undeclared programs pay nothing.

None passes wherever PyFlink lets it pass: everywhere but inside a primitive array and as the key of a map.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, eq, itemgetter
from typing import Any

import pyarrow as pa

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.row import Row
from flintstream.model.typeinfo import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flintstream.model.types import Types
from flintstream.ops.batch import Values
from flintstream.ops.conform_scalars import Mismatch, fits_scalar, scalar_column
from flintstream.ops.selectors import FunctionKey, KeySource

Conform = Callable[[Values], Values]
Column = Callable[[list[Any]], list[Any]]
"""Returns the same list if every value fits, another if some were converted; raises `Mismatch`."""

_NONE = type(None)


def conform_to(type_info: TypeInformation, name: str, location: str) -> Conform:
    """Return a function that makes values fit a declared type, or says which operator and value do not.

    >>> conform_to(Types.ROW_NAMED(["n"], [Types.INT()]), "count", "job.py:3")(Values([(1,)])).rows()
    [Row(n=1)]
    """
    column = _column(type_info)

    def conform(values: Values) -> Values:
        if column is None or (values.is_column and _fits_column(*values.column(), type_info)):
            return values
        rows = values.rows()
        try:
            converted = column(rows)
        except Mismatch as mismatch:
            raise _error(mismatch, type_info, name, location) from None
        return values if converted is rows else Values(converted)

    return conform


@dataclass(frozen=True, slots=True)
class TypedKey(FunctionKey):
    """A key whose declared type is enforced; it travels with the record, like any computed key."""

    function: Callable[[Any], Any] = field(init=False)
    source: KeySource
    key_type: TypeInformation
    name: str
    location: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "function", _SourceOfKey(self.source))

    def keys(self, values: Values) -> Values:
        """Return the key of every record."""
        return conform_to(self.key_type, self.name, self.location)(self.source.keys(values))


@dataclass(frozen=True, slots=True)
class _SourceOfKey:
    """The key of one record, for those who ask record by record."""

    source: KeySource

    def __call__(self, value: Any) -> Any:
        return self.source.keys(Values([value])).rows()[0]


def _error(mismatch: Mismatch, type_info: TypeInformation, name: str, location: str) -> TypeMismatchError:
    where = f" in field {mismatch.path}" if mismatch.path else ""
    what = f"{name!r} emitted {mismatch.value!r:.200}{where}, but its declared type is {type_info}"
    if mismatch.reason:
        what = f"{what} ({mismatch.reason})"
    remedy = "return what was declared, or declare another type"
    return TypeMismatchError(describe(what, location or None, remedy), location=location or None)


def _column(info: TypeInformation) -> Column | None:
    """Return the check of a type, or None if anything fits."""
    if isinstance(info, BasicTypeInfo | SqlTimeTypeInfo):
        return scalar_column(info)
    if isinstance(info, TupleTypeInfo):
        return _Tuples(info)
    if isinstance(info, RowTypeInfo):
        return _Rows(info)
    if isinstance(info, DictTypeInfo):
        return _Dicts(info)
    if isinstance(info, DataclassTypeInfo):
        return _Instances(info)
    if isinstance(info, ListTypeInfo):
        return _Lists(info, info.elem_type)
    if isinstance(info, PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo):
        if info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
            return scalar_column(info)
        return _Lists(info, info.element_type)
    if isinstance(info, MapTypeInfo):
        return _Maps(info)
    return None


def _fits_column(array: pa.Array, kind: Any, info: TypeInformation) -> bool:
    """Whether an Arrow column is of the declared type without a look at its values."""
    if kind == "none":
        return True
    if isinstance(info, BasicTypeInfo | SqlTimeTypeInfo | PrimitiveArrayTypeInfo):
        return fits_scalar(array, kind, info)
    if type(kind) is not list:
        return _column(info) is None
    if isinstance(info, TupleTypeInfo):
        wanted: list[Any] = ["tuple"]
    elif isinstance(info, RowTypeInfo):
        wanted = ["row", None if info.field_names is None else list(info.field_names)]
    elif isinstance(info, DictTypeInfo):
        wanted = ["dict", list(info.field_names)]
    else:
        return _column(info) is None
    if kind[:-1] != wanted or len(kind[-1]) != len(info.field_types):
        return False
    inner = zip(range(len(kind[-1])), kind[-1], info.field_types, strict=True)
    return all(_fits_column(array.field(index), each, declared) for index, each, declared in inner)


class _Structs:
    """The part that all types with fields share: take apart, check each field, put together if one was converted."""

    def __init__(self, info: TupleTypeInfo | RowTypeInfo | DictTypeInfo | DataclassTypeInfo) -> None:
        self._names = info.get_field_names()
        self._checks = [_column(each) for each in info.field_types]

    def _fields(self, columns: Sequence[Sequence[Any]]) -> list[Sequence[Any]] | None:
        """Return the converted fields, or None if none was converted."""
        converted = list(columns)
        changed = False
        for index, (check, column) in enumerate(zip(self._checks, columns, strict=True)):
            if check is None:
                continue
            whole = column if isinstance(column, list) else list(column)
            try:
                result = check(whole)
            except Mismatch as mismatch:
                raise mismatch.inside(self._names[index]) from None
            if result is not whole:
                converted[index], changed = result, True
        return converted if changed else None


def _with_nones(rows: list[Any], convert: Column) -> list[Any]:
    """Apply `convert` to the rows that are not None."""
    present = [row for row in rows if row is not None]
    if len(present) == len(rows):
        return convert(rows)
    converted = convert(present)
    if converted is present:
        return rows
    rest = iter(converted)
    return [None if row is None else next(rest) for row in rows]


class _Tuples(_Structs):
    """Tuples of a fixed length; lists and rows become tuples."""

    def __call__(self, rows: list[Any]) -> list[Any]:
        if _NONE in (types := set(map(type, rows))):
            return _with_nones(rows, self)
        plain = types <= {tuple}
        tuples = rows if plain else [self._to_tuple(row) for row in rows]
        width = len(self._checks)
        if set(map(len, tuples)) - {width}:
            wrong = next(row for row in tuples if len(row) != width)
            raise Mismatch(wrong, f"{len(wrong)} fields instead of {width}")
        fields = self._fields([list(map(itemgetter(index), tuples)) for index in range(width)])
        return tuples if fields is None else list(zip(*fields, strict=True))

    @staticmethod
    def _to_tuple(row: Any) -> tuple[Any, ...]:
        if isinstance(row, tuple | list | Row):
            return tuple(row)
        raise Mismatch(row)


class _Rows(_Structs):
    """Rows; tuples, lists, dicts and objects with these attributes become rows with the declared names."""

    def __init__(self, info: RowTypeInfo) -> None:
        super().__init__(info)
        self._declared = None if info.field_names is None else list(info.field_names)
        self._build = Row.builder(self._declared)

    def __call__(self, rows: list[Any]) -> list[Any]:
        if _NONE in (types := set(map(type, rows))):
            return _with_nones(rows, self)
        if types <= {Row} and self._are_as_declared(rows):
            values = list(map(attrgetter("_values"), rows))
        else:
            values = rows if types <= {tuple} else [self._values_of(row) for row in rows]
            self._check_width(values, rows)
        columns = [list(map(itemgetter(index), values)) for index in range(len(self._checks))]
        fields = self._fields(columns)
        if fields is None and types <= {Row} and self._are_as_declared(rows):
            return rows
        made = list(map(self._build, zip(*(fields or columns), strict=True)))
        for new, old in zip(made, rows, strict=True) if Row in types else ():
            if isinstance(old, Row):
                new.set_row_kind(old.get_row_kind())
        return made

    def _are_as_declared(self, rows: list[Any]) -> bool:
        if set(map(len, map(attrgetter("_values"), rows))) - {len(self._checks)}:
            return False
        return all(map(eq, map(attrgetter("_fields"), rows), itertools.repeat(self._declared)))

    def _values_of(self, row: Any) -> Sequence[Any]:
        """Return the fields in the declared order; by name where both sides have names."""
        if isinstance(row, tuple | list):
            return row
        if isinstance(row, Row):
            if row.get_field_names() is None or self._declared is None:
                return list(row)
            named: dict[str, Any] | None = row.as_dict()
        else:
            named = row if isinstance(row, dict) else getattr(row, "__dict__", None)
        if named is None:
            raise Mismatch(row)
        unknown = [str(name) for name in named if name not in self._names]
        if unknown:
            raise Mismatch(row, f"no field {', '.join(unknown)} is declared")
        return [named.get(name) for name in self._names]

    def _check_width(self, values: Sequence[Sequence[Any]], rows: Sequence[Any]) -> None:
        width = len(self._checks)
        if set(map(len, values)) - {width}:
            wrong, row = next((each, row) for each, row in zip(values, rows, strict=True) if len(each) != width)
            raise Mismatch(row, f"{len(wrong)} fields instead of {width}")


class _Dicts(_Structs):
    """Dicts with exactly the declared keys."""

    def __call__(self, rows: list[Any]) -> list[Any]:
        if _NONE in (types := set(map(type, rows))):
            return _with_nones(rows, self)
        if types - {dict}:
            raise Mismatch(next(row for row in rows if type(row) is not dict))
        wanted = set(self._names)
        if set(map(frozenset, rows)) - {frozenset(wanted)}:
            wrong = next(row for row in rows if set(row) != wanted)
            raise Mismatch(wrong, f"keys other than {', '.join(self._names)}")
        fields = self._fields([list(map(itemgetter(name), rows)) for name in self._names])
        if fields is None:
            return rows
        return [dict(zip(self._names, each, strict=True)) for each in zip(*fields, strict=True)]


class _Instances(_Structs):
    """Instances of exactly one dataclass."""

    def __init__(self, info: DataclassTypeInfo) -> None:
        super().__init__(info)
        self._cls = info.cls

    def __call__(self, rows: list[Any]) -> list[Any]:
        if _NONE in (types := set(map(type, rows))):
            return _with_nones(rows, self)
        if types - {self._cls}:
            raise Mismatch(next(row for row in rows if type(row) is not self._cls))
        fields = self._fields([list(map(attrgetter(name), rows)) for name in self._names])
        if fields is None:
            return rows
        return [self._cls(**dict(zip(self._names, each, strict=True))) for each in zip(*fields, strict=True)]


class _Lists:
    """Lists of one element type; tuples become lists."""

    def __init__(self, info: TypeInformation, element: TypeInformation) -> None:
        self._check = _column(element)
        self._forbids_none = isinstance(info, PrimitiveArrayTypeInfo)

    def __call__(self, rows: list[Any]) -> list[Any]:
        if _NONE in (types := set(map(type, rows))):
            return _with_nones(rows, self)
        if types - {list, tuple}:
            raise Mismatch(next(row for row in rows if type(row) not in (list, tuple)))
        lists = rows if types <= {list} else list(map(list, rows))
        items = list(itertools.chain.from_iterable(lists))
        if self._forbids_none and None in items:
            raise Mismatch(next(row for row in lists if None in row), "None inside a primitive array")
        converted = items if self._check is None else self._check(items)
        if converted is items:
            return lists
        ends = list(itertools.accumulate(map(len, lists)))
        return [converted[end - len(each) : end] for end, each in zip(ends, lists, strict=True)]


class _Maps:
    """Dicts with keys of one type and values of one type."""

    def __init__(self, info: MapTypeInfo) -> None:
        self._keys = _column(info.key_type)
        self._values = _column(info.value_type)

    def __call__(self, rows: list[Any]) -> list[Any]:
        if _NONE in (types := set(map(type, rows))):
            return _with_nones(rows, self)
        if types - {dict}:
            raise Mismatch(next(row for row in rows if type(row) is not dict))
        keys = list(itertools.chain.from_iterable(rows))
        if None in keys:
            raise Mismatch(next(row for row in rows if None in row), "None as a key")
        values = list(itertools.chain.from_iterable(map(dict.values, rows)))
        new_keys = keys if self._keys is None else self._keys(keys)
        new_values = values if self._values is None else self._values(values)
        if new_keys is keys and new_values is values:
            return rows
        ends = itertools.accumulate(map(len, rows))
        cuts = [slice(end - len(each), end) for end, each in zip(ends, rows, strict=True)]
        return [dict(zip(new_keys[cut], new_values[cut], strict=True)) for cut in cuts]
