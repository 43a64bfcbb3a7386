"""`Types`: the factory a user calls to name a type, and the one reading of "a type, however it was written".

Flink: pyflink.common.typeinfo.Types. `DATACLASS` and `DICT` are ours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.infer import dataclass_type, infer_from_annotation
from flintstream.model.location import refused
from flintstream.model.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeType,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


class Types:
    """Names every type there is; `Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()])`."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Return the type of `str`."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:
        """Return the type of an `int` of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """Return the type of `bool`."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:
        """Return the type of an `int` of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation:
        """Return the type of an `int` of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """Return the type of an `int` of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Return the type of a `float` of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Return the type of a `float` of 64 bits."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:
        """Return the type of a `str` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Return the type of an `int` of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Return the type of `decimal.Decimal`."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """Return the type of `Instant`."""
        return BasicTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """Return the type of `datetime.date`."""
        return SqlTimeTypeInfo(SqlTimeType.DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """Return the type of `datetime.time`."""
        return SqlTimeTypeInfo(SqlTimeType.TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """Return the type of `datetime.datetime`."""
        return SqlTimeTypeInfo(SqlTimeType.TIMESTAMP)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Return the type of any Python object, kept by pickling it."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of a `Row` whose fields have positions only."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of a `Row` with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """Return the type of a tuple of a fixed length."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of an array of a primitive; of `BYTE` it is the type of `bytes`."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of an array of a primitive or of strings, with None allowed inside."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of an array of any type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        """Return the type of a dict with keys of one type and values of one type."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        """Return the type of a list."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def DICT(fields: Mapping[str, TypeInformation]) -> DictTypeInfo:
        """Return the type of a dict used as a record, with a type for each of its keys."""
        return DictTypeInfo(tuple(fields), tuple(fields.values()))

    @staticmethod
    def DATACLASS(class_: type[Any]) -> DataclassTypeInfo:
        """Return the type of a dataclass, its fields inferred from their annotations.

        Raises:
            TypeMismatchError: `class_` is not a dataclass.
        """
        if not isinstance(cast("object", class_), type) or not dataclasses.is_dataclass(class_):
            raise refused(TypeMismatchError, f"{class_!r} is not a dataclass", "put @dataclass on the class")
        return dataclass_type(class_)


def to_type_info(spec: Any) -> TypeInformation | None:
    """Return a type however it was written: `Types.X()`, a list of types (a row), `int` or `tuple[str, int]`, or None.

    Raises:
        TypeMismatchError: a Python type or annotation from which no type can be told.
    """
    if spec is None or isinstance(spec, TypeInformation):
        return spec
    if isinstance(spec, list):
        return RowTypeInfo(cast("list[TypeInformation]", spec))
    inferred = infer_from_annotation(spec)
    if inferred is None:
        raise TypeMismatchError(
            describe(f"{spec!r} names no type", remedy="use Types.X(); Types.PICKLED_BYTE_ARRAY() holds anything")
        )
    return inferred
