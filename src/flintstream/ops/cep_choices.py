"""What a record does at a place of the automaton, as a tree of questions: each condition is asked once, if at all.

The edges of a node say which conditions must hold and which must not. Followed one by one they would ask again and
again; as a tree, the answer to one question leads to the next one that still matters, in the order of the edges, and in
the end to all that happens. A tree grows where records lead: that of a pattern with many optional stages is large, and
most of it is never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flintstream.ops.cep_nodes import Action, Edge


class Outcome:
    """The end of a way through the tree: `moves` are the edges to follow; `is_idle` if that changes nothing."""

    __slots__ = ("is_idle", "moves", "stop")

    def __init__(self, place: str | None, edges: Sequence[Edge]) -> None:
        self.stop = next((edge for edge in edges if edge.action is Action.STOP), None)
        self.moves = tuple(edge for edge in edges if edge.action is not Action.STOP)
        if place is None:
            self.is_idle = not edges
        else:
            self.is_idle = [(edge.action, edge.target) for edge in edges] == [(Action.IGNORE, place)]


class Choice:
    """A question, by the number of its condition, and where each answer leads as far as that is known."""

    __slots__ = ("_answers", "_edges", "_place", "no", "number", "yes")

    def __init__(self, number: int, place: str | None, edges: Sequence[Edge], answers: Mapping[int, bool]) -> None:
        self.number = number
        self._place, self._edges, self._answers = place, edges, answers
        self.yes: Choice | Outcome | None = None
        self.no: Choice | Outcome | None = None

    def grow(self, answer: bool) -> Choice | Outcome:
        """Return where an answer leads that was not given before."""
        found = choice_of(self._place, self._edges, {**self._answers, self.number: answer})
        if answer:
            self.yes = found
        else:
            self.no = found
        return found


def choice_of(place: str | None, edges: Sequence[Edge], answers: Mapping[int, bool] | None = None) -> Choice | Outcome:
    """Return the tree of a place's edges, None being where matches begin, after some answers."""
    answers = answers or {}
    followed: list[Edge] = []
    for edge in edges:
        if any(answers.get(number) is False for number in edge.yes) or any(map(answers.get, edge.no)):
            continue
        open_questions = [number for number in (*edge.yes, *edge.no) if number not in answers]
        if open_questions:
            return Choice(open_questions[0], place, edges, answers)
        followed.append(edge)
    return Outcome(place, followed)
