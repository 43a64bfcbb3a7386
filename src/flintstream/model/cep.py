"""`Pattern`: what to look for in a stream, as a value.

A pattern is a sequence of stages; each says how close it must follow, which records it takes, and how many. Nothing
here runs: `ops/cep_nodes.py` makes an automaton of it. A pattern is never changed: every method returns another one,
so parts can be shared.

Flink: org.apache.flink.cep.pattern.Pattern, GroupPattern and Quantifier.
Differs from Flink: there the methods change the pattern and return it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NoReturn

import pyarrow.compute as pc

from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError
from flintstream.model.cep_conditions import (
    Condition,
    IsInstance,
    IterativeCondition,
    SimpleCondition,
    as_condition,
    both,
    either,
)
from flintstream.model.cep_skip import AfterMatchSkipStrategy
from flintstream.model.cep_text import read_pattern_text
from flintstream.model.functions import FilterFunction, Function
from flintstream.model.location import refused
from flintstream.model.time import DurationLike, to_millis

ConditionLike = IterativeCondition | SimpleCondition | FilterFunction | pc.Expression | Callable[..., Any]


class Contiguity(Enum):
    """How close a stage follows what was taken before it, or that it must not."""

    STRICT = "next"
    RELAXED = "followed by"
    RELAXED_ANY = "followed by any"
    NOT_NEXT = "not next"
    NOT_FOLLOW = "not followed by"


class WithinType(Enum):
    """What the time of `within` is measured between."""

    FIRST_AND_LAST = "first and last"
    PREVIOUS_AND_CURRENT = "previous and current"


_NEGATED = (Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOW)


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage: `least` to `most` records (None: no limit), or of a `group` as many repetitions.

    `inner` is the contiguity of its records among each other; `gap_ms` the time since the record taken before.
    """

    name: str
    contiguity: Contiguity
    group: tuple[Stage, ...] = ()
    condition: Condition | None = None
    until: Condition | None = None
    inner: Contiguity = Contiguity.RELAXED
    least: int = 1
    most: int | None = 1
    is_quantified: bool = False
    optional: bool = False
    greedy: bool = False
    within_ms: int | None = None
    gap_ms: int | None = None

    @property
    def is_negated(self) -> bool:
        """Whether records of this stage must not come."""
        return self.contiguity in _NEGATED

    def walk(self) -> Iterator[Stage]:
        """Yield the stage and, of a group, all within it."""
        yield self
        for stage in self.group:
            yield from stage.walk()


@dataclass(frozen=True, eq=False)
class Pattern:
    """A sequence of stages; the methods that qualify a stage qualify the last one.

    >>> from flintstream.cep import Pattern
    >>> smoke = Pattern.begin("hot").where(lambda r: r["temp"] > 60).followed_by("smoke").where(lambda r: r["smoke"])
    >>> smoke.within("10min").names
    ('hot', 'smoke')
    """

    stages: tuple[Stage, ...]
    skip_strategy: AfterMatchSkipStrategy = field(default_factory=AfterMatchSkipStrategy)

    @staticmethod
    def begin(name: str | Pattern, after_match_skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern:
        """Begin a pattern with a stage, or with a whole pattern as a group that can be repeated."""
        skip = AfterMatchSkipStrategy() if after_match_skip_strategy is None else after_match_skip_strategy
        return Pattern((), skip)._append(name, Contiguity.STRICT)

    @staticmethod
    def parse(text: str) -> Pattern:
        """Read a pattern from a text like MATCH_RECOGNIZE of SQL: variables follow each other at once, greedily.

        >>> from flintstream.cep import Pattern
        >>> text = "PATTERN (low rise+ fall) WITHIN 10 minutes DEFINE low AS t < 20, rise AS t > 20, fall AS t < low.t"
        >>> Pattern.parse(text).names
        ('low', 'rise', 'fall')
        """
        read = read_pattern_text(text)
        how, target = read.skip
        skips = {
            "PAST LAST ROW": AfterMatchSkipStrategy.skip_past_last_event,
            "TO NEXT ROW": AfterMatchSkipStrategy.skip_to_next,
            "TO FIRST": lambda: AfterMatchSkipStrategy.skip_to_first(str(target)),
            "TO LAST": lambda: AfterMatchSkipStrategy.skip_to_last(str(target)),
        }
        pattern = Pattern((), skips[how]())
        for name, least, most in read.variables:
            pattern = pattern._append(name, Contiguity.STRICT)
            if (least, most) == (0, 1):
                pattern = pattern.optional()
            elif (least, most) != (1, 1):
                pattern = pattern._repeat("parse", max(least, 1), most).consecutive().greedy()
                pattern = pattern if least else pattern.optional()
            if name in read.conditions:
                pattern = pattern._change(condition=read.conditions[name])
        return pattern if read.within_ms is None else pattern.within(read.within_ms)

    def next(self, name: str | Pattern) -> Pattern:
        """Add a stage, or a group, that must follow at once."""
        return self._append(name, Contiguity.STRICT)

    def followed_by(self, name: str | Pattern) -> Pattern:
        """Add a stage, or a group, that may follow later; the first record that fits is taken."""
        return self._append(name, Contiguity.RELAXED)

    def followed_by_any(self, name: str | Pattern) -> Pattern:
        """Add a stage, or a group, that may follow later; each record that fits gives a match of its own."""
        return self._append(name, Contiguity.RELAXED_ANY)

    def not_next(self, name: str) -> Pattern:
        """Add a stage that must not follow at once."""
        return self._append(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """Add a stage that must not come before the next one; as the last one, not before `within` is over."""
        return self._append(name, Contiguity.NOT_FOLLOW)

    def where(self, condition: ConditionLike) -> Pattern:
        """Take only records that fulfil the condition, and those given before.

        The condition is a function of a record, or of `(record, ctx)`: `ctx.get_events_for_pattern(name)` are the
        records that the partial match has taken so far. An expression such as `pyarrow.compute.field("t") > 60` is
        computed on columns, which is fastest.
        """
        self._refuse_group("where")
        return self._change(condition=both(self._last.condition, as_condition(condition)))

    def or_(self, condition: ConditionLike) -> Pattern:
        """Take records that fulfil this condition, or those given before."""
        self._refuse_group("or_")
        return self._change(condition=either(self._last.condition, as_condition(condition)))

    def subtype(self, subtype_class: type[Any]) -> Pattern:
        """Take only records of a class, which also fulfil the conditions given before."""
        self._refuse_group("subtype")
        if not isinstance(subtype_class, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise refused(TypeMismatchError, f"{subtype_class!r:.100} is not a class", "pass a class")
        return self._change(condition=both(self._last.condition, Condition(IsInstance(subtype_class), True)))

    def until(self, until_condition: ConditionLike) -> Pattern:
        """End the repetition of the stage by a record that fulfils the condition, which is not taken."""
        if self._last.most is not None:
            _refuse("until(...) ends a repetition, and this stage has an end", "use it after one_or_more()")
        if self._last.until is not None:
            _refuse(f"stage {self._last.name!r} has an until condition already", "join both by or")
        return self._change(until=as_condition(until_condition))

    def within(self, window_time: DurationLike, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Pattern:
        """Give a partial match no more than this time since its first record.

        With `WithinType.PREVIOUS_AND_CURRENT`, since the record taken before those of this stage.
        """
        length = to_millis(window_time)
        if length <= 0:
            raise refused(InvalidArgumentError, f"a match has {length} ms", "give within(...) at least 1 ms")
        if within_type is WithinType.FIRST_AND_LAST:
            return self._change(within_ms=length)
        if self._last.is_quantified or self._last.group:
            _refuse("a time since the previous record is for a stage of one record", "leave it out")
        return self._change(gap_ms=length)

    def optional(self) -> Pattern:
        """Let the stage be left out."""
        self._refuse_negated("optional")
        if self._last.optional:
            _refuse(f"stage {self._last.name!r} is optional already", "leave one optional() out")
        if len(self.stages) > 1 and self.stages[-2].greedy:
            what = f"an optional stage cannot follow {self.stages[-2].name!r}, which is greedy"
            _refuse(what, "leave greedy() or optional() out")
        return self._change(optional=True)

    def one_or_more(self) -> Pattern:
        """Repeat the stage without limit."""
        return self._repeat("one_or_more", 1, None)

    def times(self, times: int, to_times: int | None = None) -> Pattern:
        """Repeat the stage so many times, or `times` to `to_times` times; from 0 on it is optional."""
        if to_times is None:
            return self._repeat("times", times, times)
        repeated = self._repeat("times", max(times, 1) if times == 0 else times, to_times)
        return repeated._change(optional=True) if times == 0 else repeated

    def times_or_more(self, times: int) -> Pattern:
        """Repeat the stage so many times or more."""
        return self._repeat("times_or_more", times, None)

    def greedy(self) -> Pattern:
        """Let the stage take as many records as it can, instead of trying all numbers."""
        self._refuse_negated("greedy")
        self._refuse_group("greedy")
        if not self._last.is_quantified or self._last.inner is Contiguity.RELAXED_ANY:
            what = f"greedy() is for a stage that is repeated without combinations, and {self._last.name!r} is not"
            _refuse(what, "use it after one_or_more(), times(...) or times_or_more(...)")
        return self._change(greedy=True)

    def consecutive(self) -> Pattern:
        """Let the records of a repeated stage follow each other at once."""
        return self._combine("consecutive", Contiguity.STRICT)

    def allow_combinations(self) -> Pattern:
        """Let every choice of records of a repeated stage be a match of its own."""
        return self._combine("allow_combinations", Contiguity.RELAXED_ANY)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all stages that take or forbid records, in order."""
        return tuple(stage.name for top in self.stages for stage in top.walk() if not stage.group)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The conditions that are objects, which may have something to open or to close."""
        stages = [stage for top in self.stages for stage in top.walk()]
        conditions = [each for stage in stages for each in (stage.condition, stage.until) if each is not None]
        return tuple(function for condition in conditions for function in condition.functions)

    @property
    def window_ms(self) -> int | None:
        """The time that a partial match has, None if there is no limit: the shortest that was given."""
        lengths = [stage.within_ms for top in self.stages for stage in top.walk() if stage.within_ms is not None]
        return min(lengths, default=None)

    def check(self) -> None:
        """Raise if the pattern as a whole cannot be looked for."""
        self.skip_strategy.check(set(self.names))
        last, window = self.stages[-1], self.window_ms
        if last.contiguity is Contiguity.NOT_FOLLOW and window is None and last.gap_ms is None:
            what = f"the pattern ends with not_followed_by({last.name!r}) and has no time limit, so it never matches"
            _refuse(what, "add within(...), or another stage")
        gaps = [stage.gap_ms for stage in self.stages if stage.gap_ms is not None]
        if window is not None and any(gap > window for gap in gaps):
            what = "the time since the previous record is longer than that since the first one"
            _refuse(what, "shorten it, or leave it out")

    @property
    def _last(self) -> Stage:
        return self.stages[-1]

    def _change(self, **changes: Any) -> Pattern:
        return replace(self, stages=(*self.stages[:-1], replace(self._last, **changes)))

    def _append(self, name: str | Pattern, contiguity: Contiguity) -> Pattern:
        if contiguity in _NEGATED and self._last.optional:
            what = f"{contiguity.value} {name!r} stands behind {self._last.name!r}, which is optional"
            _refuse(what, "use two patterns, one with and one without the optional stage")
        stage = _grouped(name, contiguity) if isinstance(name, Pattern) else Stage(_checked(name), contiguity)
        pattern = replace(self, stages=(*self.stages, stage))
        names = pattern.names
        twice = sorted({each for each in names if names.count(each) > 1})
        if twice:
            _refuse(f"two stages are named {twice[0]!r}", "give one another name")
        return pattern

    def _repeat(self, call: str, least: int, most: int | None) -> Pattern:
        self._refuse_negated(call)
        if self._last.is_quantified:
            _refuse(f"stage {self._last.name!r} is repeated already", f"leave {call}(...) out")
        if least < 1 or (most is not None and most < least):
            what = f"a stage cannot be repeated {least} to {most} times" if most else f"{least} times is too few"
            raise refused(InvalidArgumentError, what, "give numbers from 1 on, the smaller one first")
        return self._change(least=least, most=most, is_quantified=True)

    def _combine(self, call: str, inner: Contiguity) -> Pattern:
        if not self._last.is_quantified:
            _refuse(f"{call}() is for repeated stages, and {self._last.name!r} is not", "leave it out")
        if self._last.inner is not Contiguity.RELAXED:
            _refuse("consecutive() or allow_combinations() was called before", f"leave {call}() out")
        return self._change(inner=inner)

    def _refuse_negated(self, call: str) -> None:
        if self._last.is_negated:
            _refuse(f"{call}() is not for {self._last.contiguity.value} {self._last.name!r}", "leave it out")

    def _refuse_group(self, call: str) -> None:
        if self._last.group:
            _refuse(f"{call}(...) is for stages, not for groups", "use it within the group")


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise refused(TypeMismatchError, f"{name!r:.100} is not the name of a stage", "pass a text, or a Pattern")
    return name


def _grouped(pattern: Pattern, contiguity: Contiguity) -> Stage:
    stages: Sequence[Stage] = pattern.stages
    if contiguity in _NEGATED:
        _refuse("a group cannot be forbidden", "use next, followed_by or followed_by_any")
    if stages[-1].is_negated:
        _refuse(f"a group cannot end with {stages[-1].contiguity.value} {stages[-1].name!r}", "add a stage")
    return Stage(f"({' '.join(pattern.names)})", contiguity, tuple(stages))


def _refuse(what: str, remedy: str) -> NoReturn:
    raise refused(DefinitionError, what, remedy)
