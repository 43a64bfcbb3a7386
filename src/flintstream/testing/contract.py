"""What both contract checks share: rules as sentences, and how a broken one is reported."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import cloudpickle

from flintstream.errors import ContractError, FlintstreamError, describe
from flintstream.graph.location import users_line

T = TypeVar("T")
_SHOWN = 6


@dataclass
class Checked:
    """What a check has looked at: the rules that held, and how many records they were tried on."""

    rules: list[str] = field(default_factory=list[str])
    records: int = 0


class Judge:
    """Knows which rule is being tried, and what is under test."""

    def __init__(self, what: str, checked: Checked) -> None:
        self._what = what
        self.checked = checked
        self._rule = ""

    @property
    def current(self) -> str:
        """The rule that is being tried."""
        return self._rule

    def rule(self, rule: str) -> None:
        """Begin to try a rule."""
        self._rule = rule
        if rule not in self.checked.rules:
            self.checked.rules.append(rule)

    def broken(self, seen: str, remedy: str) -> ContractError:
        """Return the error that says which rule is broken, what was seen, and what to do."""
        line = users_line()
        what = f"{self._what} breaks the rule '{self._rule}': {seen}"
        return ContractError(describe(what, line, remedy), rule=self._rule, location=line)

    def require(self, holds: bool, seen: str, remedy: str) -> None:
        """Raise if a rule does not hold."""
        if not holds:
            raise self.broken(seen, remedy)

    def asked(self, what: str, question: Callable[[], T], remedy: str) -> T:
        """Return what code of the user's returns; if it raises, the rule at hand is broken."""
        try:
            return question()
        except ContractError:
            raise
        except FlintstreamError as error:
            msg = f"{what} raised {error}"
            raise self.broken(msg, remedy) from error
        except Exception as error:
            msg = f"{what} raised {type(error).__name__}: {error}"
            raise self.broken(msg, remedy) from error

    def copied(self, thing: T, what: str) -> T:
        """Return a copy that has gone the way to a worker."""
        remedy = "keep only what can be pickled in its attributes, and open connections where they are used"
        return self.asked(f"pickling the {what}", lambda: pickle.loads(cloudpickle.dumps(thing)), remedy)


def show(values: Iterable[Any]) -> str:
    """Return a few values, and how many there are."""
    return show_names(map(repr, values))


def show_names(names: Iterable[str]) -> str:
    """Return a few values that are texts already, and how many there are."""
    found = list(names)
    if len(found) <= _SHOWN:
        return f"[{', '.join(found)}]"
    return f"[{', '.join(found[:_SHOWN])}, ...] ({len(found)} in all)"


def as_json(value: Any) -> Any:
    """Return what JSON makes of a value when it is written and read; raise if it cannot be written."""
    return json.loads(json.dumps(value))
