"""Patterns as text, after MATCH_RECOGNIZE of SQL: which variables follow each other, and what each of them means.

    PATTERN (low rise+ fall) WITHIN 10 minutes
    DEFINE low AS degrees < 20, rise AS degrees > LAST(rise.degrees, 1), fall AS degrees < low.degrees

Only the text is read here, clause by clause, so that what is wrong has a place in it; `Pattern.parse` makes the
pattern. So this file knows nothing of stages.

Flink: PatternTranslatorVisitor of its SQL. As there, variables follow each other at once.
Differs from Flink: no alternation, no groups, no reluctant quantifiers, no MEASURES: a match is given to a function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.cep_conditions import Condition
from flintstream.model.cep_text_conditions import ConditionSyntaxError, TextCondition
from flintstream.model.location import refused
from flintstream.model.time import to_millis

_FLAGS = re.IGNORECASE | re.DOTALL
_SKIP = re.compile(r"\s*AFTER\s+MATCH\s+SKIP\s+(.+?)\s+(?=PATTERN\b)", _FLAGS)
_PATTERN = re.compile(r"\s*PATTERN\s*\(", _FLAGS)
_WITHIN = re.compile(r"\s*WITHIN\s+(.+?)\s*(?=\bDEFINE\b|;?\s*$)", _FLAGS)
_DEFINE = re.compile(r"\s*DEFINE\s+", _FLAGS)
_END = re.compile(r"\s*;?\s*$")
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*(\*|\+|\?|\{\s*\d*\s*(?:,\s*\d*\s*)?\})?\s*")
_DEFINITION = re.compile(r"\s*([A-Za-z_]\w*)\s+AS\s+", _FLAGS)
_NEXT_DEFINITION = re.compile(r",(?=\s*[A-Za-z_]\w*\s+AS\s)", _FLAGS)
_QUOTED = re.compile(r"'(?:[^']|'')*'")


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


def read_pattern_text(text: Any) -> PatternText:
    """Read a text, or refuse it and say what is wrong, and where."""
    if not isinstance(text, str):
        raise refused(TypeMismatchError, f"{text!r:.100} is not a text", "pass 'PATTERN (A B) DEFINE A AS ...'")
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        # A quoted text may hold anything, so clauses are looked for where there is none.
        self._plain = _QUOTED.sub(lambda quoted: "'" + "_" * (len(quoted[0]) - 2) + "'", text)

    def read(self) -> PatternText:
        skip = self._skip()
        if self._next(_PATTERN) is None:
            self._refuse(self._at, "write PATTERN (A B+) WITHIN 10 minutes DEFINE A AS field > 1, B AS ...")
        variables = self._variables()
        within = self._within()
        names = {variable.name for variable in variables}
        conditions = self._conditions(names) if self._next(_DEFINE) else {}
        if not _END.match(self._plain, self._at):
            self._refuse(self._at, "write WITHIN, DEFINE or nothing more")
        return PatternText(tuple(variables), conditions, within, skip)

    def _next(self, clause: re.Pattern[str]) -> re.Match[str] | None:
        found = clause.match(self._plain, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _skip(self) -> tuple[str, str | None]:
        found = self._next(_SKIP)
        words = ["PAST", "LAST", "ROW"] if found is None else found[1].split()
        upper = " ".join(words).upper()
        if upper in ("PAST LAST ROW", "TO NEXT ROW"):
            return upper, None
        if len(words) == 3 and upper.startswith(("TO FIRST ", "TO LAST ")):
            return " ".join(words[:2]).upper(), words[2]
        remedy = "skip PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST variable"
        return self._refuse(0 if found is None else found.start(1), remedy)

    def _variables(self) -> list[Variable]:
        found: list[Variable] = []
        while (variable := self._next(_VARIABLE)) is not None:
            found.append(Variable(variable[1], *_bounds(variable[2] or "")))
        if not self._plain.startswith(")", self._at):
            self._refuse(self._at, "write variables with at most one of * + ? {n} {n,} {n,m}, and no | or groups")
        if not found:
            self._refuse(self._at, "name at least one variable")
        self._at += 1
        return found

    def _within(self) -> int | None:
        found = self._next(_WITHIN)
        if found is None:
            return None
        length = self._text[found.start(1) : found.end(1)]
        interval = re.fullmatch(r"INTERVAL\s+'(\d+)'\s+(\w+)", length, re.IGNORECASE)
        try:
            return to_millis(f"{interval[1]} {interval[2].lower()}" if interval else length)
        except InvalidArgumentError:
            return self._refuse(found.start(1), "write a length of time, such as 10 minutes")

    def _conditions(self, names: set[str]) -> dict[str, Condition]:
        conditions: dict[str, Condition] = {}
        while True:
            start = self._at
            definition = self._next(_DEFINITION)
            if definition is None:
                self._refuse(start, "write DEFINE A AS condition, B AS condition")
            name = definition[1]
            if name not in names or name in conditions:
                some = "define it once" if name in conditions else f"define one of {', '.join(sorted(names))}"
                self._refuse(definition.start(1), some)
            following = _NEXT_DEFINITION.search(self._plain, self._at)
            closing = _END.search(self._plain, self._at)
            end = following.start() if following else closing.start() if closing else len(self._text)
            conditions[name] = self._condition(name, self._at, end, names)
            self._at = end
            if following is None:
                return conditions
            self._at += 1

    def _condition(self, variable: str, start: int, end: int, names: set[str]) -> Condition:
        try:
            test = TextCondition(variable, self._text[start:end], names)
        except ConditionSyntaxError as error:
            return self._refuse(start + error.at, error.remedy)
        return Condition(test, False) if test.looks_back else Condition(test, True, columns=test.columns)

    def _refuse(self, at: int, remedy: str) -> NoReturn:
        """Say where the text is wrong: by line and column, and by what stands there."""
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        line, column = self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)
        rest = " ".join(self._text[at : at + 40].split())
        where = f"at {rest!r}" if rest else "at its end"
        what = f"the pattern's text is wrong {where}, line {line}, column {column}"
        raise refused(InvalidArgumentError, what, remedy) from None


def _bounds(quantifier: str) -> tuple[int, int | None]:
    plain: dict[str, tuple[int, int | None]] = {"": (1, 1), "*": (0, None), "+": (1, None), "?": (0, 1)}
    if quantifier in plain:
        return plain[quantifier]
    low, comma, high = quantifier.strip("{}").partition(",")
    least = int(low.strip() or 0)
    most = (int(high) if high.strip() else None) if comma else least
    return least, most
