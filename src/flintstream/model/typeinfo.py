"""Type information: what a record, a field or a state value looks like, as plain comparable values.

Flink: pyflink.common.typeinfo, without the Java objects behind it. The classes stand apart from their factory `Types`
so that inference can build them and the factory can use inference, with imports in one direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe


@dataclass(frozen=True, repr=False)
class TypeInformation:
    """Describes the values of one type; two descriptions are equal if they describe the same values.

    Attributes:
        nullable: whether the annotation it came from allows None.
    """

    nullable: bool = field(default=False, kw_only=True)

    def as_nullable(self) -> Self:
        """Return the same type with None allowed."""
        return replace(self, nullable=True)

    def __repr__(self) -> str:
        return self.describe() + ("?" if self.nullable else "")

    def describe(self) -> str:
        """Return the type's name as `explain()` shows it, without the mark for None."""
        return type(self).__name__


class BasicType(Enum):
    """The scalar types, with the name Flink prints for each."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class SqlTimeType(Enum):
    """The calendar types: `datetime.date`, `datetime.time`, `datetime.datetime`."""

    DATE = "SqlDate"
    TIME = "SqlTime"
    TIMESTAMP = "SqlTimestamp"


@dataclass(frozen=True, repr=False)
class BasicTypeInfo(TypeInformation):
    """A scalar."""

    basic_type: BasicType

    def describe(self) -> str:
        return self.basic_type.name


@dataclass(frozen=True, repr=False)
class SqlTimeTypeInfo(TypeInformation):
    """A date, a time of day, or a date with a time of day."""

    time_type: SqlTimeType

    def describe(self) -> str:
        return f"SQL_{self.time_type.name}"


@dataclass(frozen=True, repr=False)
class PickledBytesTypeInfo(TypeInformation):
    """Any Python object, kept by pickling it."""

    def describe(self) -> str:
        return "PICKLED"


_PRIMITIVES = frozenset(
    {
        BasicType.BOOLEAN,
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.FLOAT,
        BasicType.DOUBLE,
        BasicType.CHAR,
    }
)


@dataclass(frozen=True, repr=False)
class PrimitiveArrayTypeInfo(TypeInformation):
    """An array of a primitive, without None inside; of `BYTE` it is `bytes`."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        _check_array_element("PRIMITIVE_ARRAY", self.element_type, _PRIMITIVES)

    def describe(self) -> str:
        return f"PRIMITIVE_ARRAY<{self.element_type}>"


@dataclass(frozen=True, repr=False)
class BasicArrayTypeInfo(TypeInformation):
    """An array of a primitive or of strings, where None may stand inside."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        _check_array_element("BASIC_ARRAY", self.element_type, _PRIMITIVES | {BasicType.STRING})

    def describe(self) -> str:
        return f"BASIC_ARRAY<{self.element_type}>"


@dataclass(frozen=True, repr=False)
class ObjectArrayTypeInfo(TypeInformation):
    """An array of any other type."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        check_type_info("OBJECT_ARRAY", self.element_type)

    def describe(self) -> str:
        return f"OBJECT_ARRAY<{self.element_type}>"


@dataclass(frozen=True, repr=False)
class ListTypeInfo(TypeInformation):
    """A Python list."""

    elem_type: TypeInformation

    def __post_init__(self) -> None:
        check_type_info("LIST", self.elem_type)

    def describe(self) -> str:
        return f"LIST<{self.elem_type}>"


@dataclass(frozen=True, repr=False)
class MapTypeInfo(TypeInformation):
    """A Python dict whose keys are all of one type and whose values are all of one type."""

    key_type: TypeInformation
    value_type: TypeInformation

    def __post_init__(self) -> None:
        check_type_info("MAP", self.key_type)
        check_type_info("MAP", self.value_type)

    def describe(self) -> str:
        return f"MAP<{self.key_type}, {self.value_type}>"


@dataclass(frozen=True, repr=False)
class TupleTypeInfo(TypeInformation):
    """A tuple of a fixed length."""

    field_types: Sequence[TypeInformation]

    def __post_init__(self) -> None:
        object.__setattr__(self, "field_types", _checked_fields("TUPLE", self.field_types))

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields in order."""
        return list(self.field_types)

    def get_field_names(self) -> list[str]:
        """Return Flink's names for fields that have none: `f0`, `f1`, ..."""
        return default_field_names(len(self.field_types))

    def describe(self) -> str:
        return f"TUPLE<{', '.join(map(str, self.field_types))}>"


@dataclass(frozen=True, repr=False)
class RowTypeInfo(TypeInformation):
    """A `Row`, whose fields may have names."""

    field_types: Sequence[TypeInformation]
    field_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "field_types", _checked_fields("ROW", self.field_types))
        if self.field_names is not None:
            object.__setattr__(self, "field_names", _checked_names("ROW_NAMED", self.field_names, self.field_types))

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields in order."""
        return list(self.field_types)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields in order; `f0`, `f1`, ... if none were given."""
        return default_field_names(len(self.field_types)) if self.field_names is None else list(self.field_names)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a named field, -1 if there is none."""
        names = self.get_field_names()
        return names.index(field_name) if field_name in names else -1

    def describe(self) -> str:
        if self.field_names is None:
            return f"ROW<{', '.join(map(str, self.field_types))}>"
        return f"ROW<{_describe_named(self.field_names, self.field_types)}>"


@dataclass(frozen=True, repr=False)
class DictTypeInfo(TypeInformation):
    """A dict used as a record: a fixed set of string keys, each with a type of its own."""

    field_names: Sequence[str]
    field_types: Sequence[TypeInformation]

    def __post_init__(self) -> None:
        object.__setattr__(self, "field_types", _checked_fields("DICT", self.field_types))
        object.__setattr__(self, "field_names", _checked_names("DICT", self.field_names, self.field_types))

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the values in the order of the keys."""
        return list(self.field_types)

    def get_field_names(self) -> list[str]:
        """Return the keys in order."""
        return list(self.field_names)

    def describe(self) -> str:
        return f"DICT<{_describe_named(self.field_names, self.field_types)}>"


@dataclass(frozen=True, repr=False)
class DataclassTypeInfo(TypeInformation):
    """An instance of exactly one dataclass, field by field."""

    cls: type[Any]
    field_names: Sequence[str]
    field_types: Sequence[TypeInformation]

    def __post_init__(self) -> None:
        object.__setattr__(self, "field_types", _checked_fields("DATACLASS", self.field_types))
        object.__setattr__(self, "field_names", _checked_names("DATACLASS", self.field_names, self.field_types))

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields in the order of their declaration."""
        return list(self.field_types)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields in the order of their declaration."""
        return list(self.field_names)

    def describe(self) -> str:
        return f"{self.cls.__name__}<{_describe_named(self.field_names, self.field_types)}>"


def default_field_names(arity: int) -> list[str]:
    """Return the names that Flink gives to fields without names."""
    return [f"f{index}" for index in range(arity)]


def check_type_info(owner: str, candidate: object) -> None:
    """Refuse anything but a type information.

    Raises:
        TypeMismatchError: for any other value, such as `Types.INT` without its parentheses.
    """
    if not isinstance(candidate, TypeInformation):
        raise TypeMismatchError(
            describe(f"{owner} got {candidate!r} for a type", remedy="use a call such as Types.LONG()")
        )


def _check_array_element(owner: str, element: object, allowed: frozenset[BasicType]) -> None:
    check_type_info(owner, element)
    if not isinstance(element, BasicTypeInfo) or element.basic_type not in allowed:
        names = ", ".join(kind.name for kind in BasicType if kind in allowed)
        raise TypeMismatchError(
            describe(f"{owner} cannot hold elements of type {element!r}", remedy=f"use OBJECT_ARRAY, or one of {names}")
        )


def _checked_fields(owner: str, field_types: Sequence[TypeInformation]) -> tuple[TypeInformation, ...]:
    for candidate in field_types:
        check_type_info(owner, candidate)
    return tuple(field_types)


def _checked_names(owner: str, names: Sequence[str], types: Sequence[TypeInformation]) -> tuple[str, ...]:
    if len(names) != len(types):
        raise InvalidArgumentError(
            describe(f"{owner} got {len(names)} names for {len(types)} types", remedy="give one name for each type")
        )
    if len(set(names)) != len(names):
        raise InvalidArgumentError(
            describe(f"{owner} got a name twice in {list(names)!r}", remedy="give every field its own name")
        )
    return tuple(names)


def _describe_named(names: Sequence[str], types: Sequence[TypeInformation]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
