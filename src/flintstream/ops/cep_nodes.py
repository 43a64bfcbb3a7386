"""Pattern to automaton: every place where a partial match can wait, and what each kind of record does to it there.

A place is a stage with the number of records it has taken (within groups: the repetition of every group around it),
whether records were left out since it was reached, which stages are forbidden until the next record is taken, and which
greedy stage before it may still want records. Leaving an optional or sufficiently repeated stage is no event of its
own: the edges of the next place are edges of this one too, so a record needs one look at the edges of one node.

Flink: NFACompiler, State and StateTransition; here the states have structure, so that none is copied or renamed.
Differs from Flink: a partial match that waits for the next repetition of a group tries what follows the group once,
not again for each record that it leaves out, which would give the same match twice; a stage forbidden before a repeated
stage is forbidden before its first record only; a repeated stage that must not be followed by another is a match when
the time is over whether or not other records came meanwhile; a time since the previous record holds also where a stage
before may be repeated or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from flintstream.errors import IncompatibleStateError, describe
from flintstream.model.cep import Contiguity, Pattern, Stage
from flintstream.model.cep_conditions import Condition


class Action(Enum):
    """What a record does to a partial match."""

    TAKE = "take"
    IGNORE = "ignore"
    STOP = "stop"
    END = "end"


@dataclass(frozen=True, slots=True)
class Edge:
    """Followed if all conditions `yes` hold and none of `no`, both by number.

    `target` is where the partial match waits then, None if nowhere; a record taken may also complete a match. It is
    taken only in less than `gap_ms` since the record before.
    """

    yes: tuple[int, ...]
    no: tuple[int, ...]
    action: Action
    name: str
    target: str | None = None
    completes: bool = False
    gap_ms: int | None = None


@dataclass(slots=True)
class Node:
    """A place where partial matches wait, for `gap_ms` since their last record; `is_pending` ones are matches then."""

    name: str
    is_pending: bool
    gap_ms: int | None
    edges: list[Edge] = field(default_factory=list[Edge])


class Nodes(dict[str, Node]):
    """All nodes by label; a label that state has and the pattern has not means that the pattern was changed."""

    def __missing__(self, label: str) -> Node:
        what = f"a partial match waits at {label!r}, and the pattern has no such place"
        raise IncompatibleStateError(describe(what, remedy="give the changed pattern another uid"))


@dataclass(slots=True)
class Automaton:
    """All places of a pattern; `start` are the edges by which matches begin."""

    nodes: Nodes
    start: list[Edge]
    conditions: list[Condition]
    window_ms: int | None

    @property
    def has_gaps(self) -> bool:
        """Whether some partial matches have a time limit since the record before."""
        return any(node.gap_ms is not None for node in self.nodes.values())


class _Place(NamedTuple):
    """`frames` are pairs (stage, how many records or repetitions it has), from the outermost group inwards."""

    frames: tuple[tuple[int, int], ...]
    waited: bool = False
    nots: tuple[Stage, ...] = ()
    guard: Stage | None = None

    @property
    def label(self) -> str:
        path = "/".join(f"{stage}:{count}" for stage, count in self.frames)
        forbidden = "".join(f" !{stage.name}" for stage in self.nots)
        greedy = "" if self.guard is None else f" ^{self.guard.name}"
        return f"{path}{'~' if self.waited else ''}{forbidden}{greedy}"


class _Terms(NamedTuple):
    """Conditions on the way to an edge."""

    yes: tuple[Condition, ...] = ()
    no: tuple[Condition | None, ...] = ()

    def but(self, *no: Condition | None) -> _Terms:
        """Return these terms, and that none of `no` holds; None always holds."""
        return _Terms(self.yes, (*self.no, *no))

    def and_(self, *yes: Condition | None) -> _Terms:
        """Return these terms, and that all of `yes` hold."""
        return _Terms((*self.yes, *(each for each in yes if each is not None)), self.no)


def compile_pattern(pattern: Pattern) -> Automaton:
    """Return the automaton that finds a pattern."""
    return _Compiler(pattern).automaton()


class _Compiler:
    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._numbers: dict[Condition, int] = {}
        self._nodes = Nodes()
        self._waiting: list[_Place] = []
        self._edges: list[Edge] = []

    def automaton(self) -> Automaton:
        start = self._edges_of(_Place(self._enter(((0, 0),))))
        while self._waiting:
            place = self._waiting.pop(0)
            stage = self._stage(place.frames)
            node = self._nodes[place.label]
            node.edges = self._edges_of(place)
            node.is_pending = self._is_pending(place, set())
            gaps = [edge.gap_ms for edge in node.edges if edge.action is Action.TAKE]
            if stage.contiguity is Contiguity.NOT_FOLLOW:
                node.gap_ms = stage.gap_ms
            elif gaps and None not in gaps:
                node.gap_ms = max(gap for gap in gaps if gap is not None)
        begins = [edge for edge in start if edge.action is Action.TAKE]
        return Automaton(self._nodes, begins, list(self._numbers), self._pattern.window_ms)

    def _edges_of(self, place: _Place) -> list[Edge]:
        self._edges = []
        self._spread(place, _Terms(), set())
        return self._edges

    def _stages(self, frames: Sequence[tuple[int, int]]) -> Sequence[Stage]:
        """Return the sequence that the last frame is in."""
        stages: Sequence[Stage] = self._pattern.stages
        for index, _ in frames[:-1]:
            stages = stages[index].group
        return stages

    def _stage(self, frames: Sequence[tuple[int, int]]) -> Stage:
        return self._stages(frames)[frames[-1][0]]

    def _enter(self, frames: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """Go to the first stage of a group."""
        while self._stage(frames).group:
            frames = (*frames, (0, 0))
        return frames

    def _untils(self, frames: Sequence[tuple[int, int]]) -> list[Condition]:
        """Return the conditions that end the repetition of a group around a stage."""
        around = [self._stage(frames[:depth]) for depth in range(1, len(frames))]
        return [group.until for group in around if group.until is not None]

    def _leave(
        self, frames: tuple[tuple[int, int], ...], nots: tuple[Stage, ...], guard: Stage | None
    ) -> _Place | None:
        """Return the place behind a stage, None if the pattern ends there."""
        stages, index = self._stages(frames), frames[-1][0] + 1
        while index + 1 < len(stages) and stages[index].contiguity is Contiguity.NOT_FOLLOW:
            nots = (*nots, stages[index])
            index += 1
        if index < len(stages):
            return _Place(self._enter((*frames[:-1], (index, 0))), False, nots, guard)
        return None if len(frames) == 1 else self._repeat(frames[:-1], nots, guard)

    def _repeat(
        self, frames: tuple[tuple[int, int], ...], nots: tuple[Stage, ...] = (), guard: Stage | None = None
    ) -> _Place | None:
        """Return the place after one more record or repetition of a stage."""
        stage, (index, count) = self._stage(frames), frames[-1]
        count = min(count + 1, stage.least) if stage.most is None else count + 1
        if stage.most is not None and count >= stage.most:
            return self._leave(frames, nots, stage if _is_insatiable(stage) else guard)
        following = self._stages(frames)[index + 1 : index + 2]
        if following and following[0].contiguity is Contiguity.NOT_FOLLOW:
            nots = (*nots, following[0])
        return _Place(self._enter((*frames[:-1], (index, count))), False, nots, guard)

    def _exits(self, place: _Place) -> list[tuple[_Place | None, _Terms]]:
        """Return where a place leads to without a record, and on which terms."""
        frames, stage = place.frames, self._stage(place.frames)
        if place.waited or stage.is_negated:
            return []
        found: list[tuple[_Place | None, _Terms]] = []
        terms = _Terms().but(*self._untils(frames))
        if _is_enough(stage, frames[-1][1]):
            if not _is_insatiable(stage):
                found.append((self._leave(frames, place.nots, None), terms))
            else:
                if stage.until is not None:
                    found.append((self._leave(frames, place.nots, None), terms.and_(stage.until)))
                found.append((self._leave(frames, place.nots, stage), terms.but(*_known(stage.until))))
        while len(frames) > 1 and frames[-1] == (0, 0):
            frames = frames[:-1]
            if _is_enough(self._stage(frames), frames[-1][1]):
                exit_terms = _Terms().but(*self._untils(frames))
                found.append((self._leave(frames, place.nots, None), exit_terms))
        return found

    def _ends(self, place: _Place | None, seen: set[str]) -> bool:
        """Whether the pattern is complete when a place is reached."""
        if place is None:
            return True
        if place.label in seen:
            return False
        seen.add(place.label)
        return any(self._ends(target, seen) for target, _ in self._exits(place))

    def _is_pending(self, place: _Place, seen: set[str]) -> bool:
        """Whether nothing more must come, only something must not: so a partial match is one when its time is over."""
        if self._stage(place.frames).contiguity is Contiguity.NOT_FOLLOW:
            return True
        if place.label in seen:
            return False
        seen.add(place.label)
        return any(target is not None and self._is_pending(target, seen) for target, _ in self._exits(place))

    def _spread(self, place: _Place, terms: _Terms, seen: set[str]) -> None:
        """Add the edges of a place, and of those that it leads to without a record."""
        if place.label in seen:
            return
        seen.add(place.label)
        stage, frames = self._stage(place.frames), place.frames
        if place.guard is not None:
            terms = terms.but(place.guard.condition)
        for forbidden in place.nots:
            self._add(terms.and_(forbidden.condition), Action.STOP, forbidden)
        if stage.is_negated:
            self._spread_not(place, stage, terms, seen)
            return
        untils = self._untils(frames)
        took = self._repeat(frames)
        take = terms.and_(stage.condition).but(*untils, *_known(stage.until))
        self._add(take, Action.TAKE, stage, took, self._ends(took, set()))
        contiguity = self._contiguity(frames)
        if contiguity is not Contiguity.STRICT:
            ignore = terms.but(*untils, *(_known(stage.until) if frames[-1][1] else ()))
            if contiguity is Contiguity.RELAXED:
                ignore = ignore.but(stage.condition)
            self._add(ignore, Action.IGNORE, stage, place._replace(waited=bool(self._exits(place)) or place.waited))
        for target, exit_terms in self._exits(place):
            if target is not None:
                self._spread(target, terms.and_(*exit_terms.yes).but(*exit_terms.no), seen)

    def _spread_not(self, place: _Place, stage: Stage, terms: _Terms, seen: set[str]) -> None:
        self._add(terms.and_(stage.condition), Action.STOP, stage)
        allowed = terms.but(stage.condition)
        if stage.contiguity is Contiguity.NOT_FOLLOW:
            self._add(allowed, Action.IGNORE, stage, place)
            return
        target = self._leave(place.frames, place.nots, None)
        if target is None:
            self._add(allowed, Action.END, stage)
        else:
            self._spread(target, allowed, seen)

    def _contiguity(self, frames: Sequence[tuple[int, int]]) -> Contiguity:
        """Return how close the next record of a place must follow; at the head of a group the group says it."""
        index, count = frames[-1]
        if count:
            return self._stage(frames).inner
        if index or len(frames) == 1:
            return self._stage(frames).contiguity
        return self._contiguity(frames[:-1])

    def _add(
        self, terms: _Terms, action: Action, stage: Stage, target: _Place | None = None, completes: bool = False
    ) -> None:
        if None in terms.no or set(terms.yes) & set(terms.no):
            return
        yes = tuple(dict.fromkeys(map(self._number, terms.yes)))
        no = tuple(dict.fromkeys(self._number(each) for each in terms.no if each is not None))
        label = None if target is None else self._node(target)
        gap = stage.gap_ms if action is Action.TAKE else None
        self._edges.append(Edge(yes, no, action, stage.name, label, completes, gap))

    def _number(self, condition: Condition) -> int:
        return self._numbers.setdefault(condition, len(self._numbers))

    def _node(self, place: _Place) -> str:
        if place.label not in self._nodes:
            stage = self._stage(place.frames)
            self._nodes[place.label] = Node(stage.name, False, None)
            self._waiting.append(place)
        return place.label


def _is_enough(stage: Stage, count: int) -> bool:
    """Whether a stage may be left after so many records."""
    return count >= stage.least or (count == 0 and stage.optional)


def _is_insatiable(stage: Stage) -> bool:
    """Whether a greedy stage may want records that the next one would leave out or take."""
    return stage.greedy and stage.least != stage.most


def _known(condition: Any) -> tuple[Condition, ...]:
    return () if condition is None else (condition,)
