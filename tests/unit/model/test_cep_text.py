"""Patterns as text: the same as the ones that are built, and nothing but conditions."""

from __future__ import annotations

import copy
import re
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from flintstream.cep import Pattern
from flintstream.errors import DefinitionError, InvalidArgumentError, JobError, TypeMismatchError
from flintstream.ops.cep_match import Matcher
from flintstream.ops.cep_nodes import compile_pattern
from flintstream.ops.cep_state import Partials, chain
from flintstream.state.codec import encode


def found(text: str, *values: Any) -> list[list[Any]]:
    """Return the matches in records `{"n": value}`, one each minute; the pattern goes through a pickle first."""
    pattern = copy.deepcopy(cloudpickle.loads(cloudpickle.dumps(Pattern.parse(text))))
    matcher, partials = Matcher(compile_pattern(pattern), pattern.skip_strategy), Partials()
    matches: list[Any] = []
    for index, value in enumerate(values):
        matcher.expire(partials, index * 60_000)
        matches += matcher.take(partials, {"n": value}, index * 60_000) or []
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
    ("text", "place", "message"),
    [
        ("FIND (A)", "at 'FIND (A)', line 1, column 1", "write PATTERN"),
        ("PATTERN ()", "at ')', line 1, column 10", "at least one variable"),
        ("PATTERN (A | B)", "at '| B)', line 1, column 12", "no | or groups"),
        ("PATTERN (A B", "at its end, line 1, column 13", "no | or groups"),
        ("PATTERN (A) DEFINE B AS n = 1", "at 'B AS n = 1', line 1, column 20", "define one of A"),
        ("PATTERN (A)\nDEFINE A AS n = 1,\n A AS n = 2", "at 'A AS n = 2', line 3, column 2", "define it once"),
        ("PATTERN (A) DEFINE A AS n = ", "at 'n =', line 1, column 25", "write a condition on fields"),
        ("PATTERN (A) DEFINE A AS n <> 1 n = 2", "at 'n = 2', line 1, column 32", "write a condition on fields"),
        ("PATTERN (A) DEFINE A AS __import__('os')", "at \"__import__('os')\"", "use FIRST, LAST"),
        ("PATTERN (A) DEFINE A AS 1 = 1 AND n.__class__ = 1", "at 'n.__class__ = 1'", "write variable.field"),
        ("PATTERN (A) DEFINE A AS 9 ** 9 = n", "at '", "use fields, numbers"),
        ("PATTERN (A) DEFINE A AS [x for x in n]", "at '[x for", "use fields, numbers"),
        ("PATTERN (A) DEFINE n = 1", "at 'n = 1', line 1, column 20", "write DEFINE A AS"),
        ("PATTERN (A) WITHIN soon", "at 'soon', line 1, column 20", "length of time"),
        ("PATTERN (A) LIMIT 3", "at 'LIMIT 3', line 1, column 13", "nothing more"),
        ("AFTER MATCH SKIP TO BED PATTERN (A)", "at 'TO BED PATTERN", "TO NEXT ROW"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_place(text, place, message):
    with pytest.raises(InvalidArgumentError) as raised:
        Pattern.parse(text)
    assert f"the pattern's text is wrong {place}" in str(raised.value)
    assert message in str(raised.value)
    assert re.fullmatch(r"test_cep_text.py:\d+", raised.value.location)


def test_what_a_text_says_must_be_a_pattern():
    for text, message in [("PATTERN (A A)", "two stages are named 'A'"), ("PATTERN (A+ B?)", "greedy")]:
        with pytest.raises(DefinitionError, match=message):
            Pattern.parse(text)
    with pytest.raises(TypeMismatchError, match="3 is not a text"):
        Pattern.parse(3)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("NOT (n > 1 AND FALSE)", [None, 1], [None, 1]),
        ("NOT (n > 1 OR TRUE)", [None, 1], []),
        ("n NOT IN (1, 2)", [None, 1, 3], [3]),
        ("NOT n IN (1, 2)", [None, 1, 3], [3]),
        ("n > 1 OR n IS NULL", [None, 1, 3], [None, 3]),
        ("n = -1 OR 2 < n", [-1, 2, 3], [-1, 3]),
        ("n = 1.0", [1, 1.0, True, "1"], [1, 1.0, True]),
        ("n = 'a' OR n <> 'b'", ["a", "b", 3], ["a", 3]),
        ("1 < n < 4", [0, 2, 5], [2]),
        ("n % 2 = 1", [1, 2, 3], [1, 3]),
        ("n >= 9007199254740993", [9007199254740992, 9007199254740993, 9007199254740992.0], [9007199254740993]),
    ],
)
def test_columns_say_what_records_say(text, values, expected):
    condition = next(iter(Pattern.parse(f"PATTERN (A) DEFINE A AS {text}").stages)).condition
    assert [value for value in values if condition.test({"n": value})] == expected
    for some in (values, [each for each in values if type(each) in (int, type(None))]):
        array, kind = encode([{"n": value} for value in some])
        if pa.types.is_struct(array.type) and kind[0] == "dict" and (found := condition.columns(array)) is not None:
            assert [value for value, holds in zip(some, found.to_pylist(), strict=True) if holds] == [
                each for each in expected if each in some
            ]


def test_a_field_that_no_record_has_is_an_error():
    with pytest.raises(JobError, match="no field 'm'"):
        found("PATTERN (A) DEFINE A AS m = 1", 1)
