"""The partial matches of one key, as objects with shared chains.

What a partial match has taken is a chain of links from its newest record backwards, so that those which began alike
share what they have in common, and Python frees what none needs any longer. How they are kept is `cep_table`'s.

Flink: NFAState, ComputationState and SharedBuffer, whose version numbers and locks the chains make needless.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from flintstream.ops.cep_choices import Choice, Glance

Event = tuple[int, int, Any]
"""Number among the records that its key's matches have taken, time, value."""
Link = tuple[Any, str, Event]
"""What was taken before (a link or None), for which stage, and the record."""


class Partial(NamedTuple):
    """A partial match, at a place of the automaton; a complete one has none."""

    place: str
    start: Event
    link: Link


class Partials:
    """All partial matches of one key, and complete ones that wait for earlier partial ones.

    Partial matches are kept in the order of their first records: matches come by it, and strategies that skip look at
    the earliest one only. `count` is how many records were taken, `timer` when to look for those whose time is over.
    `glance` is what to ask of a record, None if that is not known: whoever changes `runs` forgets it.
    """

    __slots__ = ("count", "done", "glance", "runs", "timer")

    def __init__(self) -> None:
        self.runs: list[Partial] = []
        self.done: list[Partial] = []
        self.count = 0
        self.timer: int | None = None
        self.glance: Choice[Glance] | Glance | None = None


def chain(link: Link | None) -> Iterator[Link]:
    """Yield a link and all before it, newest first."""
    while link is not None:
        yield link
        link = link[0]
