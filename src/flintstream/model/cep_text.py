"""Patterns as text, after MATCH_RECOGNIZE of SQL: which variables follow each other, and what each of them means.

    PATTERN (low rise+ fall) WITHIN 10 minutes
    DEFINE low AS degrees < 20, rise AS degrees > LAST(rise.degrees, 1), fall AS degrees < low.degrees

Only the text is read here, `Pattern.parse` makes the pattern; so this file knows nothing of stages. Conditions become
Python expressions in which every name is a field, and nothing else can be called: a text is data, not a program.

Flink: PatternTranslatorVisitor and MatchCodeGenerator of its SQL. As there, variables follow each other at once.
Differs from Flink: no alternation, no groups, no reluctant quantifiers, no MEASURES: a match is given to a function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from flintstream.errors import InvalidArgumentError, JobError, describe
from flintstream.model.cep_conditions import Condition
from flintstream.model.time import to_millis

_CLAUSES = re.compile(
    r"\s*(?:AFTER\s+MATCH\s+SKIP\s+(?P<skip>.+?)\s+)?PATTERN\s*\((?P<variables>[^()]*)\)"
    r"(?:\s*WITHIN\s+(?P<within>.+?))?(?:\s*DEFINE\s+(?P<define>.+?))?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_VARIABLE = re.compile(r"([A-Za-z_]\w*)\s*(\*|\+|\?|\{\s*\d*\s*(?:,\s*\d*\s*)?\})?\s*")
_DEFINITION = re.compile(r"\s*([A-Za-z_]\w*)\s+AS\s+", re.IGNORECASE)
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


class Variable(NamedTuple):
    """A variable of a pattern: `least` to `most` records (None: no limit)."""

    name: str
    least: int
    most: int | None


@dataclass(frozen=True)
class PatternText:
    """What a text says; `skip` is upper case, with the variable at its end if it names one."""

    variables: tuple[Variable, ...]
    conditions: dict[str, Condition]
    within_ms: int | None
    skip: tuple[str, str | None]


def read_pattern_text(text: str) -> PatternText:
    """Read a text, or refuse it and say what is wrong."""
    clauses = _CLAUSES.fullmatch(text)
    if clauses is None:
        _refuse(text, "write PATTERN (A B+) WITHIN 10 minutes DEFINE A AS field > 1, B AS ...")
    variables = tuple(_variables(clauses["variables"]))
    names = {variable.name for variable in variables}
    definitions = _definitions(clauses["define"] or "")
    for name in definitions.keys() - names:
        _refuse(f"DEFINE {name}", f"define one of {', '.join(sorted(names))}")
    conditions = {name: _condition(name, source, names) for name, source in definitions.items()}
    within = None if clauses["within"] is None else _duration(clauses["within"])
    return PatternText(variables, conditions, within, _skip(clauses["skip"] or "PAST LAST ROW"))


def _variables(text: str) -> list[Variable]:
    found: list[Variable] = []
    rest = text.strip()
    while rest:
        match = _VARIABLE.match(rest)
        if match is None:
            _refuse(rest, "write variables with at most one of * + ? {n} {n,} {n,m}, and no | or groups")
        rest = rest[match.end() :]
        found.append(Variable(match[1], *_bounds(match[2] or "")))
    if not found:
        _refuse("PATTERN ()", "name at least one variable")
    return found


def _bounds(quantifier: str) -> tuple[int, int | None]:
    plain: dict[str, tuple[int, int | None]] = {"": (1, 1), "*": (0, None), "+": (1, None), "?": (0, 1)}
    if quantifier in plain:
        return plain[quantifier]
    low, comma, high = quantifier.strip("{}").partition(",")
    least = int(low.strip() or 0)
    most = (int(high) if high.strip() else None) if comma else least
    return least, most


def _definitions(text: str) -> dict[str, str]:
    """Cut `A AS x, B AS y` at the commas that stand before a definition."""
    found: dict[str, str] = {}
    for part in re.split(r",(?=\s*[A-Za-z_]\w*\s+AS\s)", text, flags=re.IGNORECASE) if text else ():
        match = _DEFINITION.match(part)
        if match is None:
            _refuse(part, "write DEFINE A AS condition, B AS condition")
        found[match[1]] = part[match.end() :].strip()
    return found


def _duration(text: str) -> int:
    interval = re.fullmatch(r"INTERVAL\s+'(\d+)'\s+(\w+)", text.strip(), re.IGNORECASE)
    return to_millis(f"{interval[1]} {interval[2].lower()}" if interval else text.strip())


def _skip(text: str) -> tuple[str, str | None]:
    words = text.split()
    upper = " ".join(words).upper()
    if upper in ("PAST LAST ROW", "TO NEXT ROW"):
        return upper, None
    if len(words) == 3 and upper.startswith(("TO FIRST ", "TO LAST ")):
        return " ".join(words[:2]).upper(), words[2]
    return _refuse(f"AFTER MATCH SKIP {text}", "skip PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST variable")


def _condition(variable: str, source: str, names: set[str]) -> Condition:
    test = TextCondition(variable, source, names)
    return Condition(test, not test.looks_back)


class TextCondition:
    """The condition of a variable, as it stands in the text."""

    def __init__(self, variable: str, source: str, names: set[str]) -> None:
        self._arguments = (variable, source, names)
        tokens = _TOKENS.findall(source)
        python = "".join(_in_python(token) for token in map(str, tokens))
        try:
            tree = ast.parse(python.strip(), mode="eval")
        except SyntaxError:
            _refuse(f"{variable} AS {source}", "write a condition on fields")
        reader = _Reader(variable, source, names)
        checked = ast.fix_missing_locations(reader.visit(tree))
        self.looks_back = reader.looks_back
        self._code = compile(checked, f"<{variable}>", "eval")

    def __reduce__(self) -> tuple[Any, ...]:
        return TextCondition, self._arguments

    def __deepcopy__(self, memo: Any) -> TextCondition:
        return self

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

    def __init__(self, variable: str, source: str, names: set[str]) -> None:
        self._variable, self._source, self._names = variable, source, names
        self.looks_back = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _SYNTAX):
            _refuse(f"{self._variable} AS {self._source}", "use fields, numbers, texts, operators and aggregates")
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _look("field", node.id)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return _look("null") if node.value is None else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = self.generic_visit(node)
        return _call("negate", node.operand) if isinstance(node.op, ast.Not) else inner

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
        return _refuse(f"{self._variable} AS {self._source}", remedy)

    def _of(self, node: ast.AST) -> tuple[str, str]:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._names:
            self.looks_back = True
            return node.value.id, node.attr
        known = ", ".join(sorted(self._names))
        return _refuse(f"{self._variable} AS {self._source}", f"write variable.field, with one of {known}")


def _look(method: str, *arguments: Any) -> ast.AST:
    return _call(method, *(ast.Constant(each) for each in arguments))


def _call(method: str, *arguments: ast.expr) -> ast.AST:
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


def _refuse(what: str, remedy: str) -> NoReturn:
    what = f"{' '.join(what.split())!r} is not a pattern's text"
    raise InvalidArgumentError(describe(what, remedy=remedy)) from None
