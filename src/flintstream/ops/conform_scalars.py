"""Scalars held to their declared type: exact Python types, the ranges of sized integers, 32-bit floats rounded.

Apart from `conform` because it is a table of types, while that file is about taking records to pieces.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.model.time import Instant
from flintstream.model.typeinfo import BasicType, BasicTypeInfo, SqlTimeType, SqlTimeTypeInfo, TypeInformation

_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_EXACT: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.CHAR: str,
    BasicType.BIG_INT: int,
    BasicType.BIG_DEC: decimal.Decimal,
    BasicType.INSTANT: Instant,
}
_CALENDAR: dict[SqlTimeType, type] = {
    SqlTimeType.DATE: datetime.date,
    SqlTimeType.TIME: datetime.time,
    SqlTimeType.TIMESTAMP: datetime.datetime,
}
_KINDS: dict[object, str] = {
    BasicType.STRING: "str",
    BasicType.BOOLEAN: "bool",
    BasicType.BIG_INT: "int",
    BasicType.LONG: "int",
    BasicType.DOUBLE: "float",
    SqlTimeType.DATE: "date",
    SqlTimeType.TIME: "time",
    SqlTimeType.TIMESTAMP: "datetime",
}
_NONE = type(None)


class Mismatch(Exception):
    """A value that does not fit; `path` leads to it through fields. Never leaves this room."""

    def __init__(self, value: Any, reason: str = "", path: str = "") -> None:
        super().__init__()
        self.value = value
        self.reason = reason
        self.path = path

    def inside(self, name: str) -> Mismatch:
        """Return the same mismatch seen from outside the field `name`."""
        return Mismatch(self.value, self.reason, f"{name}.{self.path}" if self.path else name)


def scalar_column(info: TypeInformation) -> Callable[[list[Any]], list[Any]]:
    """Return the check of a scalar type; a byte array counts as one."""
    if isinstance(info, SqlTimeTypeInfo):
        return _Exact(_CALENDAR[info.time_type])
    if not isinstance(info, BasicTypeInfo):
        return _Exact(bytes, bytearray)
    kind = info.basic_type
    if kind in _BITS:
        return _Integers(_BITS[kind])
    if kind is BasicType.DOUBLE:
        return doubles
    if kind is BasicType.FLOAT:
        return floats
    if kind is BasicType.CHAR:
        return characters
    return _Exact(_EXACT[kind])


def fits_scalar(array: pa.Array, kind: Any, info: TypeInformation) -> bool:
    """Whether a column is of a scalar type, judged by its kind and, for sized integers, by its least and greatest."""
    if isinstance(info, SqlTimeTypeInfo):
        return kind == _KINDS[info.time_type]
    if not isinstance(info, BasicTypeInfo):
        return kind == "bytes"
    if kind == "int" and info.basic_type in _BITS and info.basic_type is not BasicType.LONG:
        bounds: dict[str, int | None] = pc.min_max(array).as_py()  # pyright: ignore[reportAttributeAccessIssue]
        limit = 1 << (_BITS[info.basic_type] - 1)
        low, high = bounds["min"], bounds["max"]
        return low is None or high is None or (-limit <= low and high < limit)
    return kind == _KINDS.get(info.basic_type)


class _Exact:
    """Values of exactly one type; of a subclass, or of `also`, they are converted to it."""

    def __init__(self, wanted: type, also: type | None = None) -> None:
        self._wanted = wanted
        self._also = also
        self._fine = {wanted, _NONE}

    def __call__(self, column: list[Any]) -> list[Any]:
        if set(map(type, column)) <= self._fine:
            return column
        return [value if type(value) in self._fine else self._convert(value) for value in column]

    def _convert(self, value: Any) -> Any:
        if self._also is not None and isinstance(value, self._also):
            return self._wanted(value)
        # A datetime is a date to Python, and a bool an int, but neither is meant where the other was declared.
        if isinstance(value, self._wanted) and not isinstance(value, bool | datetime.datetime):
            return str.__str__(value) if isinstance(value, str) else self._wanted(value)
        raise Mismatch(value)


class _Integers:
    """Integers of a number of bits; what numpy calls an integer becomes an int."""

    def __init__(self, bits: int) -> None:
        self._low, self._high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def __call__(self, column: list[Any]) -> list[Any]:
        types = set(map(type, column))
        if not types <= {int, _NONE}:
            column = [value if value is None or type(value) is int else to_int(value) for value in column]
        present = [value for value in column if value is not None] if _NONE in types else column
        if present and (min(present) < self._low or max(present) > self._high):
            wrong = next(value for value in present if not self._low <= value <= self._high)
            raise Mismatch(wrong, f"not from {self._low} to {self._high}")
        return column


def to_int(value: Any) -> int:
    """Return an integer of another type, such as numpy's, as an int."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise Mismatch(value)
    return int(value)


def doubles(column: list[Any]) -> list[Any]:
    """Floats; integers become floats."""
    if set(map(type, column)) <= {float, _NONE}:
        return column
    return [value if value is None or type(value) is float else to_float(value) for value in column]


def to_float(value: Any) -> float:
    """Return a number of another type as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise Mismatch(value)
    try:
        return float(value)
    except OverflowError:
        raise Mismatch(value, "too great for a float") from None


def floats(column: list[Any]) -> list[Any]:
    """Floats rounded to 32 bits, as they are after a trip through PyFlink."""
    wide = doubles(column)
    present = [value for value in wide if value is not None]
    with np.errstate(over="ignore"):
        narrow = np.array(present, np.float32)
    if bool((np.isinf(narrow) & np.isfinite(np.array(present, np.float64))).any()):
        wrong = next(
            value for value, each in zip(present, narrow, strict=True) if np.isinf(each) and np.isfinite(value)
        )
        raise Mismatch(wrong, "too great for 32 bits")
    rounded = iter(narrow.astype(np.float64).tolist())
    result = [None if value is None else next(rounded) for value in wide]
    return column if result == column and wide is column else result


def characters(column: list[Any]) -> list[Any]:
    """Strings of one character."""
    result = _Exact(str)(column)
    for value in result:
        if value is not None and len(value) != 1:
            raise Mismatch(value, "not one character")
    return result
