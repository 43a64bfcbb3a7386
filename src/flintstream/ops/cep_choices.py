"""What a record does at a place of the automaton, as a tree of questions: each condition is asked once, if at all.

The edges of a node say which conditions must hold and which must not. Followed one by one they would ask again and
again; as a tree, the answer to one question leads to the next one that still matters, in the order of the edges, and in
the end to all that happens. A tree grows where records lead: that of a pattern with many optional stages is large, and
most of it is never seen. Several places also have a tree together, by which a record that changes nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from flintstream.ops.cep_nodes import Action, Edge

Answers = Mapping[int, bool]
Leaf = TypeVar("Leaf")


class Outcome:
    """The end of a way through the tree: `moves` are the edges to follow; `is_idle` if that changes nothing.

    `only` is the one edge to follow if all it does is to take the record, as is usual.
    """

    __slots__ = ("is_idle", "moves", "only", "stop")

    def __init__(self, place: str | None, edges: Sequence[Edge]) -> None:
        self.stop = next((edge for edge in edges if edge.action is Action.STOP), None)
        self.moves = tuple(edge for edge in edges if edge.action is not Action.STOP)
        self.only = edges[0] if len(edges) == 1 and _takes_only(edges[0]) else None
        if place is None:
            self.is_idle = not edges
        else:
            self.is_idle = [(edge.action, edge.target) for edge in edges] == [(Action.IGNORE, place)]


def _takes_only(edge: Edge) -> bool:
    return edge.action is Action.TAKE and edge.gap_ms is None and (edge.completes or edge.target is not None)


class Glance(NamedTuple):
    """The end of a way through the questions of several places: whether a record changes nothing at any of them.

    `known` tells of each condition whether it holds for the record, None if it was not asked.
    """

    is_idle: bool
    known: Sequence[bool | None]


class Choice(Generic[Leaf]):
    """A question, by the number of its condition, and where each answer leads as far as that is known."""

    __slots__ = ("_answers", "_lead", "no", "number", "yes")

    def __init__(self, number: int, lead: Callable[[Answers], Choice[Leaf] | Leaf], answers: Answers) -> None:
        self.number = number
        self._lead, self._answers = lead, answers
        self.yes: Choice[Leaf] | Leaf | None = None
        self.no: Choice[Leaf] | Leaf | None = None

    def grow(self, answer: bool) -> Choice[Leaf] | Leaf:
        """Return where an answer leads that was not given before."""
        found = self._lead({**self._answers, self.number: answer})
        if answer:
            self.yes = found
        else:
            self.no = found
        return found


def choice_of(place: str | None, edges: Sequence[Edge], answers: Answers | None = None) -> Choice[Outcome] | Outcome:
    """Return the tree of a place's edges, None being where matches begin, after some answers."""
    answers = answers or {}
    followed: list[Edge] = []
    for edge in edges:
        if any(answers.get(number) is False for number in edge.yes) or any(map(answers.get, edge.no)):
            continue
        open_questions = [number for number in (*edge.yes, *edge.no) if number not in answers]
        if open_questions:
            return Choice(open_questions[0], partial(choice_of, place, edges), answers)
        followed.append(edge)
    return Outcome(place, followed)


def glance_of(
    spots: Mapping[str | None, Sequence[Edge]], conditions: int, answers: Answers | None = None
) -> Choice[Glance] | Glance:
    """Return the tree of several places at once, which ends where it is clear whether a record changes anything."""
    answers = answers or {}
    trees = [choice_of(place, edges, answers) for place, edges in spots.items()]
    is_busy = any(isinstance(tree, Outcome) and not tree.is_idle for tree in trees)
    questions = [tree.number for tree in trees if isinstance(tree, Choice)]
    if questions and not is_busy:
        return Choice(questions[0], partial(glance_of, spots, conditions), answers)
    return Glance(not is_busy, [answers.get(number) for number in range(conditions)])
