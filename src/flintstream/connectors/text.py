"""How a record looks as text, in `print()` and in text files: as PyFlink shows it.

PyFlink has three ways, and so have we. A `Row` is its kind and its fields, `+I[a,1]`. A record of a type that was
declared is what Java makes of it: `(a,1)`, `true`, `1.0E7`. Anything else is Python's own `str`: `('a', 1)`, `True`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from flintstream.model.row import Row
from flintstream.model.time import Instant
from flintstream.model.typeinfo import DataclassTypeInfo, DictTypeInfo, PickledBytesTypeInfo, TypeInformation


def as_text(value: Any, type_info: TypeInformation | None = None) -> str:
    """Return the text of a record of a stream with the declared type `type_info`, or with none.

    Example:
        >>> from flintstream.model.types import Types
        >>> as_text(Row("a", 1)), as_text(("a", 1)), as_text(("a", 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        ('+I[a,1]', "('a', 1)", '(a,1)')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo | DictTypeInfo | DataclassTypeInfo):
        return str(value)
    return java_text(value)


def java_text(value: Any) -> str:
    """Return what Java's `toString` gives for the value's Java counterpart."""
    if value is None:
        return "null"
    convert = _JAVA.get(cast("type[Any]", type(value)))
    return str(value) if convert is None else convert(value)


def _java_double(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{Decimal(repr(value)):f}"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    scale = len(digits) - 1 + cast("int", exponent)
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{scale}"


def _java_timestamp(value: dt.datetime) -> str:
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _java_instant(value: Instant) -> str:
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=value.seconds)
    fraction = f".{value.nanos:09d}".removesuffix("000").removesuffix("000") if value.nanos else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


_JAVA: dict[type[Any], Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    float: _java_double,
    list: lambda value: f"[{', '.join(map(java_text, value))}]",
    tuple: lambda value: f"({','.join(map(java_text, value))})",
    dict: lambda value: "{" + ", ".join(f"{java_text(k)}={java_text(v)}" for k, v in value.items()) + "}",
    bytes: lambda value: f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]",
    Row: lambda value: f"{value.get_row_kind()}[{', '.join(map(java_text, value))}]",
    dt.datetime: _java_timestamp,
    dt.time: lambda value: f"{value:%H:%M:%S}",
    Instant: _java_instant,
}
