"""Conditions of a pattern: tests of one record, and tests that also look at what a partial match has taken so far.

Apart from `cep.py` because the automaton needs conditions and not the words by which patterns are written. Which kind a
plain function is, is read from its parameters once, when the pattern is declared: a test of the record alone is made
once for all partial matches, the other kind once for each. What can be computed on columns is not asked of records.

Flink: org.apache.flink.cep.pattern.conditions.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pyarrow.compute as pc

from flintstream.errors import TypeMismatchError
from flintstream.model.cep_columns import Columns, ExpressionCondition, joined_columns
from flintstream.model.functions import FilterFunction, Function
from flintstream.model.location import refused


class ConditionContext(ABC):
    """What an iterative condition knows besides the record."""

    @abstractmethod
    def get_events_for_pattern(self, name: str) -> list[Any]:
        """Return the records that the partial match has taken for the stage `name` so far, oldest first."""

    @abstractmethod
    def timestamp(self) -> int:
        """Return the time of the record in ms: of its event, or of its arrival if the pattern goes by the clock."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the time of the clock in ms."""


class IterativeCondition(Function):
    """Tests a record in the light of what was matched before."""

    @abstractmethod
    def filter(self, value: Any, ctx: ConditionContext) -> bool:
        """Return whether the record fulfils the condition."""


class SimpleCondition(Function):
    """Tests a record alone."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether the record fulfils the condition."""


@dataclass(frozen=True, eq=False)
class Condition:
    """A test as the automaton calls it: `test(value)` if it is `simple`, otherwise `test(value, ctx)`.

    `functions` are the user's objects behind it, which are opened and closed. `columns` computes for whole columns what
    must hold; where it does, `rest` is what is still to be asked, None if nothing is.
    """

    test: Callable[..., Any]
    simple: bool
    functions: tuple[Function, ...] = ()
    columns: Columns | None = None
    rest: Callable[..., Any] | None = None

    @property
    def left(self) -> Callable[..., Any] | None:
        """What is to be asked of a record where the columns hold, if there are any."""
        return self.test if self.columns is None else self.rest


def as_condition(condition: Any) -> Condition:
    """Read a condition: a class above, a FilterFunction, a function of (record) or (record, ctx), an expression."""
    if isinstance(condition, pc.Expression):
        expression = ExpressionCondition(condition)
        return Condition(expression, True, columns=expression.columns)
    if isinstance(condition, IterativeCondition):
        return Condition(condition.filter, False, (condition,))
    if isinstance(condition, SimpleCondition | FilterFunction):
        return Condition(condition.filter, True, (condition,))
    wanted = _arity(condition) if callable(condition) else 0
    if wanted not in (1, 2):
        what = f"{condition!r:.100} is not a condition"
        remedy = "pass f(value) -> bool, f(value, ctx) -> bool, a condition or an expression"
        raise refused(TypeMismatchError, what, remedy)
    return Condition(cast("Callable[..., Any]", condition), wanted == 1)


def _arity(function: Callable[..., Any]) -> int:
    """Return how many arguments a function must get; of built-in ones that do not tell, one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(each.kind in positional and each.default is each.empty for each in parameters)
    return needed or int(any(each.kind in (*positional, inspect.Parameter.VAR_POSITIONAL) for each in parameters))


class _Joined:
    """Two tests as one; the second is asked only where the first leaves it open."""

    def __init__(self, first: Callable[..., Any], second: Callable[..., Any], simple: tuple[bool, bool]) -> None:
        self._first, self._second = first, second
        self._first_simple, self._second_simple = simple

    def __call__(self, value: Any, ctx: Any = None) -> bool:
        found = bool(self._first(value) if self._first_simple else self._first(value, ctx))
        if found is self._settles:
            return found
        return bool(self._second(value) if self._second_simple else self._second(value, ctx))

    _settles = False


class _Either(_Joined):
    _settles = True


def both(first: Condition | None, second: Condition) -> Condition:
    """Return the condition that both are fulfilled; without a first one, the second."""
    if first is None:
        return second
    columns, rest = first.columns or second.columns, None
    if first.columns is not None and second.columns is not None:
        columns = joined_columns(first.columns, second.columns, True)
    if columns is not None:
        # What is left to ask where the columns hold; of a condition that is all columns, nothing.
        left = [(test, each.simple) for each in (first, second) if (test := each.left) is not None]
        rest = _joined_tests(left) if left else None
    test = _joined_tests([(first.test, first.simple), (second.test, second.simple)])
    simple, functions = first.simple and second.simple, (*first.functions, *second.functions)
    return Condition(test, simple, functions, columns, rest)


def _joined_tests(tests: list[tuple[Callable[..., Any], bool]]) -> Callable[..., Any]:
    first, simple = tests[0]
    return first if len(tests) == 1 else _Joined(first, tests[1][0], (simple, tests[1][1]))


def either(first: Condition | None, second: Condition) -> Condition:
    """Return the condition that one of both is fulfilled; without a first one, the second."""
    if first is None:
        return second
    simple, columns = (first.simple, second.simple), None
    if first.columns is not None and second.columns is not None and first.rest is None and second.rest is None:
        columns = joined_columns(first.columns, second.columns, False)
    test = _Either(first.test, second.test, simple)
    return Condition(test, all(simple), (*first.functions, *second.functions), columns)


class IsInstance:
    """The test that a record is of a class."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def __call__(self, value: Any) -> bool:
        return isinstance(value, self._kind)
