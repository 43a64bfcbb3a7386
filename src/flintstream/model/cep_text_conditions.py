"""The conditions of a pattern's text: Python expressions in which every name is a field, and nothing can be called.

Apart from `cep_text.py`, which cuts a text into clauses. A condition is checked when it is read, to the last node: a
text is data, not a program. Nulls are those of SQL: what is computed from one, or compared with one, is unknown.

Flink: MatchCodeGenerator of its SQL.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa

from flintstream.errors import JobError, describe
from flintstream.model.cep_text_columns import compute

_TOKENS = re.compile(r"'(?:[^']|'')*'|<>|<=|>=|!=|==|=|[A-Za-z_]\w*|.", re.DOTALL)
_LOGIC = {"AND": "and", "OR": "or", "NOT": "not", "IN": "in", "IS": "is"}
_WORDS: dict[str, str] = {**_LOGIC, "TRUE": "True", "FALSE": "False", "NULL": "None", "=": "==", "<>": "!="}
_FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "COUNT": len,
    "SUM": lambda values: sum(values) if values else _NULL,
    "AVG": lambda values: sum(values) / len(values) if values else _NULL,
    "MIN": lambda values: min(values, default=_NULL),
    "MAX": lambda values: max(values, default=_NULL),
}
_PLAIN = (ast.Expression, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Tuple, ast.List)
_SYNTAX = (*_PLAIN, ast.boolop, ast.Not, ast.USub, ast.cmpop, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.Load)
_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])


class ConditionSyntaxError(Exception):
    """A condition is wrong at a place of its text; the text's reader says so to the user."""

    def __init__(self, at: int, remedy: str) -> None:
        super().__init__(remedy)
        self.at, self.remedy = at, remedy


class _Translation:
    """A condition in Python's words, and where in the text each of them stood."""

    def __init__(self, source: str) -> None:
        parts: list[str] = []
        self._places: list[int] = []
        self._origins: list[int] = []
        length = 0
        for token in _TOKENS.finditer(source):
            word = _in_python(token[0])
            self._places.append(length)
            self._origins.append(token.start())
            parts.append(word)
            length += len(word)
        # What stands in several lines is one expression.
        self.python = "".join(parts).replace("\n", " ").replace("\r", " ").replace("\t", " ")

    def origin(self, place: int) -> int:
        """Return where in the text stood what is at a place of the Python expression."""
        index = bisect_right(self._places, place) - 1
        return self._origins[index] if self._origins else 0


class TextCondition:
    """The condition of a variable, as it stands in the text.

    Raises:
        ConditionSyntaxError: it is none.
    """

    def __init__(self, variable: str, source: str, names: set[str]) -> None:
        self._arguments = (variable, source, names)
        translation = _Translation(source)
        try:
            tree = ast.parse(translation.python, mode="eval")
        except SyntaxError as error:
            raise ConditionSyntaxError(
                translation.origin((error.offset or 1) - 1), "write a condition on fields"
            ) from None
        reader = _Reader(names, translation)
        checked = ast.fix_missing_locations(reader.visit(tree))
        self.looks_back = reader.looks_back
        self._code = compile(checked, f"<{variable}>", "eval")
        self._fields = ast.parse(translation.python, mode="eval").body

    def __reduce__(self) -> tuple[Any, ...]:
        return TextCondition, self._arguments

    def __deepcopy__(self, memo: Any) -> TextCondition:
        return self

    def columns(self, records: pa.StructArray) -> pa.BooleanArray | None:
        """Compute the condition for whole columns, or return None if it must be asked of each record."""
        return compute(self._fields, records)

    def __call__(self, value: Any, ctx: Any = None) -> bool:
        scope = _Scope(self._arguments[0], value, ctx)
        # Every node of the code was checked: it can look at fields and do nothing else.
        return bool(eval(self._code, {"__builtins__": {}, "_": scope}))


class _Null:
    """What SQL means by NULL: whatever is computed from it, or compared with it, is unknown too, and not true."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def _unknown(self, other: Any = None) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _unknown
    __mod__ = __rmod__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _unknown


_NULL = _Null()


class _Scope:
    """What a condition can see: the record, and those taken before."""

    def __init__(self, variable: str, value: Any, ctx: Any) -> None:
        self._variable, self._value, self._ctx = variable, value, ctx

    def field(self, name: str) -> Any:
        return _field(self._value, name)

    def null(self) -> Any:
        return _NULL

    def negate(self, truth: Any) -> Any:
        return truth if truth is _NULL else not truth

    def all_of(self, *parts: Callable[[], Any]) -> Any:
        return self._join(parts, False)

    def any_of(self, *parts: Callable[[], Any]) -> Any:
        return self._join(parts, True)

    def _join(self, parts: tuple[Callable[[], Any], ...], settles: bool) -> Any:
        """Return what settles the matter as soon as it comes; what is unknown leaves it open."""
        result: Any = not settles
        for part in parts:
            truth = part()
            if truth is _NULL:
                result = _NULL
            elif bool(truth) is settles:
                return settles
        return result

    def among(self, value: Any, choices: Any) -> Any:
        return self.any_of(*(lambda each=each: value == each for each in choices))

    def rows(self, variable: str, name: str) -> list[Any]:
        """Return a field of all records of a variable, the one at hand included if it is its own."""
        rows = [*self._ctx.get_events_for_pattern(variable), *([self._value] if variable == self._variable else ())]
        return [_field(row, name) for row in rows]

    def last(self, variable: str, name: str, back: int = 0) -> Any:
        rows = self.rows(variable, name)
        return rows[-1 - back] if back < len(rows) else _NULL

    def first(self, variable: str, name: str, ahead: int = 0) -> Any:
        rows = self.rows(variable, name)
        return rows[ahead] if ahead < len(rows) else _NULL

    def fold(self, function: str, variable: str, name: str) -> Any:
        return _FOLDS[function]([each for each in self.rows(variable, name) if each is not _NULL])


class _Reader(ast.NodeTransformer):
    """Turns names into looks at the scope, and refuses all that is no condition."""

    def __init__(self, names: set[str], translation: _Translation) -> None:
        self._names, self._translation = names, translation
        self.looks_back = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _SYNTAX):
            self._refuse(node, "use fields, numbers, texts, operators and aggregates")
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _look("field", node.id)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return _look("null") if node.value is None else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = self.generic_visit(node)
        return _call("negate", node.operand) if isinstance(node.op, ast.Not) else inner

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        parts = [ast.Lambda(_NO_ARGUMENTS, self.visit(each)) for each in node.values]
        return _call("all_of" if isinstance(node.op, ast.And) else "any_of", *parts)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            found = _call("among", node.left, node.comparators[0])
            return found if isinstance(node.ops[0], ast.In) else _call("negate", found)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return _look("last", *self._of(node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func.id.upper() if isinstance(node.func, ast.Name) else ""
        numbers = [each.value for each in node.args[1:] if isinstance(each, ast.Constant)]
        if function in ("FIRST", "LAST") and len(node.args) == 1 + len(numbers) <= 2:
            return _look(function.lower(), *self._of(node.args[0]), *numbers)
        if function in _FOLDS and len(node.args) == 1:
            return _look("fold", function, *self._of(node.args[0]))
        remedy = f"use FIRST, LAST, {', '.join(_FOLDS)} of variable.field"
        return self._refuse(node, remedy)

    def _of(self, node: ast.AST) -> tuple[str, str]:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._names:
            self.looks_back = True
            return node.value.id, node.attr
        known = ", ".join(sorted(self._names))
        return self._refuse(node, f"write variable.field, with one of {known}")

    def _refuse(self, node: ast.AST, remedy: str) -> NoReturn:
        raise ConditionSyntaxError(self._translation.origin(getattr(node, "col_offset", 0)), remedy)


def _look(method: str, *arguments: Any) -> ast.AST:
    return _call(method, *(ast.Constant(each) for each in arguments))


def _call(method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("_", ast.Load()), method, ast.Load()), list(arguments), [])


def _field(row: Any, name: str) -> Any:
    try:
        value = row[name] if isinstance(row, dict) else getattr(row, name)
    except (KeyError, AttributeError):
        what = f"a record has no field {name!r}: {row!r:.200}"
        raise JobError(describe(what, remedy="use fields that every record has in the pattern's text")) from None
    return _NULL if value is None else value


def _in_python(token: str) -> str:
    return repr(token[1:-1].replace("''", "'")) if token[0] == "'" else _WORDS.get(token.upper(), token)
