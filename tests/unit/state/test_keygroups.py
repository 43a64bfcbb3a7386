"""Hashes of keys: the same number for a value and for a column of values, today and in every release to come."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.row import Row
from flintstream.state.classes import reference_to
from flintstream.state.codec import encode, encode_pickled
from flintstream.state.keygroups import group_range, hash_column, hash_key, key_groups, partition_of
from tests.shown import name_of
from tests.unit.values import INDIA, Colour, Frozen, Level, Noted, Point, key_columns, law


@law
@given(key_columns(max_size=6), st.data())
def test_a_column_is_hashed_as_its_values_are(keys: list[Any], data: st.DataObject) -> None:
    array, kind = encode(keys)
    wanted = [hash_key(key) for key in keys]
    assert hash_column(array, kind).tolist() == wanted
    start = data.draw(st.integers(0, len(keys)))
    stop = data.draw(st.integers(start, len(keys)))
    assert hash_column(array.slice(start, stop - start), kind).tolist() == wanted[start:stop]
    assert hash_column(encode_pickled(keys), "pickle").tolist() == wanted


@law
@given(st.lists(st.text(max_size=40) | st.just(""), max_size=20), st.integers(0, 20))
def test_texts_of_any_length_are_hashed_alike_in_columns(texts: list[str], start: int) -> None:
    wanted = [hash_key(text) for text in texts[start:]]
    for dtype in (pa.string(), pa.large_string()):
        assert hash_column(pa.array(texts, dtype)[start:], "str").tolist() == wanted
    data = [text.encode() for text in texts]
    assert hash_column(pa.array(data, pa.binary())[start:], "bytes").tolist() == list(map(hash_key, data[start:]))


def test_small_integers_of_other_tools_are_hashed_as_numbers() -> None:
    assert hash_column(pa.array([-1, 5], pa.int8()), "int").tolist() == [hash_key(-1), hash_key(5)]


EQUAL = [
    (1, 1.0, True, Decimal(1), Decimal("1.00"), Fraction(1), Level.LOW, np.int32(1), np.float32(1)),
    (0, 0.0, -0.0, False),
    (Row(a=1, b=2), Row(b=2, a=1)),
    (-7, -7.0),
    (0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5)),
    (Decimal("0.1"), Decimal("0.10"), Fraction(1, 10)),
    (2**63, 2.0**63, Decimal(2**63)),
    (2**70, 2.0**70),
    ((1, "a"), (1.0, "a"), Point(1, "a")),
    (frozenset({"a", "b", "c"}), frozenset({"c", "b", "a"})),
    (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 5, 30, tzinfo=INDIA)),
    (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, fold=1)),
    (Frozen("a", 1), Frozen("a", 1.0)),
    (Noted("a", "first"), Noted("a", "second")),
]


@pytest.mark.parametrize("values", EQUAL, ids=name_of)
def test_equal_keys_have_equal_hashes(values: tuple[Any, ...]) -> None:
    assert all(value == values[0] for value in values), "the example is wrong"
    assert {hash_key(value) for value in values} == {hash_key(values[0])}
    assert {int(hash_column(*encode([value]))[0]) for value in values} == {hash_key(values[0])}


def test_whether_equal_parts_are_one_object_does_not_matter() -> None:
    text, copy = "".join(["shared", "!"]), "".join(["shared", "!"])
    assert text is not copy
    for build in (lambda a, b: Point(a, b), lambda a, b: frozenset({(1, a), (2, b)}), lambda a, b: {"x": a, "y": b}):
        assert hash_key(build(text, text)) == hash_key(build(text, copy))


PINNED = [
    (None, 2319158153093106379),
    (0, 0),
    (1, 6238072747940578789),
    (-1, 13029008266876403067),
    (2**63 - 1, 6514504133438201533),
    (2**64, 4218396696930461991),
    (0.5, 16192442704721913407),
    (float("nan"), 1012684003412038122),
    (float("inf"), 4938185425950047682),
    ("", 3679140511245385003),
    ("a", 6342628465348793535),
    ("sensor_12", 8259241217207593643),
    ("größer", 7119520650912477923),
    ("\ud800", 12829773239693617823),
    (b"", 15363409399961184523),
    (b"bytes", 5720726406399615544),
    ((), 9318099289252929519),
    ((1, "a"), 4832620575479650735),
    (Row(a=1, b="a"), 4832620575479650735),
    (Frozen("a", 1), 4238747543602208497),
    (Colour.BLUE, 9428806226936972658),
    (frozenset({"a", "b"}), 9421463579874518062),
    (Decimal("0.1"), 9007451366487196689),
    (dt.date(2026, 1, 1), 5857915068410285655),
    (dt.datetime(2026, 1, 1, 12), 10028348745091160917),
    (dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC), 14448042901772212297),
]


@pytest.mark.parametrize(("key", "number"), PINNED, ids=[name_of(key) for key, _ in PINNED])
def test_hashes_never_change(key: Any, number: int) -> None:
    # A number here that must be changed means that the state of every running job would be looked for elsewhere.
    assert hash_key(key) == number


def test_classes_and_hashes_are_the_same_in_another_process() -> None:
    @dataclass(frozen=True)
    class Local:
        a: int

    program = """
import json, sys
from flintstream.state.classes import class_of
from flintstream.state.keygroups import hash_key
keys = [frozenset({"a", "b", "c"}), ("x", 2.5), class_of(json.load(sys.stdin))(7)]
print([hash_key(key) for key in keys], keys[2])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(reference_to(Local)),
        capture_output=True,
        text=True,
        check=True,
    )
    here = [hash_key(key) for key in (frozenset({"a", "b", "c"}), ("x", 2.5), Local(7))]
    assert done.stdout == f"{here} Local(a=7)\n"


def test_numbers_and_texts_are_spread_evenly_over_groups() -> None:
    for keys in (list(range(10_000)), [f"user-{number}" for number in range(10_000)]):
        counts = np.bincount(key_groups(hash_column(*encode(keys)), 16), minlength=16)
        assert counts.min() > 500
        assert counts.max() < 750


@law
@given(st.integers(1, 300), st.data())
def test_the_ranges_of_partitions_are_what_partition_of_says(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    ranges = [group_range(partition, parallelism, max_parallelism) for partition in range(parallelism)]
    assert [group for groups in ranges for group in groups] == list(range(max_parallelism))
    owners = partition_of(np.arange(max_parallelism), parallelism, max_parallelism).tolist()
    assert owners == [partition for partition, groups in enumerate(ranges) for _ in groups]
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_a_group_is_the_remainder_of_the_hash() -> None:
    assert key_groups(np.array([0, 129, 2**64 - 1], np.uint64), 128).tolist() == [0, 1, 127]
