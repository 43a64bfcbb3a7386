"""Patterns of letters, for tests that write many: a stage takes the records whose letter its name begins with.

    letters("begin('a').followed_by('b').one_or_more().until(X).within('10s')")

A record is a text such as `b2`, or has one as its field `v`. Conditions on letters are names in capitals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream.cep import AfterMatchSkipStrategy, Pattern, WithinType

_SKIPS = ("no_skip", "skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last")
_NEW_STAGE = ("next", "followed_by", "followed_by_any", "not_next", "not_followed_by")


def text_of(record: Any) -> str:
    """Return what a record says."""
    return record if isinstance(record, str) else record["v"]


class Letter:
    """The condition that a record begins with a letter."""

    def __init__(self, letter: str) -> None:
        self._letter = letter

    def __call__(self, record: Any) -> bool:
        return text_of(record)[0] == self._letter


def rises(record: Any, ctx: Any) -> bool:
    """Whether the number behind a record's letter is above those of all records of the stage `r` so far."""
    return all(text_of(record)[1:] > text_of(earlier)[1:] for earlier in ctx.get_events_for_pattern("r"))


class Letters:
    """A pattern that gives every new stage its condition; all other methods are those of the pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern

    def __getattr__(self, call: str) -> Callable[..., Letters]:
        def apply(*arguments: Any) -> Letters:
            bare = [each.pattern if isinstance(each, Letters) else each for each in arguments]
            changed = getattr(self.pattern, call)(*bare)
            if call in _NEW_STAGE and isinstance(bare[0], str):
                changed = changed.where(Letter(bare[0][0]))
            return Letters(changed)

        return apply


def begin(name: str | Letters, skip: AfterMatchSkipStrategy | None = None) -> Letters:
    """Begin a pattern by a letter, or by a group."""
    if isinstance(name, Letters):
        return Letters(Pattern.begin(name.pattern, skip))
    return Letters(Pattern.begin(name, skip).where(Letter(name[0])))


_WORDS: dict[str, Any] = {
    "begin": begin,
    "rises": rises,
    "previous": WithinType.PREVIOUS_AND_CURRENT,
    "LOUD": lambda record: text_of(record)[-1] == "!",
    **{call: getattr(AfterMatchSkipStrategy, call) for call in _SKIPS},
    **{letter.upper(): Letter(letter) for letter in "abcdexyz"},
}


def letters(text: str) -> Pattern:
    """Return the pattern that an expression in these words describes."""
    return eval(text, {"__builtins__": {}}, _WORDS).pattern
