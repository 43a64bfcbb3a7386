"""The piles of partial results, against a dict of totals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flintstream.state.backend import merged
from flintstream.state.partials import MOST_PARTS, PartialTable, concat, drops_windows, is_partials, split_windows
from flintstream.state.table import within
from tests.unit.values import law

GROUPS = 4


def part(rows: dict[int, int]) -> pa.Table:
    keys = list(rows)
    groups = pa.array([key % GROUPS for key in keys], pa.int32())
    return pa.table({"k0:int": pa.array(keys, pa.int64()), "sum": list(rows.values()), "key_group": groups})


def add_up(table: pa.Table) -> pa.Table:
    return part(totals(table))


def totals(table: pa.Table) -> dict[int, int]:
    found: dict[int, int] = {}
    for key, value in zip(table.column("k0:int").to_pylist(), table.column("sum").to_pylist(), strict=True):
        found[key] = found.get(key, 0) + value
    return found


def contents(table: PartialTable) -> dict[int, dict[int, int]]:
    return {start: totals(concat(parts)) for start, parts in sorted(table.windows.items())}


ROWS = st.dictionaries(st.integers(0, 7), st.integers(-9, 9), min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from([0, 10, 20]), ROWS),
    st.tuples(st.just("pop"), st.sampled_from([0, 10, 20]), st.none()),
    st.tuples(st.just("commit"), st.none(), st.none()),
)


def play(steps: list[Any]) -> tuple[PartialTable, dict[int, dict[int, int]], list[pa.RecordBatch]]:
    """Apply steps to a table and to a dict of dicts; return both and the changelog."""
    table, model, log = PartialTable(add_up), {}, []
    for verb, start, rows in [*steps, ("commit", None, None)]:
        if verb == "add":
            table.add(start, part(rows))
            held = model.setdefault(start, {})
            for key, value in rows.items():
                held[key] = held.get(key, 0) + value
        elif verb == "pop" and start in model:
            assert totals(table.pop(start)) == model.pop(start)
        elif verb == "commit":
            batch = table.delta(GROUPS)
            table.mark_clean()
            log += [] if batch is None else [batch]
    return table, model, log


@law
@given(st.lists(STEPS, max_size=30))
def test_the_table_holds_what_was_added_and_not_popped(steps: list[Any]) -> None:
    table, model, _ = play(steps)
    assert contents(table) == model


@law
@given(st.lists(STEPS, max_size=30), st.integers(1, 4))
def test_the_changelog_rebuilds_the_table_also_if_folded(steps: list[Any], width: int) -> None:
    _, model, log = play(steps)
    one_by_one, folded = PartialTable(add_up), PartialTable(add_up)
    for batch in log:
        assert is_partials(batch)
        one_by_one.apply(batch)
    for start in range(0, len(log), width):
        batch = merged(log[start : start + width], GROUPS)
        if batch is not None:
            folded.apply(batch)
    assert contents(one_by_one) == model
    assert contents(folded) == model


@law
@given(st.lists(STEPS, max_size=30))
def test_a_snapshot_is_the_whole_table(steps: list[Any]) -> None:
    table, model, _ = play(steps)
    batch = table.snapshot(GROUPS)
    assert (batch is None) == (not model)
    other = PartialTable(add_up)
    if batch is not None:
        other.apply(batch)
    assert contents(other) == model


@law
@given(st.lists(STEPS, max_size=30), st.integers(0, GROUPS))
def test_partitions_take_their_key_groups_and_every_dropped_window(steps: list[Any], cut: int) -> None:
    _, model, log = play(steps)
    halves = PartialTable(add_up), PartialTable(add_up)
    for batch in log:
        for half, groups in zip(halves, (range(cut), range(cut, GROUPS)), strict=True):
            mine = within(batch, groups)
            assert drops_windows(mine) == drops_windows(batch)
            half.apply(mine)
    first, second = map(contents, halves)
    assert {start: first.get(start, {}) | second.get(start, {}) for start in first.keys() | second.keys()} == model


def test_a_window_stays_dropped_where_changelogs_are_folded() -> None:
    _, _, log = play([("add", 0, {1: 1}), ("commit", 0, {}), ("pop", 0, {}), ("add", 10, {2: 2}), ("commit", 0, {})])
    assert len(log) == 2
    for parts in ([log[:1], log[1:]], [log]):
        table = PartialTable(add_up)
        for part_of_log in parts:
            batch = merged(part_of_log, GROUPS)
            assert batch is not None
            table.apply(batch)
        assert contents(table) == {10: {2: 2}}


def test_a_pile_is_merged_before_it_grows_high() -> None:
    table = PartialTable(add_up)
    for _ in range(10 * MOST_PARTS):
        table.add(0, part({1: 1, 2: 1}))
    assert len(table.windows[0]) <= MOST_PARTS
    assert len(table) <= 2 * MOST_PARTS
    assert contents(table) == {0: {1: 10 * MOST_PARTS, 2: 10 * MOST_PARTS}}


def test_parts_may_have_different_columns() -> None:
    other = pa.table({"k0:str": ["x"], "sum": [5], "key_group": pa.array([1], pa.int32())})
    table = PartialTable()
    table.add(0, part({1: 2}))
    table.add(0, other)
    batch = table.delta(GROUPS)
    assert batch is not None
    ((start, rows),) = split_windows(batch)
    assert start == 0
    assert rows.column("k0:int").to_pylist() == [1, None]
    assert rows.column("k0:str").to_pylist() == [None, "x"]


def test_a_window_that_came_and_went_leaves_its_name_only() -> None:
    table = PartialTable(add_up)
    table.add(0, part({1: 1}))
    table.pop(0)
    batch = table.delta(GROUPS)
    assert batch is not None
    assert batch.num_rows == 0
    assert drops_windows(batch)
    table.mark_clean()
    assert table.delta(GROUPS) is None
    assert table.snapshot(GROUPS) is None
