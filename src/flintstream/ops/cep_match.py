"""What a record or the time does to the partial matches of one key.

A record is asked about as little as can be: conditions on it alone once for all partial matches, and those that could
be computed on whole columns not at all. A record that changes nothing, as most do, leaves state as it is.

Flink: NFA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flintstream.errors import JobError, describe
from flintstream.model.cep_conditions import ConditionContext
from flintstream.model.cep_functions import Match, NearMiss
from flintstream.model.cep_skip import AfterMatchSkipStrategy, SkipKind
from flintstream.ops.cep_choices import Choice, Glance, Outcome, choice_of, glance_of
from flintstream.ops.cep_nodes import Action, Automaton
from flintstream.ops.cep_state import Event, Link, Partial, Partials, chain

Known = Sequence[bool | None]
"""Of each condition whether it holds for a record; None if that is not known."""
_MOST_GLANCES = 64
"""For so many sets of places it is known what to ask; where there are more, each partial match is asked."""
_new = tuple.__new__
"""Makes a `Partial` out of a tuple in half the time that its own constructor needs."""


def matched(link: Link) -> Match:
    """Return the records of a match by stage."""
    match: Match = {}
    for _, name, event in reversed(list(chain(link))):
        if name in match:
            match[name].append(event[2])
        else:
            match[name] = [event[2]]
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


class _Trees(dict[str, Choice[Outcome] | Outcome]):
    """What to ask at each place, made when it is first reached."""

    def __init__(self, automaton: Automaton) -> None:
        super().__init__()
        self._nodes = automaton.nodes

    def __missing__(self, place: str) -> Choice[Outcome] | Outcome:
        tree = self[place] = choice_of(place, self._nodes[place].edges)
        return tree


class Matcher:
    """Runs an automaton over the partial matches of one key at a time.

    `on_miss` is called for each partial match that comes to nothing, if anybody wants to know. `tests` are the
    conditions as they are asked where nothing is known of them. `begin` is the condition that every first record of a
    match fulfils, if one on it alone says whether it is one, and `begun` what is known of a record that does.
    """

    def __init__(
        self, automaton: Automaton, skip: AfterMatchSkipStrategy, on_miss: Callable[[NearMiss], None] | None = None
    ) -> None:
        self._automaton, self._nodes = automaton, automaton.nodes
        self._trees, self._start = _Trees(automaton), choice_of(None, automaton.start)
        self.tests = [condition.test for condition in automaton.conditions]
        self._simple = [condition.simple for condition in automaton.conditions]
        self._iterative = [number for number, simple in enumerate(self._simple) if not simple]
        self._nothing: Known = [None] * len(self.tests)
        self._glances: dict[str | frozenset[str], Choice[Glance] | Glance] = {}
        self._unclear = Glance(False, self._nothing)
        self.begin = self._condition_of_beginning(automaton)
        self.begun: Known = [True if number == self.begin else None for number in range(len(self.tests))]
        self.has_gaps = automaton.has_gaps
        self._skip, self._on_miss = skip, on_miss
        self.context = _Context()

    def _condition_of_beginning(self, automaton: Automaton) -> int | None:
        start = automaton.start
        alone = len(start) == 1 and len(start[0].yes) == 1 and not start[0].no
        return start[0].yes[0] if alone and self._simple[start[0].yes[0]] else None

    def begins(self, value: Any, time: int, known: Known | None = None) -> bool:
        """Whether a record begins a match."""
        context = self.context
        context.time, context.link = time, None
        return not self._decide(self._start, value, list(self._nothing if known is None else known)).is_idle

    def glance(self, partials: Partials) -> Choice[Glance] | Glance:
        """Return what to ask of a record to know whether it changes anything, if its conditions look at it alone."""
        runs = partials.runs
        places = runs[0][0] if len(runs) == 1 else frozenset([run[0] for run in runs])
        found = self._glances.get(places)
        if found is None:
            found = self._unclear
            if not self._iterative and len(self._glances) < _MOST_GLANCES:
                spots = {None: self._automaton.start, **{run.place: self._nodes[run.place].edges for run in runs}}
                found = self._glances[places] = glance_of(spots, len(self.tests))
        partials.glance = found
        return found

    def take(self, partials: Partials, value: Any, time: int, known: Known | None = None) -> list[Partial] | None:
        """Give a record to all partial matches and return the matches that are complete now; None: nothing changed."""
        known = self._nothing if known is None else known
        truth, iterative, tests, simple = list(known), self._iterative, self.tests, self._simple
        context, trees, runs = self.context, self._trees, partials.runs
        context.time = time
        event: Event | None = None
        kept: list[Partial] | None = None
        done: list[Partial] = []
        for index, run in enumerate(runs):
            if iterative:
                context.link = run.link
                for number in iterative:
                    truth[number] = known[number]
            # As `_decide` does; here it is on the path of every record and every partial match.
            choice = trees[run[0]]
            while type(choice) is Choice:
                number = choice.number
                holds = truth[number]
                if holds is None:
                    test = tests[number]
                    holds = truth[number] = bool(test(value) if simple[number] else test(value, context))
                answer = choice.yes if holds else choice.no
                choice = choice.grow(holds) if answer is None else answer
            outcome: Any = choice
            if outcome.is_idle:
                if kept is not None:
                    kept.append(run)
                continue
            if kept is None:
                kept = runs[:index]
            if event is None:
                event = (partials.count, time, value)
            self._step(run, outcome, event, kept, done)
        if iterative:
            context.link = None
            for number in iterative:
                truth[number] = known[number]
        begun = self._decide(self._start, value, truth)
        if not begun.is_idle:
            kept = list(runs) if kept is None else kept
            event = event or (partials.count, time, value)
            self._begin_with(event, begun, kept, done)
        if kept is None:
            return None
        partials.runs, partials.glance = kept, None
        partials.count += 1
        return self._settle(partials, done, value) if done or partials.done else done

    @staticmethod
    def _begin_with(event: Event, outcome: Outcome, kept: list[Partial], done: list[Partial]) -> None:
        """Let a record begin matches."""
        for edge in outcome.moves:
            if edge.target is not None:
                kept.append(_new(Partial, (edge.target, event, (None, edge.name, event))))
            if edge.completes:
                done.append(_new(Partial, ("", event, (None, edge.name, event))))

    def _step(self, run: Partial, outcome: Outcome, event: Event, kept: list[Partial], done: list[Partial]) -> None:
        """Let a record do to one partial match what it does."""
        only = outcome.only
        if only is not None:
            taken = (run[2], only.name, event)
            if only.target is not None:
                kept.append(_new(Partial, (only.target, run[1], taken)))
            if only.completes:
                done.append(_new(Partial, ("", run[1], taken)))
            return
        before, completed = len(kept), len(done)
        for edge in outcome.moves:
            if edge.action is Action.TAKE:
                if edge.gap_ms is not None and event[1] - run.link[2][1] >= edge.gap_ms:
                    continue
                link = (run.link, edge.name, event)
                if edge.target is not None:
                    kept.append(Partial(edge.target, run.start, link))
                if edge.completes:
                    done.append(Partial("", run.start, link))
            elif edge.action is Action.IGNORE:
                assert edge.target is not None
                kept.append(run if edge.target == run.place else Partial(edge.target, run.start, run.link))
            else:
                done.append(run)
        stopped = outcome.stop
        if stopped is not None:
            del kept[before:]
        if self._on_miss is not None and len(kept) == before and len(done) == completed:
            name = self._nodes[run.place].name if stopped is None else stopped.name
            self._on_miss(NearMiss(matched(run.link), name, "condition" if stopped is None else "not", event[2]))

    def _decide(self, choice: Choice[Outcome] | Outcome, value: Any, truth: list[bool | None]) -> Outcome:
        while type(choice) is Choice:
            number = choice.number
            holds = truth[number]
            if holds is None:
                test = self.tests[number]
                holds = truth[number] = bool(test(value) if self._simple[number] else test(value, self.context))
            answer = choice.yes if holds else choice.no
            choice = choice.grow(holds) if answer is None else answer
        return choice  # pyright: ignore[reportReturnType]  # it knows no `type(...) is` of a union's rest

    def expiry(self, partials: Partials) -> int | None:
        """Return when the time of the first partial match is over, None if never."""
        window = self._automaton.window_ms
        first = None if window is None or not partials.runs else partials.runs[0].start[1] + window
        if not self.has_gaps:
            return first
        gaps = ((self._nodes[run.place].gap_ms, run.link[2][1]) for run in partials.runs)
        times = [gap + last for gap, last in gaps if gap is not None]
        return min(times if first is None else [first, *times], default=None)

    def is_all_over(self, partials: Partials, time: int) -> bool:
        """Whether a key has one partial match, whose time is over, and nothing else: mostly it is so."""
        window, runs = self._automaton.window_ms, partials.runs
        if window is None or len(runs) != 1 or partials.done or time - runs[0].start[1] < window:
            return False
        return not self._nodes[runs[0].place].is_pending

    def drop(self, partials: Partials, time: int) -> bool:
        """Forget the partial matches whose time is over, of a pattern without gaps; return whether any is left."""
        window, runs = self._automaton.window_ms, partials.runs
        if window is None or not runs or time - runs[0].start[1] < window:
            return True
        # Complete ones still wait if the pattern skipped matches before, and no longer does.
        if time - runs[-1].start[1] >= window and not partials.done:
            return False
        partials.runs, partials.glance = [run for run in runs if time - run.start[1] < window], None
        return True

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
        partials.runs, partials.glance = kept, None
        if self._on_miss is not None:
            for run in over:
                self._on_miss(NearMiss(matched(run.link), self._nodes[run.place].name, "timeout"))
        return self._settle(partials, done, None), over

    def _settle(self, partials: Partials, done: list[Partial], value: Any) -> list[Partial]:
        """Return the complete matches whose turn it is, after each of which others are skipped."""
        if self._skip.kind is SkipKind.NO_SKIP:
            given, partials.done = [*partials.done, *done], []
            return given if len(given) < 2 else sorted(given, key=_began)
        waiting = sorted((*partials.done, *done), key=_began)
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
