"""The conditions of a pattern's text on whole columns, as far as they only compare fields with constants.

Apart from `cep_text.py`, which tests one record by the same text: what is here must say the same, or nothing at all.
So a comparison is computed only if Arrow and Python agree on it: not, for instance, a 64-bit integer with a float.
"""

from __future__ import annotations

import ast
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_EXACT_IN_FLOATS = 1 << 53


class _NotComputable(Exception):
    """Must be asked of each record."""


def compute(tree: ast.expr, records: pa.StructArray) -> pa.BooleanArray | None:
    """Return a condition for all records, null where it is unknown; None if it must be asked of each record."""
    try:
        return _truth(tree, records)
    except _NotComputable:
        return None


def _truth(node: ast.expr, records: pa.StructArray) -> pa.BooleanArray:
    if isinstance(node, ast.BoolOp):
        how = "and_kleene" if isinstance(node.op, ast.And) else "or_kleene"
        return _fold(how, [_truth(each, records) for each in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return pc.call_function("invert", [_truth(node.operand, records)])
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compare(node.left, node.ops[0], node.comparators[0], records)
    if isinstance(node, ast.Name):
        column = _column(node, records)
        if pa.types.is_boolean(column.type):
            return column
    raise _NotComputable


def _compare(left: ast.expr, op: ast.cmpop, right: ast.expr, records: pa.StructArray) -> pa.BooleanArray:
    if isinstance(op, ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
        return pc.call_function("is_null" if isinstance(op, ast.Is) else "is_valid", [_column(left, records)])
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List) and right.elts:
        found = _fold("or_kleene", [_against(left, "equal", each, records) for each in right.elts])
        return found if isinstance(op, ast.In) else pc.call_function("invert", [found])
    how = _COMPARISONS.get(type(op))
    if how is None:
        raise _NotComputable
    if isinstance(left, ast.Name):
        return _against(left, how, right, records)
    return _against(right, _SWAPPED.get(how, how), left, records)


def _against(field: ast.expr, how: str, constant: ast.expr, records: pa.StructArray) -> pa.BooleanArray:
    column, value = _column(field, records), _constant(constant)
    if not _agrees(column.type, value, how):
        raise _NotComputable
    return pc.call_function(how, [column, pa.scalar(value, column.type)])


def _constant(node: ast.expr) -> Any:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if not isinstance(node, ast.Constant) or node.value is None or (sign < 0 and type(node.value) not in (int, float)):
        raise _NotComputable
    value: Any = node.value
    return value * sign if sign < 0 else value


def _agrees(dtype: pa.DataType, value: Any, how: str) -> bool:
    """Whether comparing such a column with a constant means the same in Arrow and in Python."""
    kind = type(value)
    if pa.types.is_int64(dtype):
        return kind is int and -(1 << 63) <= value < 1 << 63
    if pa.types.is_float64(dtype):
        return kind is float or (kind is int and abs(value) <= _EXACT_IN_FLOATS)
    if pa.types.is_string(dtype):
        return kind is str and how in ("equal", "not_equal")
    return pa.types.is_boolean(dtype) and kind is bool and how in ("equal", "not_equal")


def _column(node: ast.expr, records: pa.StructArray) -> pa.Array:
    index = records.type.get_field_index(node.id) if isinstance(node, ast.Name) else -1
    if index < 0:
        raise _NotComputable
    return records.field(index)


def _fold(how: str, parts: list[pa.BooleanArray]) -> pa.BooleanArray:
    first = parts[0]
    for part in parts[1:]:
        first = pc.call_function(how, [first, part])
    return first
