"""Patterns as text: the same as the ones that are built, and nothing but conditions."""

from __future__ import annotations

import copy
from typing import Any

import cloudpickle
import pytest

from flintstream.cep import Pattern
from flintstream.errors import DefinitionError, InvalidArgumentError, JobError
from flintstream.ops.cep_match import Matcher, Partials, chain
from flintstream.ops.cep_nodes import compile_pattern


def found(text: str, *values: Any) -> list[list[Any]]:
    """Return the matches in records `{"n": value}`, one each minute; the pattern goes through a pickle first."""
    pattern = copy.deepcopy(cloudpickle.loads(cloudpickle.dumps(Pattern.parse(text))))
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    matches: list[Any] = []
    for index, value in enumerate(values):
        matcher.expire(partials, index * 60_000)
        matches += matcher.take(partials, {"n": value}, index * 60_000)
    return [[event[2]["n"] for _, _, event in reversed(list(chain(match.link)))] for match in matches]


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("PATTERN (A B) DEFINE A AS n = 1, B AS n = 2", [1, 2, 3, 1, 3, 2], [[1, 2]]),
        ("PATTERN (A B+ C) DEFINE A AS n < 2, B AS n > 2, C AS n = 2", [1, 3, 4, 2], [[1, 3, 4, 2]]),
        ("pattern (A B* C) define A as n < 2, B as n > 2, C as n = 2", [1, 2, 1, 5, 2], [[1, 2], [1, 5, 2]]),
        ("PATTERN (A B? C) DEFINE A AS n = 1, B AS n = 2, C AS n = 3", [1, 3, 1, 2, 3], [[1, 3], [1, 2, 3]]),
        ("PATTERN (A{2} B) DEFINE A AS n = 1, B AS n <> 1", [1, 1, 1, 2], [[1, 1, 2]]),
        ("PATTERN (A{2,} B) DEFINE A AS n = 1, B AS n <> 1", [1, 2, 1, 1, 1, 2], [[1, 1, 1, 2]]),
        ("PATTERN (A{1,2} B) DEFINE A AS n = 1, B AS n = 2", [1, 1, 2], [[1, 1, 2]]),
        ("PATTERN (A B) WITHIN 1 minute DEFINE A AS n = 1, B AS n = 2", [1, 2], []),
        ("PATTERN (A B) WITHIN INTERVAL '2' MINUTE DEFINE A AS n = 1, B AS n = 2;", [1, 2], [[1, 2]]),
        (
            "PATTERN (A B+ C) DEFINE B AS n > LAST(B.n, 1) OR LAST(B.n, 1) IS NULL, C AS n < A.n",
            [4, 5, 6, 1],
            [[4, 5, 6, 1]],
        ),
        ("PATTERN (A B) DEFINE A AS n IS NOT NULL, B AS n - A.n > 20", [10, 20, 45, None], [[20, 45]]),
        (
            "PATTERN (A{3} B) DEFINE A AS n > 0, B AS n > AVG(A.n) AND n < SUM(A.n) AND COUNT(A.n) = 3",
            [1, 2, 3, 5],
            [[1, 2, 3, 5]],
        ),
        ("PATTERN (A+ B) DEFINE A AS n IN (1, 2), B AS n = FIRST(A.n) + MAX(A.n)", [1, 2, 3], [[1, 2, 3]]),
        ("PATTERN (A B) DEFINE A AS n = 'it''s', B AS NOT n = 'x, B AS'", ["it's", "y"], [["it's", "y"]]),
        ("PATTERN (A B) DEFINE B AS NOT n > A.n", [1, None, 2, 1], [[2, 1]]),
        ("PATTERN (A B) DEFINE B AS n + A.n > 0 OR n = 9", [None, 9, 8, 7], [[None, 9], [8, 7]]),
        ("AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)", [1, 2, 3], [[1, 2], [2, 3]]),
        ("AFTER MATCH SKIP TO LAST B PATTERN (A B)", [1, 2, 3], [[1, 2], [2, 3]]),
        ("AFTER MATCH SKIP TO FIRST B PATTERN (A B)", [1, 2, 3], [[1, 2], [2, 3]]),
        ("AFTER MATCH SKIP PAST LAST ROW PATTERN (A B)", [1, 2, 3], [[1, 2]]),
        ("PATTERN (A B)", [1, 2, 3], [[1, 2]]),
    ],
)
def test_a_text_means_what_it_says(text, values, expected):
    assert found(text, *values) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("FIND (A)", InvalidArgumentError, "is not a pattern's text"),
        ("PATTERN ()", InvalidArgumentError, "at least one variable"),
        ("PATTERN (A | B)", InvalidArgumentError, r"no \| or groups"),
        ("PATTERN (A A)", DefinitionError, "two stages are named 'A'"),
        ("PATTERN (A) DEFINE B AS n = 1", InvalidArgumentError, "define one of A"),
        ("PATTERN (A) DEFINE A AS n = ", InvalidArgumentError, "write a condition on fields"),
        ("PATTERN (A) DEFINE A AS __import__('os')", InvalidArgumentError, "use FIRST, LAST"),
        ("PATTERN (A) DEFINE A AS n.__class__ = 1", InvalidArgumentError, "write variable.field"),
        ("PATTERN (A) DEFINE A AS 9 ** 9 = n", InvalidArgumentError, "use fields, numbers"),
        ("PATTERN (A) DEFINE A AS [x for x in n]", InvalidArgumentError, "use fields, numbers"),
        ("PATTERN (A) WITHIN soon", InvalidArgumentError, "length of time"),
        ("AFTER MATCH SKIP TO BED PATTERN (A)", InvalidArgumentError, "TO NEXT ROW"),
        ("PATTERN (A+ B?)", DefinitionError, "greedy"),
    ],
)
def test_what_is_no_pattern_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        Pattern.parse(text)


def test_a_field_that_no_record_has_is_an_error():
    with pytest.raises(JobError, match="no field 'm'"):
        found("PATTERN (A) DEFINE A AS m = 1", 1)
