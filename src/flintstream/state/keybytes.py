"""The bytes by which an entry of state is found on disk: equal entries, equal bytes.

Equal as Python's `==` sees it, since tables in memory are dicts: `1`, `1.0`, `True` and `Decimal(1)` are one key, a
named tuple is a tuple, an aware datetime is an instant. Every value says itself where it ends, so the bytes of a key
are a prefix of those of its entries and of no other key's. They serve to find an entry, which itself is kept beside.
Invariant: the same in every process, so nothing here may depend on `hash`, on identity or on the order of a set.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from decimal import Decimal
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from flintstream.model.row import Row
from flintstream.model.windows import TimeWindow

LONGEST_PART = 160
"""Parts beyond this many bytes are replaced by a digest."""
LONGEST_ENTRY = 480
"""LMDB takes keys of up to 511 bytes."""

_BIAS = 1 << 63
_LENGTHS = [bytes([length]) for length in range(256)]
_NAN = struct.pack(">d", math.nan)
_MICROSECOND = datetime.timedelta(microseconds=1)


def entry_bytes(entry: Any, parts: int) -> bytes:
    """Return the bytes of an entry: the key itself if `parts` is 1, else a tuple of that many parts."""
    if parts == 1:
        return part_bytes(entry)
    found = [part_bytes(part) for part in entry]
    data = b"".join(found)
    return data if len(data) <= LONGEST_ENTRY else found[0] + _digest(b"".join(found[1:]))


def part_bytes(value: Any) -> bytes:
    """Return the bytes of one part of an entry, at most LONGEST_PART of them."""
    kind: Any = type(value)
    if kind is str:
        data = value.encode("utf-8", "surrogatepass")
        if len(data) < LONGEST_PART - 1:
            return b"s" + _LENGTHS[len(data)] + data
    elif kind is int or kind is bool:
        if -_BIAS <= value < _BIAS:
            return b"i" + (value + _BIAS).to_bytes(8, "big")
    elif kind is TimeWindow:
        return b"w" + part_bytes(value.start) + part_bytes(value.end)
    data = canonical(value)
    return data if len(data) <= LONGEST_PART else _digest(data)


def _digest(data: bytes) -> bytes:
    return b"#" + hashlib.blake2b(data, digest_size=20).digest()


def canonical(value: Any) -> bytes:
    """Return the bytes of any value, however long."""
    kind: Any = type(value)
    encode = _EXACT.get(kind)
    if encode is not None:
        return encode(value)
    for base, encode in _SUBCLASSES:
        if isinstance(value, base):
            return encode(value)
    if is_dataclass(value):
        compared = [getattr(value, each.name) for each in dataclass_fields(value) if each.compare]
        return _object(type(value), compared)
    return _reduced(value)


def _int(value: int) -> bytes:
    value = int(value)
    if -_BIAS <= value < _BIAS:
        return b"i" + (value + _BIAS).to_bytes(8, "big")
    data = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return b"I" + len(data).to_bytes(4, "big") + data


def _float(value: float) -> bytes:
    if value.is_integer():
        return _int(int(value))
    return b"f" + (_NAN if math.isnan(value) else struct.pack(">d", value))


def _rational(value: Decimal | Fraction) -> bytes:
    """A number that a float is equal to has that float's bytes."""
    if isinstance(value, Decimal) and not value.is_finite():
        return _float(float(value))
    ratio = value.as_integer_ratio()
    if ratio[1] == 1:
        return _int(ratio[0])
    try:
        near = ratio[0] / ratio[1]
    except OverflowError:
        near = math.inf
    if near == value:
        return _float(near)
    return b"q" + _int(ratio[0]) + _int(ratio[1])


def _complex(value: complex) -> bytes:
    return _float(value.real) if not value.imag else b"c" + _float(value.real) + _float(value.imag)


def _sized(tag: bytes, data: bytes) -> bytes:
    """One byte of length while that is enough; the tag in capitals says that there are four."""
    if len(data) < LONGEST_PART - 1:
        return tag + _LENGTHS[len(data)] + data
    return tag.upper() + len(data).to_bytes(4, "big") + data


def _str(value: str) -> bytes:
    return _sized(b"s", value.encode("utf-8", "surrogatepass"))


def _bytes(value: bytes) -> bytes:
    return _sized(b"b", bytes(value))


def _each(opening: bytes, values: Iterable[Any], closing: bytes) -> bytes:
    """No value begins with a closing tag, so none is taken for the end."""
    return b"".join([opening, *map(canonical, values), closing])


def _pairs(value: dict[Any, Any]) -> bytes:
    return b"".join([b"{", *sorted(canonical(key) + canonical(held) for key, held in value.items()), b"}"])


def _row(value: Row) -> bytes:
    kind = canonical(value.get_row_kind().value)
    names = value.get_field_names()
    if not names:
        return b"r" + kind + _each(b"(", value, b")")
    # Rows with the same fields in another order are equal.
    return b"R" + kind + _pairs(dict(zip(names, value, strict=False)))


def _datetime(value: datetime.datetime) -> bytes:
    value = value.replace(fold=0)
    if value.utcoffset() is None:
        return b"t" + _str(value.isoformat())
    return b"T" + _int((value - _EPOCH) // _MICROSECOND)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _time(value: datetime.time) -> bytes:
    offset = value.utcoffset()
    since = datetime.timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    return b"h" + _int(since // _MICROSECOND) if offset is None else b"H" + _int((since - offset) // _MICROSECOND)


def _object(cls: Any, parts: Any) -> bytes:
    return b"o" + _str(f"{cls.__module__}:{cls.__qualname__}") + canonical(parts)


def _reduced(value: Any) -> bytes:
    """Any other object is what pickle would make of it, but free of identity and of the order of attributes."""
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return _object(value, None)
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):  # a global, by its name
        return b"g" + _str(f"{value.__module__}:{reduced}")
    build, arguments, *rest = reduced
    contents = [None if part is None else list(part) for part in rest[1:3]]
    state = rest[0] if rest else None
    return _object(build, [list(arguments), state, *contents])


_EXACT: dict[type, Callable[[Any], bytes]] = {
    int: _int,
    bool: _int,
    str: _str,
    float: _float,
    type(None): lambda value: b"n",
    bytes: _bytes,
    tuple: lambda value: _each(b"(", value, b")"),
    list: lambda value: _each(b"[", value, b"]"),
    dict: _pairs,
    Row: _row,
    TimeWindow: lambda value: b"w" + _int(value.start) + _int(value.end),
}
_SUBCLASSES: list[tuple[Any, Callable[[Any], bytes]]] = [
    ((int, np.integer, np.bool_), _int),
    ((float, np.floating), lambda value: _float(float(value))),
    ((Decimal, Fraction), _rational),
    ((complex, np.complexfloating), lambda value: _complex(complex(value))),
    (str, _str),
    (bytes, _bytes),
    (tuple, _EXACT[tuple]),
    (list, _EXACT[list]),
    (dict, _pairs),
    ((frozenset, set), lambda value: b"".join([b"<", *sorted(map(canonical, value)), b">"])),
    (Row, _row),
    (datetime.datetime, _datetime),
    (datetime.date, lambda value: b"d" + _int(value.toordinal())),
    (datetime.time, _time),
    (datetime.timedelta, lambda value: b"D" + _int(value // _MICROSECOND)),
]
