"""What Flink gives: results that its own tests of the automaton expect, for patterns that are easily got wrong."""

from __future__ import annotations

import pytest

from flintstream.cep import Pattern
from flintstream.errors import JobError
from flintstream.ops.cep_match import Matcher
from flintstream.ops.cep_nodes import compile_pattern
from flintstream.ops.cep_state import Partials, chain
from tests.patterns import letters


def found(pattern: Pattern, events: str) -> tuple[list[str], Partials]:
    """Return all matches in events that come one each millisecond, or at the time that stands behind an `@`."""
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    matches: list[str] = []
    for index, event in enumerate(events.split()):
        name, _, time = event.partition("@")
        now = int(time or index)
        done, _ = matcher.expire(partials, now)
        done += matcher.take(partials, name, now) or []
        matches += [" ".join(link[2][2] for link in reversed(list(chain(each.link)))) for each in done]
    return matches, partials


NOT_C = "begin('a').not_followed_by('c')"
FORBIDDEN = "a1 b1 c1 b4 b5 b6 d1"
AFTER_ALL = ["a1 b4 b5 b6 d1", "a1 b4 b5 d1", "a1 b4 d1", "a1 b5 b6 d1", "a1 b5 d1", "a1 b6 d1"]
BEFORE_ALL = ["a1 b1 b4 b5 b6 d1", "a1 b1 b4 b5 d1", "a1 b1 b4 d1", "a1 b1 d1"]
BEFORE_ANY = [*BEFORE_ALL, "a1 b1 b4 b6 d1", "a1 b1 b5 b6 d1", "a1 b1 b5 d1", "a1 b1 b6 d1"]

C_A_STAR = "begin('c').followed_by('a').one_or_more().optional().greedy()"
GREEDY = [
    (
        "begin('c').followed_by('a').one_or_more().optional().greedy().followed_by('d')",
        "c a1 a2 a3 d",
        ["c a1 a2 a3 d"],
    ),
    (f"{C_A_STAR}.followed_by('d')", "c x a1 x a2 d", ["c a1 a2 d"]),
    (f"{C_A_STAR}.followed_by('d')", "c x d", ["c d"]),
    ("begin('c').followed_by('a').one_or_more().greedy().followed_by('d')", "c x d", []),
    (f"{C_A_STAR}.until(LOUD).followed_by('d')", "c a1 a2 a3 a! d", ["c a1 a2 a3 d"]),
    (f"{C_A_STAR}.until(LOUD).followed_by('d')", "c a! a1 a2 a3 d", ["c d"]),
    ("begin('c').followed_by('a').times(2, 5).greedy().followed_by('d')", "c a1 a2 a3 d", ["c a1 a2 a3 d"]),
]
UNTIL = [
    ("begin('c').followed_by('a').one_or_more().until(X).followed_by('x')", "c a1 a2 x a3", ["c a1 a2 x", "c a1 x"]),
    (
        "begin('c').followed_by('a').one_or_more().allow_combinations().until(X).followed_by('x')",
        "c a1 a2 a3 x a4",
        ["c a1 a2 a3 x", "c a1 a2 x", "c a1 a3 x", "c a1 x"],
    ),
    (
        "begin('c').followed_by('a').one_or_more().optional().allow_combinations().until(X).followed_by('x')",
        "c a1 a2 a3 x a4",
        ["c a1 a2 a3 x", "c a1 a2 x", "c a1 a3 x", "c a1 x", "c x"],
    ),
    (
        "begin('c').followed_by('a').one_or_more().optional().consecutive().until(X).followed_by('x')",
        "c a1 a2 x a3",
        ["c a1 a2 x", "c a1 x", "c x"],
    ),
    (
        "begin('c').followed_by_any('a').one_or_more().until(X)",
        "c a1 a2 x a3",
        ["c a1", "c a1 a2", "c a2", "c a3"],
    ),
]
NOT_B_THEN_C = "begin('a').not_followed_by('b').followed_by_any('c')"
NOT = [
    ("begin('a').not_next('b').followed_by_any('c').followed_by('d')", "a c1 b c2 d", ["a c1 d", "a c2 d"]),
    ("begin('a').not_next('b').followed_by('c').followed_by('d')", "a b c1 c2 d", []),
    ("begin('a').followed_by_any('c').followed_by_any('d').not_next('b')", "a c1 c2 d b", []),
    ("begin('a').not_followed_by('b').followed_by_any('c').followed_by('d')", "a c1 b c2 d", ["a c1 d"]),
    ("begin('a').not_followed_by('b').followed_by_any('c').optional().followed_by('d')", "a c1 b c2 d", ["a c1 d"]),
    ("begin('a').not_followed_by('b').followed_by_any('c').optional()", "a c1 b c2", ["a", "a c1"]),
    ("begin('a').followed_by_any('b').times(2).not_followed_by('c').followed_by('d')", "a b1 c b2 d", []),
    (f"{NOT_B_THEN_C}.times(2).optional().followed_by('d')", "a d1 b c1 c2 d2", ["a d1"]),
    *(
        (f"begin('a').{how}('b').one_or_more(){inner}.not_followed_by('c').followed_by('d')", FORBIDDEN, expected)
        for how, inner, expected in [
            ("followed_by", "", []),
            ("followed_by", ".allow_combinations()", []),
            ("followed_by_any", "", AFTER_ALL),
            ("followed_by_any", ".allow_combinations()", [*AFTER_ALL, "a1 b4 b6 d1"]),
        ]
    ),
    *(
        (f"{NOT_C}.{how}('b').one_or_more(){rest}.followed_by('d')", FORBIDDEN, expected)
        for how in ("followed_by", "followed_by_any")
        for optional in ("", ".optional()")
        for rest, expected in ((optional, BEFORE_ALL), (f"{optional}.allow_combinations()", BEFORE_ANY))
    ),
]  # fmt: skip
SKIP = [
    ("begin('a', no_skip()).times(3)", "a1 a2 a3 a4 a5 a6", ["a1 a2 a3", "a2 a3 a4", "a3 a4 a5", "a4 a5 a6"]),
    ("begin('a', skip_past_last_event()).times(3)", "a1 a2 a3 a4 a5 a6", ["a1 a2 a3", "a4 a5 a6"]),
    ("begin('a').followed_by_any('b')", "a1 b1 a2 b2", ["a1 b1", "a1 b2", "a2 b2"]),
    ("begin('a', skip_to_next()).followed_by_any('b')", "a1 b1 a2 b2", ["a1 b1", "a2 b2"]),
    ("begin('a').next('b').one_or_more()", "a1 b1 b2 b3", ["a1 b1", "a1 b1 b2", "a1 b1 b2 b3"]),
    ("begin('a', skip_to_next()).next('b').one_or_more()", "a1 b1 b2 b3", ["a1 b1"]),
    (
        "begin('a', skip_past_last_event()).followed_by_any('b').followed_by_any('c').followed_by('d')",
        "a1 a2 b1 b2 c1 c2 d1 d2",
        ["a1 b1 c1 d1"],
    ),
    ("begin('a', skip_past_last_event()).next('b')", "a1 c a2 b2", ["a2 b2"]),
    ("begin('a', skip_to_first('b')).next('b').one_or_more().next('c')", "a1 b1 b2 c1", ["a1 b1 b2 c1"]),
]


@pytest.mark.parametrize(("text", "events", "expected"), [*GREEDY, *UNTIL, *NOT, *SKIP])
def test_flink_gives_the_same(text, events, expected):
    assert sorted(found(letters(text), events)[0]) == sorted(expected)


def test_groups_repeat_as_in_flink():
    group = "begin('c').followed_by(begin('a').followed_by('b')){times}.followed_by('d')"
    events = "c a1 x b1 a2 x b2 d"
    for times, expected in [
        (".times(2)", ["c a1 b1 a2 b2 d"]),
        (".one_or_more()", ["c a1 b1 a2 b2 d", "c a1 b1 d"]),
        (".times(1, 2).optional()", ["c a1 b1 a2 b2 d", "c a1 b1 d", "c d"]),
        (".times(2).consecutive()", ["c a1 b1 a2 b2 d"]),
    ]:
        assert sorted(found(letters(group.format(times=times)), events)[0]) == expected


def test_a_match_that_nothing_forbids_ends_with_its_time():
    first, previous = ("begin('a').not_followed_by('b').within(" + rest + ")" for rest in ("3", "3, previous"))
    for text in (first, previous):
        assert found(letters(text), "a1@0 c1@1 b1@4")[0] == ["a1"]
        assert found(letters(text), "a1@0 c1@1 b1@2 x@9")[0] == []


def test_partial_matches_are_gone_with_their_time():
    for text in ("begin('a').followed_by('b').times(2).followed_by('c').within(5)",
                 "begin('a').followed_by('b').one_or_more().optional().followed_by('c').within(5)"):  # fmt: skip
        matches, partials = found(letters(text), "a1@0 b1@1 b2@2 c1@3 x@100")
        assert "a1 b1 b2 c1" in matches
        assert (partials.runs, partials.done) == ([], [])


def test_skipping_to_what_a_match_begins_with_fails_only_if_asked_to():
    for call in ("skip_to_first", "skip_to_last"):
        text = f"begin('a', {call}('a')).times(1).next('b')"
        assert found(letters(text), "a1 b1")[0] == ["a1 b1"]
        with pytest.raises(JobError, match="begins with it"):
            found(letters(text.replace("')).times", "').throw_exception_on_miss()).times")), "a1 b1")
