"""Keys to key groups, groups to partitions: arithmetic that never changes for the life of a job's state.

The hash is our own (Python's `hash` differs from process to process) and comes twice: for one Python value, and for a
whole column at once. Invariant: both give the same number for the same value, so a key keeps its group whatever the
other keys of its batch are. As with Python's `==`, `1`, `1.0` and `True` are one key; so are a named tuple and a plain
one, or one moment in two time zones.
"""

from __future__ import annotations

import math
import numbers
import struct
from collections.abc import Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.model.row import Row
from flintstream.state.classes import class_of
from flintstream.state.codec import Kind, decode
from flintstream.state.keybytes import canonical

_MASK = (1 << 64) - 1
_NONE, _STR, _BYTES, _FLOAT, _SEQUENCE, _OTHER = 0x9E37, 0xC2B2, 0x1656, 0x27D4, 0x8EBC, 0x2545
_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
U64 = npt.NDArray[np.uint64]


def hash_key(key: Any) -> int:
    """Return the stable 64-bit hash of one key."""
    kind: Any = type(key)
    if kind is int or kind is bool:
        return _mix(int(key) & _MASK) if -(1 << 63) <= key < (1 << 63) else _hash_number(key)
    if kind is str:
        return _hash_bytes(_STR, key.encode("utf-8", "surrogatepass"))
    if key is None:
        return _mix(_NONE)
    if kind is float:
        return _hash_number(key)
    if kind is bytes:
        return _hash_bytes(_BYTES, key)
    if kind is tuple or kind is list:
        return _hash_sequence(key)
    if kind is Row:
        names = key.get_field_names()
        return _hash_sequence([key[index] for index in _by_name(names)] if names else key)
    if is_dataclass(kind):
        return _hash_sequence([getattr(key, name) for name in _compared(kind)])
    return _hash_other(key)


def hash_column(array: pa.Array, kind: Kind) -> U64:
    """Return the hash of every value of a column, equal to `hash_key` of each."""
    if array.null_count == 0:
        if kind in ("int", "bool"):
            return _mix_all(array.cast(pa.int64()).to_numpy().view(np.uint64))
        if kind == "str" and pa.types.is_string(array.type):
            return _hash_strings(array, _STR)
        if kind == "bytes" and pa.types.is_binary(array.type):
            return _hash_strings(array, _BYTES)
        if type(kind) is list and (
            kind[0] in ("tuple", "row") or (kind[0] == "class" and _compared(class_of(kind[1])) == kind[2])
        ):
            return _hash_struct(array, kind)
    return np.fromiter(map(hash_key, decode(array, kind)), np.uint64, len(array))


def key_groups(hashes: U64, max_parallelism: int) -> npt.NDArray[np.int64]:
    """Return the key group of every hash."""
    return (hashes % np.uint64(max_parallelism)).astype(np.int64)


def partition_of(groups: Any, parallelism: int, max_parallelism: int) -> Any:
    """Return which of `parallelism` partitions owns a group, or an array of groups; ranges are contiguous."""
    return groups * parallelism // max_parallelism


def group_range(partition: int, parallelism: int, max_parallelism: int) -> range:
    """Return the key groups that a partition owns; the inverse of `partition_of`."""
    start = -(-partition * max_parallelism // parallelism)
    end = -(-(partition + 1) * max_parallelism // parallelism)
    return range(start, end)


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * _M1) & _MASK
    value = ((value ^ (value >> 27)) * _M2) & _MASK
    return value ^ (value >> 31)


def _mix_all(values: U64) -> U64:
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(_M1)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_M2)
    return mixed ^ (mixed >> np.uint64(31))


@lru_cache(maxsize=1024)
def _compared(cls: Any) -> list[str]:
    """Return the fields of a dataclass that make two of its objects equal."""
    return [f.name for f in dataclass_fields(cls) if f.compare]


def _by_name(names: Sequence[str]) -> list[int]:
    """Return positions in the order of names: rows with the same fields in another order are equal."""
    return sorted(range(len(names)), key=names.__getitem__)


def _hash_sequence(parts: Any) -> int:
    result = _mix(_SEQUENCE ^ len(parts))
    for part in parts:
        result = _mix((result ^ hash_key(part)) & _MASK)
    return result


def _hash_number(key: Any) -> int:
    """Hash any number by its value, whatever its type."""
    try:
        as_float = float(key)
    except (OverflowError, TypeError):  # an int too large, a complex number
        as_float = None
    if as_float is None or (as_float != key and not math.isnan(as_float)):
        # Python's own hash of a number depends on its value alone, not on the process.
        return _mix((hash(key) & _MASK) ^ _OTHER)
    if as_float.is_integer() and -(2.0**63) <= as_float < 2.0**63:
        return _mix(int(as_float) & _MASK)
    bits = 0x7FF8000000000000 if math.isnan(as_float) else struct.unpack("<Q", struct.pack("<d", as_float))[0]
    return _mix(bits ^ _FLOAT)


def _hash_other(key: Any) -> int:
    """Hash what is neither plain nor a plain sequence by the bytes that equal values share.

    Not by its pickle, which tells apart equal values that share parts and those that do not.
    """
    if isinstance(key, str):
        return _hash_bytes(_STR, key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return _hash_bytes(_BYTES, key)
    if isinstance(key, numbers.Integral):
        return hash_key(int(key))
    if isinstance(key, numbers.Number):
        return _hash_number(key)
    return _hash_sequence(key) if isinstance(key, tuple) else _hash_bytes(_OTHER, canonical(key))


def _hash_struct(array: pa.Array, kind: Kind) -> U64:
    kinds = kind[-1]
    result = _mix_all(np.full(len(array), _SEQUENCE ^ len(kinds), np.uint64))
    for index in _by_name(kind[1]) if kind[0] == "row" and kind[1] else range(len(kinds)):
        result = _mix_all(result ^ hash_column(array.field(index), kinds[index]))
    return result


def _hash_bytes(seed: int, data: bytes) -> int:
    result = _mix(seed ^ len(data))
    for start in range(0, len(data), 8):
        result = _mix(result ^ int.from_bytes(data[start : start + 8], "little"))
    return result


def _hash_strings(array: pa.Array, seed: int) -> U64:
    """Hash a column of strings word by word: as many passes as the longest string has words of 8 bytes."""
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    result = _mix_all(np.uint64(seed) ^ lengths.astype(np.uint64))
    longest = int(lengths.max(initial=0))
    if not longest:
        return result
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    padded = np.concatenate([raw[: offsets[-1]], np.zeros(8, np.uint8)])
    words = np.lib.stride_tricks.as_strided(padded[:8].view(np.uint64), (len(padded) - 7,), (1,))
    for start in range(0, longest, 8):
        alive = np.flatnonzero(lengths > start) if start else np.flatnonzero(lengths)
        left = np.minimum(lengths[alive] - start, 8).astype(np.uint64)
        mask = np.uint64(_MASK) >> (np.uint64(64) - left * np.uint64(8))
        result[alive] = _mix_all(result[alive] ^ (words[starts[alive] + start] & mask))
    return result
