"""Outputs compared, and digests of outputs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import Change, Row, RowKind, compare_outputs, output_hash
from flintstream.errors import InvalidArgumentError, TypeMismatchError

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)))


@dataclass(frozen=True)
class Count:
    word: str
    n: int


def test_rows_of_one_key_are_compared_and_the_last_of_them_counts():
    a = [Row(word="x", n=1), Row(word="x", n=2), Row(word="y", n=5), Row(word="z", n=1)]
    b = [Row(word="x", n=2), Row(word="y", n=6), Row(word="w", n=9)]
    found = compare_outputs(a, b, "word", names=("old", "new"), sink="counts")
    assert (found.same, found.only_a, found.only_b) == (1, [Row(word="z", n=1)], [Row(word="w", n=9)])
    assert [(each.key, each.a.n, each.b.n) for each in found.different] == [(("y",), 5, 6)]
    assert not found.is_same
    assert str(found).splitlines() == [
        "counts: 1 rows are the same, 1 only in old, 1 only in new, 1 differ",
        "  only in old",
        "    word  n",
        "    z     1",
        "  only in new",
        "    word  n",
        "    w     9",
        "  differ",
        "    word  n (old)  n (new)",
        "    y     5        6",
    ]
    tables = {name: table.to_pylist() for name, table in found.tables().items()}
    assert tables == {
        "only_a": [{"word": "z", "n": 1}],
        "only_b": [{"word": "w", "n": 9}],
        "different": [{"word": "y", "n_old": 5, "n_new": 6}],
    }


@pytest.mark.parametrize("key", ["word", 0, ["word"], [0], lambda row: row.word])
def test_a_key_is_named_placed_or_computed(key):
    found = compare_outputs([Count("x", 1)], [Count("x", 2)], key)
    assert [each.key for each in found.different] == [("x",)]


def test_what_takes_back_a_row_removes_its_key():
    a = [Change(RowKind.INSERT, ("x", 1)), Change(RowKind.DELETE, ("x", 1)), Change(RowKind.INSERT, ("y", 1))]
    b = [Row.of_kind(RowKind.UPDATE_BEFORE, "y", 0), ("y", 1)]
    assert compare_outputs(a, b, "f0").is_same


def test_without_a_key_whole_rows_are_compared_as_often_as_they_came():
    found = compare_outputs(["x", "y", "x"], ["x", "z"])
    assert (found.same, found.only_a, found.only_b) == (1, ["y", "x"], ["z"])
    assert compare_outputs([math.nan], [math.nan]).is_same


def test_a_long_report_is_cut_and_says_so():
    lines = str(compare_outputs(range(25), [])).splitlines()
    assert lines[1] == "  only in A, the first 10 of 25"
    assert len(lines) == 2 + 1 + 10


def test_an_empty_comparison_has_empty_tables():
    found = compare_outputs([], [], "x")
    assert found.is_same
    assert {name: table.num_rows for name, table in found.tables().items()} == {
        "only_a": 0,
        "only_b": 0,
        "different": 0,
    }


@pytest.mark.parametrize("key", [1.5, [], ["x", None], True])
def test_what_cannot_be_a_key_is_refused_with_the_users_line(key):
    with pytest.raises(TypeMismatchError, match=r"names no fields.*test_compare\.py:\d+"):
        compare_outputs([], [], key)


@pytest.mark.parametrize(("key", "told"), [("w", "no field 'w'"), (2, "only 2 fields")])
def test_a_row_without_the_key_is_told(key, told):
    with pytest.raises(InvalidArgumentError, match=told):
        compare_outputs([("x", 1)], [], key)


@given(ROWS, ROWS)
def test_rows_are_conserved(a, b):
    found = compare_outputs(a, b)
    assert Counter(a) - Counter(found.only_a) == Counter(b) - Counter(found.only_b)
    assert (found.same + len(found.only_a), found.same + len(found.only_b)) == (len(a), len(b))
    assert (
        found.is_same == (Counter(a) == Counter(b)) == (output_hash(a, ordered=False) == output_hash(b, ordered=False))
    )
    assert (a == b) == (output_hash(a) == output_hash(b))


@given(ROWS, ROWS)
def test_keys_are_conserved(a, b):
    found = compare_outputs(a, b, 0)
    left, right = dict(a), dict(b)
    assert dict(found.only_a) == {key: n for key, n in left.items() if key not in right}
    assert dict(found.only_b) == {key: n for key, n in right.items() if key not in left}
    both = left.keys() & right.keys()
    assert {each.key[0] for each in found.different} == {key for key in both if left[key] != right[key]}
    assert found.same == sum(left[key] == right[key] for key in both)


def test_a_digest_is_the_same_in_every_release():
    rows = [("a", 1), Row(n=1.5)]
    assert output_hash(rows) == "637b76512a698fb4098bf6582a4d7a68d581c66c5e73afd1e6f3b0843fd6b341"
    assert output_hash(rows, ordered=False) == "baf77c3c693cfe925d89b8327b33e502ec468d1597941750f818655e93ad5dc5"
