"""Conditions of a pattern: tests of one record, and tests that also look at what a partial match has taken so far.

Apart from `cep.py` because the automaton needs conditions and not the words by which patterns are written. Which kind a
plain function is, is read from its parameters once, when the pattern is declared: a test of the record alone is made
once for all partial matches, the other kind once for each.

Flink: org.apache.flink.cep.pattern.conditions.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.functions import FilterFunction, Function


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

    `functions` are the user's objects behind it, which are opened and closed.
    """

    test: Callable[..., Any]
    simple: bool
    functions: tuple[Function, ...] = ()


def as_condition(condition: Any) -> Condition:
    """Read a condition: one of the classes above, a FilterFunction, or a function of a record or of (record, ctx)."""
    if isinstance(condition, IterativeCondition):
        return Condition(condition.filter, False, (condition,))
    if isinstance(condition, SimpleCondition | FilterFunction):
        return Condition(condition.filter, True, (condition,))
    wanted = _arity(condition) if callable(condition) else 0
    if wanted not in (1, 2):
        what = f"{condition!r:.100} is not a condition"
        raise TypeMismatchError(describe(what, remedy="pass f(value) -> bool, f(value, ctx) -> bool or a condition"))
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
    """Two tests as one; a test of the record alone is asked first where that saves the other."""

    def __init__(self, first: Condition, second: Condition, wants_both: bool) -> None:
        self._first, self._second, self._wants_both = first, second, wants_both

    def __call__(self, value: Any, ctx: Any = None) -> bool:
        first, second = self._first, self._second
        found = bool(first.test(value) if first.simple else first.test(value, ctx))
        if found is not self._wants_both:
            return found
        return bool(second.test(value) if second.simple else second.test(value, ctx))


def both(first: Condition | None, second: Condition) -> Condition:
    """Return the condition that both are fulfilled; without a first one, the second."""
    return second if first is None else _join(first, second, True)


def either(first: Condition | None, second: Condition) -> Condition:
    """Return the condition that one of both is fulfilled; without a first one, the second."""
    return second if first is None else _join(first, second, False)


def _join(first: Condition, second: Condition, wants_both: bool) -> Condition:
    functions = (*first.functions, *second.functions)
    return Condition(_Joined(first, second, wants_both), first.simple and second.simple, functions)


class IsInstance:
    """The test that a record is of a class."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def __call__(self, value: Any) -> bool:
        return isinstance(value, self._kind)
