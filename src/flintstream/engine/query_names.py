"""What those who ask call things: states by name, keys as text, windows by their borders, prefixes of keys.

Apart from the view, which finds what these names mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from flintstream.engine.manifest import Manifest
from flintstream.engine.query_forms import Form, form_of
from flintstream.errors import InvalidArgumentError, UnknownStateError, describe

_DEEPEST = 32


def is_shallow(form: Form) -> bool:
    """Whether a form is no deeper than keys ever are: someone else may have written it."""
    if not isinstance(form, list | dict):
        return True
    level: list[Form] = [form]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
    return not level


def _inside(form: Form) -> Iterable[Form]:
    if isinstance(form, dict):
        return cast("dict[str, Form]", form).values()
    return cast("list[Form]", form) if isinstance(form, list) else ()


@dataclass(frozen=True)
class KeyText:
    """A key as people type it: the text itself, or else what it says as JSON."""

    text: str

    def forms(self) -> list[Form]:
        """Return the keys that may be meant, the likeliest first."""
        try:
            said = json.loads(self.text)
        except (ValueError, RecursionError):
            return [self.text]
        return [self.text, said] if is_shallow(said) else [self.text]


@dataclass(frozen=True)
class State:
    """A queryable state of an operator."""

    uid: str
    operator_name: str
    name: str
    mark: dict[str, Any]

    @property
    def is_windowed(self) -> bool:
        """Whether keys have windows in it."""
        return bool(self.mark.get("windowed")) or self.mark["kind"] == "columns"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "operator": self.uid,
            "operator_name": self.operator_name,
            "name": self.name,
            "kind": {"columns": "aggregating", "pairs": "list"}.get(self.mark["kind"], self.mark["kind"]),
            "windowed": self.is_windowed,
            "uncommitted": self.mark["uncommitted"],
        }


def states_of(manifest: Manifest) -> list[State]:
    """Return the queryable states of a job."""
    return [
        State(uid, str(manifest.operators.get(uid, {}).get("name", "")), name, mark)
        for uid, marks in manifest.queryable.items()
        for name, mark in marks.items()
    ]


def chosen(manifest: Manifest, name: str, operator: str | None, where: str) -> State:
    """Return the state that is meant; the operator is its uid or its name, None if the state's name says enough.

    Raises:
        UnknownStateError: there is none, or there are several.
    """
    marks = manifest.queryable.get(operator or "", {})
    if operator is not None and name in marks:
        return State(operator, str(manifest.operators.get(operator, {}).get("name", "")), name, marks[name])
    known = states_of(manifest)
    found = [each for each in known if each.name == name and operator in (None, each.uid, each.operator_name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{each.name!r} of {each.uid!r}" for each in found or known) or "none"
    of = "" if operator is None else f" of operator {operator!r:.100}"
    if found:
        raise UnknownStateError(describe(f"several states{of} are queryable as {name!r}", where, f"name one: {names}"))
    remedy = f"use one of those that are: {names}" if known else "mark it with set_queryable(name)"
    raise UnknownStateError(describe(f"no state{of} is queryable as {name!r:.100}", where, remedy))


@dataclass(frozen=True)
class WindowName:
    """A window by its start, and its end if several begin then; of windows by count, by its number."""

    start: int
    end: int | None = None

    @staticmethod
    def of(window: Any) -> WindowName | None:
        """Return the window that a user names: None, a start, "start,end", a pair, or an object with borders."""
        if window is None:
            return None
        found: Any = window
        if isinstance(window, str):
            found = window.split(",")
        elif hasattr(window, "start"):
            found = (window.start, getattr(window, "end", None))
        elif isinstance(window, int):
            found = (window,)
        try:
            borders = [None if each is None else int(each) for each in cast("list[Any]", found)]
        except (TypeError, ValueError):
            borders = []
        if len(borders) not in (1, 2) or borders[0] is None:
            what = f"{window!r:.100} is no window"
            raise InvalidArgumentError(describe(what, remedy="give its start in ms, or 'start,end'"))
        return WindowName(borders[0], borders[1] if len(borders) == 2 else None)

    def fits(self, window: Form) -> bool:
        """Whether this is the window that is meant."""
        if "start" not in window:
            return window.get("id") == self.start
        return window["start"] == self.start and self.end in (None, window["end"])


@dataclass(frozen=True)
class Prefix:
    """What keys begin with: text by its characters, lists by their elements."""

    text: str | None
    elements: list[Form] | None

    def fits(self, form: Form) -> bool:
        """Whether a key begins so."""
        if isinstance(form, str):
            return self.text is not None and form.startswith(self.text)
        if isinstance(form, list):
            keys = cast("list[Form]", form)
            return self.elements is not None and keys[: len(self.elements)] == self.elements
        return False


def prefix_of(prefix: Any) -> Prefix | None:
    """Return what keys are to begin with: a string, or the first elements of a tuple; None for all keys."""
    if prefix is None or prefix in ("", KeyText("")):
        return None
    form = prefix.forms()[-1] if isinstance(prefix, KeyText) else form_of(prefix)
    text = prefix.text if isinstance(prefix, KeyText) else form if isinstance(form, str) else None
    elements = cast("list[Form]", form) if isinstance(form, list) else None
    if text is None and elements is None:
        what = f"{prefix!r:.100} is no prefix"
        raise InvalidArgumentError(describe(what, remedy="give text, or the first elements of a tuple"))
    return Prefix(text, elements)


LONGEST_PAGE = 10_000


def page_length(limit: Any) -> int:
    """Return how many entries a page has."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_PAGE:
        what = f"a page cannot have {limit!r:.100} entries"
        raise InvalidArgumentError(describe(what, remedy=f"give a number from 1 to {LONGEST_PAGE:,}"))
    return limit


def page_end(after: str | None) -> list[Form]:
    """Return the last key of the page before, if there was one."""
    if after is None:
        return []
    try:
        last = json.loads(after)
        if not is_shallow(last):
            raise ValueError
        return [last]
    except (ValueError, TypeError, RecursionError):
        what = f"{after!r:.100} is not where a page ended"
        raise InvalidArgumentError(describe(what, remedy="give what the page before says for 'after'")) from None
