"""`Row`: a record with positions and, if wanted, names; `RowKind` says what it does to a changelog.

Flink: pyflink.common.types. A separate file because rows are values that travel through every operator, while types
only describe them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe


class RowKind(Enum):
    """What a row does to the table that a changelog describes."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class Row:
    """A record whose fields are reached by position and, if they have names, by name.

    Example:
        >>> row = Row(name="a", count=1)
        >>> row.count, row["name"], row[1]
        (1, 'a', 1)
        >>> Point = Row("x", "y")
        >>> Point(3, 4)
        Row(x=3, y=4)
    """

    # No instance dict: `row.x = 1` fails by itself, and a row costs three pointers.
    __slots__ = ("_fields", "_row_kind", "_values")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise InvalidArgumentError(
                describe("Row got positional and named fields at once", remedy="use Row(1, 2) or Row(a=1, b=2)")
            )
        self._fields: list[str] | None = list(kwargs) if kwargs else None
        self._values: list[Any] = list(kwargs.values()) if kwargs else list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def builder(names: list[str] | None) -> Callable[[Sequence[Any]], Row]:
        """Return what makes rows of one shape from their values; for those who make millions, without checks."""
        new, insert = Row.__new__, RowKind.INSERT

        def build(values: Sequence[Any]) -> Row:
            row = new(Row)
            row._fields = names
            row._values = list(values)
            row._row_kind = insert
            return row

        return build

    @staticmethod
    def build_all(names: list[str] | None, many: Iterable[Sequence[Any]]) -> list[Row]:
        """Return rows of one shape from the values of each: quicker than a `builder`, which is called for each."""
        new, insert = Row.__new__, RowKind.INSERT
        cells: Iterable[list[Any]] = map(list, many)
        rows: list[Row] = []
        append = rows.append
        for values in cells:
            row = new(Row)
            row._fields = names
            row._values = values
            row._row_kind = insert
            append(row)
        return rows

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Return a row with that kind."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name; with `recursive`, rows inside lists, dicts and rows become dicts too."""
        if self._fields is None:
            raise TypeMismatchError(
                describe(f"{self!r} has no field names", remedy="name the fields with set_field_names([...])")
            )
        values = [_without_rows(value) for value in self._values] if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        """Return what this row does to a changelog."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set what this row does to a changelog."""
        self._row_kind = row_kind

    def get_field_names(self) -> list[str] | None:
        """Return the field names, or None if the fields have positions only."""
        return None if self._fields is None else list(self._fields)

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields, one name for each value."""
        if len(field_names) != len(self._values):
            raise InvalidArgumentError(
                describe(
                    f"{len(field_names)} names for {len(self._values)} values in {self!r}",
                    remedy="give one name per value",
                )
            )
        self._fields = list(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of the named fields in that order; all values, if this row has no names."""
        if self._fields is None:
            return list(self._values)
        missing = [name for name in names if name not in self._fields]
        if missing:
            raise _unknown_field(self, ", ".join(missing))
        return [self[name] for name in names]

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __call__(self, *args: Any) -> Row:
        if len(args) > len(self._values):
            raise InvalidArgumentError(
                describe(
                    f"{len(args)} values for a row with {len(self._values)} fields {self!r}",
                    remedy="give one value a field",
                )
            )
        return _make_row(self._values, args, self._row_kind)

    def __getitem__(self, item: int | slice | str) -> Any:
        # The exact types first: this is on the path of every record, and isinstance costs as much as the rest.
        if type(item) is int:
            return self._values[item]
        if type(item) is str and self._fields is not None:
            try:
                return self._values[self._fields.index(item)]
            except ValueError:
                raise _unknown_field(self, item) from None
        return self._values[item if isinstance(item, int | slice) else self._index(item)]

    def __setitem__(self, key: int | slice | str, value: Any) -> None:
        self._values[key if isinstance(key, int | slice) else self._index(key)] = value

    def __getattr__(self, item: str) -> Any:
        # Underscored names never are fields: a half-built row (while unpickling) must not recurse here.
        if item[0] != "_" and self._fields is not None:
            try:
                return self._values[self._fields.index(item)]
            except (ValueError, IndexError):
                pass
        raise AttributeError(item)

    def _index(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            raise _unknown_field(self, name)
        return self._fields.index(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_row, (self._fields, tuple(self._values), self._row_kind)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=False))})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return False
        if self._row_kind is not other._row_kind:
            return False
        if self._fields is None or other._fields is None or self._fields == other._fields:
            return self._fields == other._fields and self._values == other._values
        return sorted(self._fields) == sorted(other._fields) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        # Rows with the same names in another order are equal, so position must not count for named rows.
        if self._fields is None:
            return hash(tuple(self._values))
        return hash(frozenset(zip(self._fields, self._values, strict=False)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _make_row(fields: Sequence[str] | None, values: Sequence[Any], kind: RowKind) -> Row:
    row = Row.of_kind(kind, *values)
    if fields is not None:
        row._fields = list(fields)  # pyright: ignore[reportPrivateUsage]  # set_field_names refuses unequal lengths
    return row


def _without_rows(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_without_rows(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _without_rows(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def _unknown_field(record: object, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        describe(f"no field {name!r} in {record!r}", remedy="check the name against the record's fields")
    )


def get_field(record: Any, name: str) -> Any:
    """Return a named field of any record with names: a `Row`, a dict, a dataclass, a named tuple, an object.

    Raises:
        InvalidArgumentError: the record has no such field.
    """
    if isinstance(record, Row):
        return record[name]
    if isinstance(record, Mapping):
        mapping = cast("Mapping[str, Any]", record)
        if name in mapping:
            return mapping[name]
    elif hasattr(record, name):
        return getattr(record, name)
    raise _unknown_field(record, name)
