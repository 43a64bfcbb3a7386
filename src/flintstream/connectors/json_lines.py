"""Columns to JSON lines, column by column, without making a Python object for each record.

A record is one line. None is `null`; a float always has a point or an exponent, so that it is read back as a float; NaN
and the infinities are the strings "NaN", "Infinity", "-Infinity" and bytes are base64, as Spark writes and reads them;
times are ISO strings.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute
"""Untyped, because its functions are made when it is imported and no type checker sees them."""

_ESCAPED = r'["\\\x00-\x1f]'


def json_lines(batch: pa.RecordBatch) -> memoryview:
    """Return the UTF-8 text of a batch.

    Example:
        >>> bytes(json_lines(pa.record_batch({"id": ["a", None], "n": [1.0, 2.5]}))).decode().splitlines()
        ['{"id":"a","n":1.0}', '{"id":null,"n":2.5}']
    """
    if not batch.num_rows:
        return memoryview(b"")
    lines = _object(batch.schema.names, batch.columns, "}\n")
    return _characters(lines)


def _characters(texts: pa.Array) -> memoryview:
    """Return the bytes of all texts, one behind the other."""
    _, offsets, data = texts.buffers()
    if data is None:
        return memoryview(b"")
    bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8)
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]


def _object(names: Sequence[str], columns: Sequence[pa.Array], close: str) -> pa.Array:
    """Return `{"name":value,...}` for each row."""
    pieces: list[pa.Array | pa.Scalar] = []
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        pieces.append(_literal(f"{',' if index else '{'}{json.dumps(name, ensure_ascii=False)}:"))
        pieces.append(_texts(column))
    return pc.binary_join_element_wise(*pieces, _literal(close), _literal(""))


def _literal(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _texts(array: pa.Array) -> pa.Array:
    """Return the JSON text of each value; null is text too, so the result has no nulls."""
    if pa.types.is_null(array.type):
        return pa.repeat(_literal("null"), len(array))
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return pc.fill_null(_present_texts(array), "null")


def _present_texts(array: pa.Array) -> pa.Array:
    """Return the JSON text of each value, null for null."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(array.cast(pa.large_string()))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.large_string())
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        return _maps(array.cast(pa.large_list(pa.struct([("k", kind.key_type), ("v", kind.item_type)]))))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _joined(array, _texts(array.flatten()), "[", "]")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        texts = [None if v is None else f'"{base64.b64encode(v).decode()}"' for v in array.to_pylist()]
        return pa.array(texts, pa.large_string())
    if pa.types.is_timestamp(kind):
        texts = array.cast(pa.large_string())
        return _quoted(pc.replace_substring(texts, " ", "T", max_replacements=1))
    return _quoted(array.cast(pa.large_string()))


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_literal('"'), texts, _literal('"'), _literal(""))


def _strings(texts: pa.Array) -> pa.Array:
    quoted = _quoted(texts)
    # One look at all bytes at once; the expression is only needed to find out which values are to blame.
    characters = np.frombuffer(_characters(texts), np.uint8)
    if not ((characters < 0x20) | (characters == ord('"')) | (characters == ord("\\"))).any():
        return quoted
    special = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.large_string()))


def _floats(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.large_string())
    if pc.any(pc.equal(pc.floor(array), array)).as_py():
        whole = pc.invert(pc.match_substring_regex(texts, "[.en]"))
        texts = pc.if_else(whole, pc.binary_join_element_wise(texts, _literal(".0"), _literal("")), texts)
    if pc.all(pc.is_finite(array)).as_py() is False:
        texts = pc.if_else(pc.is_nan(array), _literal('"NaN"'), texts)
        texts = pc.if_else(pc.equal(array, float("inf")), _literal('"Infinity"'), texts)
        texts = pc.if_else(pc.equal(array, float("-inf")), _literal('"-Infinity"'), texts)
    return texts


def _structs(array: pa.Array) -> pa.Array:
    names = [field.name for field in array.type]
    if not names:
        texts = pa.repeat(_literal("{}"), len(array))
    else:
        texts = _object(names, array.flatten(), "}")
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.large_string())) if array.null_count else texts


def _joined(array: pa.Array, texts: pa.Array, opening: str, closing: str) -> pa.Array:
    """Return the texts of each list between brackets."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.LargeListArray.from_arrays(pa.array(offsets), texts), _literal(","))
    whole = pc.binary_join_element_wise(_literal(opening), joined, _literal(closing), _literal(""))
    return pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.large_string())) if array.null_count else whole


def _maps(array: pa.Array) -> pa.Array:
    entries = array.flatten()
    names = _strings(entries.field(0).cast(pa.large_string()))
    return _joined(array, pc.binary_join_element_wise(names, _texts(entries.field(1)), _literal(":")), "{", "}")
