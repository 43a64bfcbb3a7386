"""The partial matches of one key, and what a record or the time does to them.

What a partial match has taken is a chain of links from its newest record backwards, so that those which began alike
share what they have in common, and Python frees what none needs any longer. When state is written, chains become lists
with numbers, each record once. Partial matches are kept in the order of their first records: matches come by it, and
strategies that skip look at the earliest one only.

Flink: NFA, NFAState, ComputationState and SharedBuffer, whose version numbers and locks the chains make needless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flintstream.errors import JobError, describe
from flintstream.model.cep_conditions import ConditionContext
from flintstream.model.cep_functions import Match, NearMiss
from flintstream.model.cep_skip import AfterMatchSkipStrategy, SkipKind
from flintstream.ops.cep_nodes import Action, Automaton, Edge

Event = tuple[int, int, Any]
"""Number in the order of its key, time, value."""
Link = tuple[Any, str, Event]
"""What was taken before (a link or None), for which stage, and the record."""


class Partial(NamedTuple):
    """A partial match, at a place of the automaton; a complete one has none."""

    place: str
    start: Event
    link: Link


class Partials:
    """All partial matches of one key, and complete ones that wait for earlier partial ones."""

    __slots__ = ("count", "done", "runs", "timer")

    def __init__(self) -> None:
        self.runs: list[Partial] = []
        self.done: list[Partial] = []
        self.count = 0
        self.timer: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        events: dict[int, int] = {}
        links: dict[int, int] = {}
        event_rows: list[Event] = []
        link_rows: list[tuple[int, str, int]] = []
        for partial in (*self.runs, *self.done):
            for link in reversed(list(chain(partial.link))):
                if id(link) in links:
                    continue
                parent, name, event = link
                if id(event) not in events:
                    events[id(event)] = len(event_rows)
                    event_rows.append(event)
                link_rows.append((-1 if parent is None else links[id(parent)], name, events[id(event)]))
                links[id(link)] = len(link_rows) - 1
        runs, done = ([(each.place, links[id(each.link)]) for each in part] for part in (self.runs, self.done))
        return _restored, (self.count, self.timer, event_rows, link_rows, runs, done)


def _restored(
    count: int,
    timer: int | None,
    events: list[Event],
    rows: list[tuple[int, str, int]],
    runs: list[tuple[str, int]],
    done: list[tuple[str, int]],
) -> Partials:
    links: list[Link] = []
    starts: list[Event] = []
    for parent, name, event in rows:
        links.append((None if parent < 0 else links[parent], name, events[event]))
        starts.append(events[event] if parent < 0 else starts[parent])
    partials = Partials()
    partials.count, partials.timer = count, timer
    partials.runs = [Partial(place, starts[link], links[link]) for place, link in runs]
    partials.done = [Partial(place, starts[link], links[link]) for place, link in done]
    return partials


def chain(link: Link | None) -> Iterator[Link]:
    """Yield a link and all before it, newest first."""
    while link is not None:
        yield link
        link = link[0]


def matched(link: Link) -> Match:
    """Return the records of a match by stage."""
    match: Match = {}
    for _, name, event in reversed(list(chain(link))):
        match.setdefault(name, []).append(event[2])
    return match


class _Context(ConditionContext):
    """Stands at one record and one partial match, or none yet."""

    link: Link | None = None
    time = 0
    now = 0

    def get_events_for_pattern(self, name: str) -> list[Any]:
        return [link[2][2] for link in chain(self.link) if link[1] == name][::-1]

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self.now


class Matcher:
    """Runs an automaton over the partial matches of one key at a time.

    `on_miss` is called for each partial match that comes to nothing, if anybody wants to know.
    """

    def __init__(
        self, automaton: Automaton, skip: AfterMatchSkipStrategy, on_miss: Callable[[NearMiss], None] | None = None
    ) -> None:
        self._automaton, self._nodes = automaton, automaton.nodes
        self._tests = [condition.test for condition in automaton.conditions]
        self._simple = [condition.simple for condition in automaton.conditions]
        self._iterative = [number for number, simple in enumerate(self._simple) if not simple]
        self._skip, self._on_miss = skip, on_miss
        self.context = _Context()

    @property
    def begin(self) -> Callable[[Any], Any] | None:
        """The test that every first record of a match passes, if one test alone says whether it is one."""
        start = self._automaton.start
        if len(start) == 1 and len(start[0].yes) == 1 and not start[0].no and self._simple[start[0].yes[0]]:
            return self._tests[start[0].yes[0]]
        return None

    def take(self, partials: Partials, value: Any, time: int) -> list[Partial]:
        """Give a record to all partial matches and return the matches that are complete now."""
        event: Event = (partials.count, time, value)
        partials.count += 1
        truth: dict[int, bool] = {}
        context = self.context
        context.time = time
        kept: list[Partial] = []
        done: list[Partial] = []
        for run in partials.runs:
            context.link = run.link
            self._step(run, event, truth, kept, done)
            for number in self._iterative:
                truth.pop(number, None)
        context.link = None
        for edge in self._automaton.start:
            if self._follows(edge, value, truth):
                self._went(edge, event, (None, edge.name, event), kept, done)
        partials.runs = kept
        if not done and not partials.done:
            return done
        return self._settle(partials, done, value)

    def _step(
        self, run: Partial, event: Event, truth: dict[int, bool], kept: list[Partial], done: list[Partial]
    ) -> None:
        """Let a record do to one partial match what it does."""
        before, completed = len(kept), len(done)
        stopped: Edge | None = None
        for edge in self._nodes[run.place].edges:
            if not self._follows(edge, event[2], truth):
                continue
            match edge.action:
                case Action.TAKE:
                    self._went(edge, run.start, (run.link, edge.name, event), kept, done)
                case Action.IGNORE:
                    assert edge.target is not None
                    kept.append(run if edge.target == run.place else Partial(edge.target, run.start, run.link))
                case Action.END:
                    done.append(run)
                case Action.STOP:
                    stopped = edge
        if stopped is not None:
            del kept[before:]
        if self._on_miss is not None and len(kept) == before and len(done) == completed:
            name = self._nodes[run.place].name if stopped is None else stopped.name
            self._on_miss(NearMiss(matched(run.link), name, "condition" if stopped is None else "not", event[2]))

    @staticmethod
    def _went(edge: Edge, start: Event, link: Link, kept: list[Partial], done: list[Partial]) -> None:
        if edge.target is not None:
            kept.append(Partial(edge.target, start, link))
        if edge.completes:
            done.append(Partial("", start, link))

    def _follows(self, edge: Edge, value: Any, truth: dict[int, bool]) -> bool:
        for number in edge.yes:
            holds = truth.get(number)
            if not (self._ask(number, value, truth) if holds is None else holds):
                return False
        for number in edge.no:
            holds = truth.get(number)
            if self._ask(number, value, truth) if holds is None else holds:
                return False
        return True

    def _ask(self, number: int, value: Any, truth: dict[int, bool]) -> bool:
        test = self._tests[number]
        holds = truth[number] = bool(test(value) if self._simple[number] else test(value, self.context))
        return holds

    def expiry(self, partials: Partials) -> int | None:
        """Return when the time of the first partial match is over, None if never."""
        window = self._automaton.window_ms
        times = [] if window is None or not partials.runs else [partials.runs[0].start[1] + window]
        if self._automaton.has_gaps:
            gaps = ((self._nodes[run.place].gap_ms, run.link[2][1]) for run in partials.runs)
            times += [gap + last for gap, last in gaps if gap is not None]
        return min(times, default=None)

    def expire(self, partials: Partials, time: int) -> tuple[list[Partial], list[Partial]]:
        """End all partial matches whose time is over; return the matches that this completes, and those timed out."""
        window = self._automaton.window_ms
        kept: list[Partial] = []
        done: list[Partial] = []
        over: list[Partial] = []
        for run in partials.runs:
            node = self._nodes[run.place]
            is_over = window is not None and time - run.start[1] >= window
            if is_over or (node.gap_ms is not None and time - run.link[2][1] >= node.gap_ms):
                (done if node.is_pending else over).append(run)
            else:
                kept.append(run)
        partials.runs = kept
        if self._on_miss is not None:
            for run in over:
                self._on_miss(NearMiss(matched(run.link), self._nodes[run.place].name, "timeout"))
        return self._settle(partials, done, None), over

    def _settle(self, partials: Partials, done: list[Partial], value: Any) -> list[Partial]:
        """Return the complete matches whose turn it is, after each of which others are skipped."""
        waiting = sorted((*partials.done, *done), key=_began)
        if self._skip.kind is SkipKind.NO_SKIP:
            return waiting
        given: list[Partial] = []
        while waiting and not (partials.runs and _began(partials.runs[0]) < _began(waiting[0])):
            first = waiting.pop(0)
            given.append(first)
            least = self._resume(first)
            self._note_skipped(partials.runs, least, value)
            partials.runs = [run for run in partials.runs if _began(run) >= least]
            waiting = [run for run in waiting if _began(run) >= least]
        partials.done = waiting
        return given

    def _note_skipped(self, runs: list[Partial], least: int, value: Any) -> None:
        if self._on_miss is not None:
            for run in runs:
                if _began(run) < least:
                    self._on_miss(NearMiss(matched(run.link), self._nodes[run.place].name, "skipped", value))

    def _resume(self, match: Partial) -> int:
        """Return the number of the first record with which a match may begin after this one was given."""
        skip, first = self._skip, _began(match)
        if skip.kind is SkipKind.TO_NEXT:
            # Those that began earlier are over by now: otherwise this match would still wait.
            return first + 1
        if skip.kind is SkipKind.PAST_LAST_EVENT:
            return match.link[2][0] + 1
        found = [event[0] for _, name, event in chain(match.link) if name == skip.pattern_name]
        least = min(found, default=first) if skip.kind is SkipKind.TO_FIRST else max(found, default=first)
        if skip.throws_on_miss and (not found or least == first):
            what = f"cannot skip to {skip.pattern_name!r}: the match {'begins with it' if found else 'has none'}"
            raise JobError(describe(what, remedy="choose another stage, or leave throw_exception_on_miss() out"))
        return least


def _began(partial: Partial) -> int:
    return partial.start[0]
