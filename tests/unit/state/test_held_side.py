"""One side of an interval join: piles against a list, and changelogs however they are cut and merged."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.state.backend import KeyedBackend, merged
from flintstream.state.codec import decode, encode
from flintstream.state.held import HeldTable
from flintstream.state.held_side import SideTable
from flintstream.state.pile import Pile, equal_rows, joined, sorted_pile
from tests.unit.values import law

GROUPS = 4
ROW = st.tuples(st.integers(0, 5), st.integers(-20, 20), st.integers(1, 9))
"""A place, a time, and for how long the row is there."""
FAR = st.tuples(st.integers(0, 5), st.sampled_from([-(2**62), -1, 0, 1, 2**62]), st.integers(1, 9))


def pile_of(rows: list[Any], start: int = 0) -> Pile:
    places, times, expiries = (np.array([row[index] for row in rows], np.int64) for index in range(3))
    numbers = np.arange(start, start + len(rows))
    return sorted_pile(places, times, expiries, numbers, places % GROUPS, *(encode([(p, t) for p, t, _ in rows]),) * 2)


@law
@given(st.lists(st.one_of(ROW, FAR), max_size=20), st.lists(st.one_of(ROW, FAR), max_size=20), st.integers(-3, 3))
def test_a_pile_finds_what_is_near(rows: list[Any], others: list[Any], lower: int) -> None:
    pile, other = pile_of(rows), pile_of(others)
    searched = pile.index().find(other.index(), other.times + lower, other.times + lower + 2)
    mine, theirs = searched.pairs()
    assert searched.total == len(mine) == len(theirs)
    found = sorted(zip(other.numbers[mine].tolist(), pile.numbers[theirs].tolist(), strict=True))
    assert found == sorted(
        (a, b)
        for a, (place, time, _) in enumerate(others)
        for b, (place_b, time_b, _) in enumerate(rows)
        if place == place_b and time + lower <= time_b <= time + lower + 2
    )


@law
@given(st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=4))
def test_piles_can_be_joined(parts: list[list[Any]]) -> None:
    piles = [pile_of(part, 100 * number) for number, part in enumerate(parts)]
    whole = joined(piles)
    rows = sorted((place, time, 100 * n + m) for n, part in enumerate(parts) for m, (place, time, _) in enumerate(part))
    assert list(zip(whole.places.tolist(), whole.times.tolist(), whole.numbers.tolist(), strict=True)) == rows
    values = decode(*whole.values_at(np.arange(len(whole))))
    assert values == [(place, time) for place, time, _ in rows]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1, 2], [1, 3]),
        (["a", None], ["a", None]),
        ([1, 1, 0], [1.0, True, "0"]),
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "c")]),
        ([(1, None), (None, "b")], [(1, None), (None, "b")]),
        ([float("nan"), 1.5], [float("nan"), 1.5]),
        ([b"x", b"y"], [b"x", b"z"]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 1}]),
    ],
)
def test_equality_is_that_of_python(left: list[Any], right: list[Any]) -> None:
    assert equal_rows(encode(left), encode(right)).tolist() == [a == b for a, b in zip(left, right, strict=True)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(ROW, min_size=1, max_size=6)),
        st.tuples(st.just("pass"), st.integers(1, 6)),
        st.tuples(st.just("mark"), st.integers(0, 30)),
        st.tuples(st.just("commit"), st.none()),
    ),
    max_size=25,
)


def new_side() -> tuple[SideTable, HeldTable]:
    marks = HeldTable()
    return SideTable(marks), marks


def contents(side: SideTable) -> list[Any]:
    """Return the rows that are still there: number, place, time, expiry, and whether they are marked."""
    rows: list[Any] = []
    for pile in side.piles():
        alive = pile.after(side.horizon)
        columns = (alive.numbers, alive.places, alive.times, alive.expiries, alive.matched)
        rows += zip(*(column.tolist() for column in columns), strict=True)
    return sorted(rows)


@law
@given(STEPS, st.integers(1, 3), st.booleans())
def test_what_was_written_comes_back(steps: list[Any], parts: int, in_one: bool) -> None:
    side, marks = new_side()
    model: dict[int, Any] = {}
    time, logs = -20, []
    side.advance(time)
    for verb, argument in [*steps, ("commit", None)]:
        if verb == "put":
            rows = [(place, at, time + lasts) for place, at, lasts in argument]
            side.put(pile_of(rows, side.next_number))
            model |= {side.next_number + n: [*row, False] for n, row in enumerate(rows)}
            side.next_number += len(rows)
        elif verb == "pass":
            time += argument
            lonely = [pile.numbers[at].tolist() for pile, at in side.expired(time)]
            gone = {number for number, row in model.items() if row[2] <= time}
            assert sorted(itertools.chain(*lonely)) == sorted(number for number in gone if not model[number][3])
            side.advance(time)
            model = {number: row for number, row in model.items() if number not in gone}
        elif verb == "mark":
            for pile in side.piles():
                at = np.flatnonzero((pile.numbers % 7 == argument % 7) & (pile.expiries > time))
                side.mark(pile, at)
            model = {n: [*row[:3], row[3] or n % 7 == argument % 7] for n, row in model.items()}
        else:
            logs.append((side.delta(GROUPS), marks.delta(GROUPS)))
            side.mark_clean()
            marks.mark_clean()
        assert contents(side) == [(number, *row) for number, row in sorted(model.items())]
        assert len(side) == len(model)
    _check_restore(side, logs, parts, in_one)


def _check_restore(side: SideTable, logs: list[Any], parts: int, in_one: bool) -> None:
    """Load changelogs, merged or not, or a snapshot, into several partitions."""
    found: list[Any] = []
    for part in range(parts):
        backend = KeyedBackend(GROUPS, range(part * GROUPS // parts, (part + 1) * GROUPS // parts))
        written = [[log[table] for log in logs if log[table] is not None] for table in (0, 1)]
        for name, batches in zip(("left", "marks"), written, strict=True):
            folded = [merged(batches, GROUPS)] if in_one and batches else batches
            for batch in folded:
                if batch is not None:
                    backend.apply({name: batch})
        marks = backend.table("marks", HeldTable)
        restored = backend.table("left", lambda marks=marks: SideTable(marks))
        # A horizon is written only if something left.
        restored.advance(side.horizon)
        found += contents(restored)
        assert restored.next_number <= side.next_number
    assert sorted(found) == contents(side)
    again = SideTable(HeldTable())
    snapshot = side.snapshot(GROUPS)
    if snapshot is not None:
        again.apply(snapshot)
    assert [row[:4] for row in contents(again)] == [row[:4] for row in contents(side)]
