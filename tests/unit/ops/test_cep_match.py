"""The automaton against a matcher that tries everything, and what Flink's manual promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.cep import AfterMatchSkipStrategy, NearMiss, Pattern, WithinType
from flintstream.errors import IncompatibleStateError, JobError
from flintstream.ops.cep_choices import Choice, Glance
from flintstream.ops.cep_match import Matcher
from flintstream.ops.cep_nodes import compile_pattern
from flintstream.ops.cep_state import Partial, Partials, chain
from flintstream.ops.cep_table import Shelf, encode_partials
from tests.unit.ops.cep_oracle import Oracle, Path, Step, check_skips, pattern_of

SKIPS = [
    AfterMatchSkipStrategy.skip_to_next(),
    AfterMatchSkipStrategy.skip_past_last_event(),
    AfterMatchSkipStrategy.skip_to_first("0"),
    AfterMatchSkipStrategy.skip_to_last("0"),
    AfterMatchSkipStrategy.skip_to_first("1"),
    AfterMatchSkipStrategy.skip_to_last("1"),
]


def path_of(partial: Partial) -> Path:
    return tuple((int(name), event[1]) for _, name, event in reversed(list(chain(partial.link))))


def restarted(partials: Partials) -> Partials:
    """Return partial matches as they are after a restart, by way of columns."""
    shelf = Shelf.read(*encode_partials([partials]))
    assert shelf is not None
    return shelf.take(0)


def glanced(matcher: Matcher, partials: Partials, value: Any) -> Glance:
    """Return what is known of a record after the first look at it."""
    choice = matcher.glance(partials)
    while isinstance(choice, Choice):
        choice = choice.grow(bool(matcher.tests[choice.number](value)))
    return choice


def found(pattern: Pattern, text: str, restart: bool = False) -> list[tuple[int, Path]]:
    """Return what the automaton gives for each record, whose time is its index; with `restart` by way of state."""
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    given: list[tuple[int, Path]] = []
    for index, letter in enumerate(text):
        done, _ = matcher.expire(partials, index)
        seen = glanced(matcher, partials, letter)
        taken = matcher.take(partials, letter, index, seen.known)
        assert taken is None or not seen.is_idle
        done += taken or ()
        given += [(index, path_of(each)) for each in done]
        if restart:
            partials = restarted(partials)
    for time in range(len(text), len(text) + 20):
        given += [(time, path_of(each)) for each in matcher.expire(partials, time)[0]]
    return given


LETTERS = st.sampled_from(["a", "b", "c", "ab", "bc", "abc"])
KINDS = st.sampled_from(["next", "followed_by", "followed_by_any"])
COUNTS = st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 2), (1, None), (2, None), (2, 3)])


@st.composite
def sequences(draw: Any) -> list[Step]:
    """Return stages as users may write them: with every kind of contiguity and quantifier, and with forbidden ones."""
    steps: list[Step] = []
    has_greedy = draw(st.booleans())
    for number in range(draw(st.integers(1, 3))):
        least, most = draw(COUNTS)
        kind = draw(KINDS) if number else "next"
        inner = draw(st.sampled_from(["next", "followed_by", "followed_by_any"]))
        repeated = (least, most) != (1, 1)
        greedy = has_greedy and repeated and inner != "followed_by_any" and draw(st.booleans())
        until = draw(st.sampled_from(["", "", "c"])) if most is None else ""
        optional = draw(st.booleans()) and not (steps and steps[-1].greedy)
        if steps and not steps[-1].optional and not has_greedy and draw(st.integers(0, 3)) == 0:
            steps.append(Step(draw(st.sampled_from(["not_next", "not_followed_by"])), draw(LETTERS)))
        steps.append(Step(kind, draw(LETTERS), least, most, optional, inner, greedy, until))
    if not steps[-1].optional and not has_greedy and draw(st.integers(0, 4)) == 0:
        steps.append(Step("not_next", draw(LETTERS)))
    return [_with_gap(draw, number, step) for number, step in enumerate(steps)]


def _with_gap(draw: Any, number: int, step: Step) -> Step:
    is_plain = not step.negated and (step.least, step.most, step.optional) == (1, 1, False)
    return replace(step, gap=draw(st.integers(1, 3))) if number and is_plain and draw(st.integers(0, 3)) == 0 else step


@st.composite
def absences(draw: Any) -> list[Step]:
    """Return stages of which the last one must not come until the time is over."""
    steps = [step for step in draw(sequences()) if not step.negated]
    steps[-1] = replace(steps[-1], optional=False, greedy=False)
    return [*steps, Step("not_followed_by", draw(LETTERS))]


TEXTS = st.text("abcd", max_size=8)
WITHIN = st.none() | st.integers(1, 6)


@settings(max_examples=400, deadline=None)
@given(steps=sequences(), text=TEXTS, within=WITHIN, restart=st.booleans())
def test_all_matches_are_found_and_none_twice(steps, text, within, restart):
    given = found(pattern_of(steps, within=within), text, restart)
    assert sorted(given) == sorted(Oracle(steps, text, within).matches())
    assert [(end, path[0][1]) for end, path in given] == sorted((end, path[0][1]) for end, path in given)


@settings(max_examples=400, deadline=None)
@given(steps=sequences(), text=TEXTS, within=WITHIN, skip=st.sampled_from(SKIPS), restart=st.booleans())
def test_a_strategy_skips_what_it_says(steps, text, within, skip, restart):
    if skip.pattern_name == "1" and len(steps) == 1:
        return
    check_skips(Oracle(steps, text, within), skip, found(pattern_of(steps, skip, within), text, restart))


@settings(max_examples=300, deadline=None)
@given(steps=absences(), text=TEXTS, within=st.integers(1, 6), skip=st.none() | st.sampled_from(SKIPS[:2]))
def test_what_does_not_come_is_a_match_when_the_time_is_over(steps, text, within, skip):
    steps = [replace(step, gap=None if step.gap is None else min(step.gap, within)) for step in steps]
    oracle, given = Oracle(steps, text, within), found(pattern_of(steps, skip, within), text)
    if skip is None:
        assert sorted(given) == sorted(oracle.matches())
    else:
        check_skips(oracle, skip, given)


def words(pattern: Pattern, *events: str) -> list[str]:
    """Return matches as text; events are named by a letter and a number, and conditions look at the letter."""
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    given = [each for time, event in enumerate(events) for each in matcher.take(partials, event, time) or ()]
    return [" ".join(event[2] for _, _, event in reversed(list(chain(each.link)))) for each in given]


def stage(letter: str) -> Any:
    return lambda value: value[0] == letter


@pytest.mark.parametrize(
    ("contiguity", "expected"),
    [
        ("consecutive", ["a b1 c", "a b2 c", "a b3 c"]),
        ("", ["a b1 b2 b3 c", "a b1 b2 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"]),
        (
            "allow_combinations",
            ["a b1 b2 b3 c", "a b1 b2 c", "a b1 b3 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"],
        ),
    ],
)
def test_contiguity_within_a_repetition(contiguity, expected):
    pattern = Pattern.begin("a").where(stage("a")).followed_by_any("b").where(stage("b")).one_or_more()
    pattern = getattr(pattern, contiguity)() if contiguity else pattern
    pattern = pattern.followed_by("c").where(stage("c"))
    assert sorted(words(pattern, "a", "b1", "d1", "b2", "d2", "b3", "c")) == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (AfterMatchSkipStrategy.no_skip(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_past_last_event(), ["b1 b2 b3 c"]),
        (AfterMatchSkipStrategy.skip_to_first("b"), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"]),
    ],
)
def test_skip_strategies(skip, expected):
    pattern = Pattern.begin("b", skip).where(stage("b")).one_or_more().consecutive().next("c").where(stage("c"))
    assert words(pattern, "b1", "b2", "b3", "c") == expected


def test_a_group_is_repeated_as_a_whole():
    pair = Pattern.begin("a").where(stage("a")).followed_by("b").where(stage("b"))
    pattern = Pattern.begin("s").where(stage("s")).followed_by(pair).times(1, 2).followed_by("e").where(stage("e"))
    assert sorted(words(pattern, "s", "a1", "x", "b1", "y", "a2", "b2", "e")) == ["s a1 b1 a2 b2 e", "s a1 b1 e"]


def test_a_group_that_may_be_left_gives_each_match_once():
    pair = Pattern.begin("a").where(stage("a")).followed_by("b").where(stage("b"))
    pattern = Pattern.begin(pair).one_or_more().followed_by("e").where(stage("e"))
    assert words(pattern, "a1", "b1", "x", "y", "z", "e") == ["a1 b1 e"]


def test_a_condition_sees_what_was_taken_before():
    def rises(value, ctx):
        return all(value[1] > earlier[1] for earlier in ctx.get_events_for_pattern("r"))

    pattern = Pattern.begin("r").where(rises).times(3)
    assert words(pattern, "r1", "r3", "r2", "r4") == ["r1 r3 r4"]


def test_one_look_tells_whether_a_record_changes_anything_and_asks_each_condition_once():
    asked: list[str] = []

    def counted(letter: str) -> Any:
        return lambda value: asked.append(letter) or value[0] == letter

    pattern = Pattern.begin("a").where(counted("a")).followed_by("b").where(counted("b"))
    pattern = pattern.followed_by("c").where(counted("c"))
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    told: list[tuple[str, bool, list[str]]] = []
    for time, event in enumerate(["a1", "x", "b1", "a2", "a3", "x", "c", "b2"]):
        asked.clear()
        seen = glanced(matcher, partials, event)
        assert (matcher.take(partials, event, time, seen.known) is None) == seen.is_idle
        told.append((event, seen.is_idle, sorted(asked)))
    assert told == [
        ("a1", False, ["a"]),
        ("x", True, ["a", "b"]),
        ("b1", False, ["a", "b"]),
        ("a2", False, ["a", "c"]),
        ("a3", False, ["a", "b", "c"]),
        ("x", True, ["a", "b", "c"]),
        ("c", False, ["a", "b", "c"]),
        ("b2", False, ["a", "b"]),
    ]


def test_a_look_that_would_need_the_partial_match_tells_nothing():
    pattern = Pattern.begin("r").where(lambda value, ctx: True).times(2)
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    matcher.take(partials, "r1", 0)
    assert matcher.glance(partials) == Glance(False, [None])


def test_matches_that_wait_are_given_once_if_nothing_is_skipped_any_more():
    pattern = Pattern.begin("a").where(stage("a")).followed_by("b").where(stage("b")).within(5)
    matcher, partials = Matcher(compile_pattern(pattern), AfterMatchSkipStrategy.no_skip()), Partials()
    matcher.take(partials, "a1", 0)
    event = (9, 1, "a0")
    partials.done = [Partial("", event, (None, "a", event))]
    assert matcher.drop(partials, 5) and not partials.runs
    assert matcher.take(partials, "a2", 6) == [Partial("", event, (None, "a", event))]
    assert partials.done == [] and len(partials.runs) == 1


def test_only_partial_matches_whose_time_is_over_are_dropped():
    pattern = Pattern.begin("a").where(stage("a")).followed_by("b").where(stage("b")).within(5)
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    for time, event in enumerate(["a0", "a1", "x", "a3"]):
        matcher.take(partials, event, time)
    glanced(matcher, partials, "x")
    lefts = [(matcher.drop(partials, time), [run.start[2] for run in partials.runs]) for time in (4, 5, 7)]
    assert lefts == [(True, ["a0", "a1", "a3"]), (True, ["a1", "a3"]), (True, ["a3"])]
    assert partials.glance is None
    assert not matcher.drop(partials, 8)


def test_what_may_not_follow_is_a_match_when_the_time_is_over():
    pattern = Pattern.begin("a").where(stage("a")).not_followed_by("b").where(stage("b")).within(3)
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    assert (matcher.take(partials, "a1", 0), matcher.take(partials, "c", 2)) == ([], None)
    assert matcher.expiry(partials) == 3
    done, over = matcher.expire(partials, 3)
    assert ([event[2] for _, _, event in chain(done[0].link)], over, partials.runs) == (["a1"], [], [])
    assert matcher.take(partials, "a2", 4) == matcher.take(partials, "b", 5) == []
    assert partials.runs == []


def test_time_since_the_previous_record():
    between = WithinType.PREVIOUS_AND_CURRENT
    pattern = Pattern.begin("a").where(stage("a")).followed_by("b").where(stage("b")).within(2, between)
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    matcher.take(partials, "a", 0)
    assert matcher.expiry(partials) == 2
    _, over = matcher.expire(partials, 2)
    assert len(over) == 1 and partials.runs == []


def test_near_misses_say_where_and_why():
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(stage("a"))
    pattern = pattern.next("b").where(stage("b")).not_followed_by("n").where(stage("n")).followed_by("c")
    pattern = pattern.where(stage("c")).within(10)
    misses: list[NearMiss] = []
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy, misses.append), Partials()
    for time, event in enumerate(["a1", "x", "a2", "b2", "n", "a3", "b3", "a4", "b4", "c", "a5"]):
        matcher.take(partials, event, time)
    matcher.expire(partials, 99)
    assert misses == [
        NearMiss({"a": ["a1"]}, "b", "condition", "x"),
        NearMiss({"a": ["a2"], "b": ["b2"]}, "n", "not", "n"),
        NearMiss({"a": ["a5"]}, "b", "timeout", None),
    ]


def test_a_partial_match_that_another_ends_is_a_near_miss():
    skip = AfterMatchSkipStrategy.skip_past_last_event()
    pattern = Pattern.begin("a", skip).where(stage("a")).times(2).next("b").where(stage("b"))
    misses: list[NearMiss] = []
    matcher, partials = Matcher(compile_pattern(pattern), skip, misses.append), Partials()
    for time, event in enumerate(["a1", "a2", "b"]):
        matcher.take(partials, event, time)
    assert misses == [NearMiss({"a": ["a2"]}, "a", "skipped", "b")]


def test_long_chains_survive_a_restart():
    pattern = Pattern.begin("a").where(stage("a")).one_or_more().greedy().next("b").where(stage("b"))
    matcher, partials = Matcher(compile_pattern(pattern), AfterMatchSkipStrategy.skip_past_last_event()), Partials()
    for time in range(5_000):
        partials.runs = partials.runs[:2]
        matcher.take(partials, "a", time)
    restored = restarted(partials)
    assert [len(list(chain(run.link))) for run in restored.runs] == [len(list(chain(r.link))) for r in partials.runs]


def test_a_place_that_the_pattern_no_longer_has_is_refused():
    matcher, partials = Matcher(compile_pattern(Pattern.begin("a")), AfterMatchSkipStrategy.no_skip()), Partials()
    event = (0, 0, "a")
    partials.runs = [Partial("7:1", event, (None, "a", event))]
    with pytest.raises(IncompatibleStateError, match="7:1"):
        matcher.take(partials, "a", 1)


def test_a_strategy_can_fail_if_there_is_nothing_to_skip_to():
    skip = AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    pattern = Pattern.begin("a", skip).where(stage("a")).next("b").where(stage("b")).optional().next("c")
    with pytest.raises(JobError, match="cannot skip to 'b'"):
        words(pattern.where(stage("c")), "a", "c")
