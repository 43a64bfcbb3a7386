"""Records that a function could not take: what is told of one, and what is to become of them.

A record on which a user's function raises fails the job, unless the operator was told to skip such records or to send
them to a side output, as dead letters.

Flink: it has none; there a process function catches errors itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DEAD_LETTERS = "dead_letters"
"""The counter of records that were skipped or sent away."""


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be processed, and why.

    Attributes:
        record: The record; of a source that could not read it, its bytes; None if a timer's function failed.
        error: The name of the exception's class.
        message: What the exception says.
        traceback: The end of its traceback, without Flintstream's own lines.
        operator: The uid of the operator.
        timestamp: The record's event time in ms, or the timer's time; None if it has none.
        key: The record's key, if the stream has keys.
        split: The split that it is in, if a source could not read it: a partition of a topic, say.
        position: Its position there.
    """

    record: Any
    error: str
    message: str
    traceback: str
    operator: str
    timestamp: int | None = None
    key: Any = None
    split: str | None = None
    position: int | None = None

    def as_text(self) -> dict[str, Any]:
        """Return the same with record and key as text, which any sink can write."""
        key = None if self.key is None else text_of(self.key)
        return {**self.__dict__, "record": text_of(self.record), "key": key}


def text_of(value: Any) -> str:
    """Return a value as text, whatever it is."""
    if isinstance(value, str):
        return value
    try:
        return repr(value)
    except Exception:  # a `__repr__` of the user may raise anything
        return f"a {type(value).__qualname__} that cannot be shown"


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What becomes of a record on which one of these exceptions is raised: it goes to a side output, or is skipped."""

    tag: str | None = None
    errors: tuple[type[Exception], ...] = (Exception,)


FAIL = ErrorPolicy(errors=())
"""Whatever is raised fails the job."""


@dataclass(frozen=True)
class BadRecord:
    """Stands among a source's records for one that could not be read, with what was raised, as text."""

    raw: Any
    split: str
    position: int
    error: str
    message: str
    traceback: str
