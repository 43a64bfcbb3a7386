import datetime
import enum
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.row import Row
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow
from flintstream.state.keybytes import LONGEST_PART, entry_bytes, part_bytes

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.text(max_size=4),
    st.text(min_size=150, max_size=200),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.UTC)),
    st.times(),
    st.timedeltas(),
    st.builds(TimeWindow, st.integers(0, 3), st.integers(0, 3)),
    st.builds(CountWindow, st.integers(0, 3)),
)
KEYS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(inner, max_size=3),
        st.lists(inner, max_size=3).map(lambda parts: Row(*parts)),
    ),
    max_leaves=5,
)


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 1


@dataclass(frozen=True)
class Order:
    id: int
    note: str = field(default="", compare=False)


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return 0


@given(KEYS, KEYS)
def test_keys_are_equal_exactly_if_their_bytes_are(one: Any, other: Any) -> None:
    assert (part_bytes(one) == part_bytes(other)) == (one == other)


@given(st.lists(KEYS, min_size=2, max_size=2), st.lists(KEYS, min_size=2, max_size=2))
def test_a_key_is_a_prefix_of_its_own_entries_only(one: list[Any], other: list[Any]) -> None:
    assert entry_bytes(tuple(one), 2).startswith(part_bytes(other[0])) == (one[0] == other[0])


NEW_YORK = datetime.datetime(2026, 7, 1, 8, 0, tzinfo=ZoneInfo("America/New_York"))


@pytest.mark.parametrize(
    "same",
    [
        (1, 1.0, True, Decimal("1.0"), Fraction(1), 1 + 0j, np.int32(1), np.float64(1), np.bool_(True), Level.HIGH),
        (0.5, Decimal("0.50"), Fraction(1, 2), np.float32(0.5)),
        (0.0, -0.0, 0, False),
        (2**70, float(2**70), Decimal(2**70)),
        (float("inf"), Decimal("Infinity")),
        ((1, 2), Point(1, 2), (True, 2.0)),
        (Row(a=1, b=2), Row(b=2, a=1)),
        (NEW_YORK, datetime.datetime(2026, 7, 1, 12, 0, tzinfo=datetime.UTC)),
        (frozenset("ab"), frozenset("ba")),
        (Order(1, "x"), Order(1, "y")),
        (Plain(a=1, b=2), Plain(b=2, a=1)),
        (GlobalWindow.get(), GlobalWindow()),
        (uuid.UUID(int=5), uuid.UUID(int=5)),
    ],
)
def test_equal_keys_of_many_types_have_equal_bytes(same: tuple[Any, ...]) -> None:
    assert all(key == same[0] for key in same)
    assert len({part_bytes(key) for key in same}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", 1),
        ("a", b"a"),
        (None, 0),
        (Decimal("0.1"), 0.1),
        (Fraction(1, 3), 1 / 3),
        (2**70, 2**70 + 1),
        (TimeWindow(1, 2), (1, 2)),
        (Order(1), Plain(id=1)),
        (Colour.RED, 1),
        (("a", "b"), ("ab",)),
        ((("a",), "b"), ("a", ("b",))),
        ("x" * 1000, "x" * 1001),
    ],
)
def test_different_keys_have_different_bytes(one: Any, other: Any) -> None:
    assert one != other
    assert part_bytes(one) != part_bytes(other)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_no_entry_is_too_long_for_lmdb(parts: int) -> None:
    long = ["x" * length for length in (LONGEST_PART - 2, LONGEST_PART - 1, LONGEST_PART, 10_000)]
    for text in long:
        entry = text if parts == 1 else (text,) * parts
        assert len(entry_bytes(entry, parts)) <= 511


def test_long_entries_of_many_parts_still_begin_with_their_key() -> None:
    entry = ("k", *["x" * 150] * 4)
    assert entry_bytes(entry, 5).startswith(part_bytes("k"))
    assert entry_bytes(entry, 5) != entry_bytes((*entry[:-1], "y"), 5)


def test_bytes_are_the_same_in_every_process() -> None:
    program = "from flintstream.state.keybytes import part_bytes; print(part_bytes(frozenset('abcdef')).hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert found == {part_bytes(frozenset("abcdef")).hex() + "\n"}
