"""Folding changelogs as columns leaves what the tables themselves hold, and never makes an object of a value."""

from __future__ import annotations

import datetime as dt
import os
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.state.broadcast import BroadcastTable
from flintstream.state.codec import field_of
from flintstream.state.fold import fold
from flintstream.state.held import Held, HeldTable
from flintstream.state.map_table import MapTable
from flintstream.state.partials import PartialTable
from flintstream.state.table import Table, read_rows
from flintstream.state.timers import TimerTable
from tests.unit.values import ANYTHING, INDIA, SCALARS, TEXT, Frozen, Noted, Row, exactly, law

GROUPS = 8
PLAIN = st.one_of(st.integers(0, 5), st.sampled_from([0.0, -0.0, 1.0, 2.5, True, None, "a", "b", b"a", 1 << 70]))
KEYS = st.one_of(
    PLAIN,
    st.tuples(PLAIN, PLAIN),
    st.builds(Frozen, PLAIN, st.integers(0, 1)),
    st.builds(Noted, st.integers(0, 2), st.integers(0, 3)),
    st.integers(0, 2).map(lambda n: Row(a=n, b="x")),
    st.sampled_from([Decimal(1), Decimal("1.0"), Decimal("0.5")]),
    st.sampled_from([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 5, 30, tzinfo=INDIA)]),
)
ONE_SHAPE = st.sampled_from([*SCALARS[:5], st.tuples(st.integers(0, 2), TEXT), st.builds(Frozen, st.integers(0, 3))])
VALUES = st.one_of(st.integers(0, 9), TEXT, ANYTHING)


def steps(keys: Any) -> Any:
    """Some epochs, each of which sets and removes some entries."""
    return st.lists(st.lists(st.tuples(keys, VALUES), min_size=1, max_size=6), min_size=1, max_size=4)


def rows_in(batches: list[pa.RecordBatch], parts: int) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for batch in batches:
        entries, values, gone = read_rows(batch, parts)
        assert not any(gone)
        found += zip(entries, values, strict=True)
    return found


@law
@given(st.one_of(steps(KEYS), ONE_SHAPE.flatmap(steps)))
def test_what_is_left_is_what_the_table_holds(epochs):
    table, batches = Table("t"), []
    for epoch in epochs:
        for key, value in epoch:
            table.put(key, value)
        batches.append(table.delta(GROUPS))
        table.mark_clean()
    found = rows_in(fold(batches), 1)
    nan = [key for key, _ in found if key != key]
    assert len(found) == len({key for key, _ in found}) or nan
    for key, value in found:
        if key == key:
            assert exactly(table.data[key]) == exactly(value)
    assert len(found) == len(table) or nan


@law
@given(st.lists(st.lists(st.tuples(PLAIN, PLAIN, st.none() | st.integers()), min_size=1), min_size=1, max_size=4))
def test_entries_of_maps_are_told_apart_by_both_keys(epochs):
    table, batches = MapTable("t"), []
    for epoch in epochs:
        for key, inner, value in epoch:
            table.remove_in(key, inner) if value is None else table.put_in(key, inner, value)
        batch = table.delta(GROUPS)
        batches += [] if batch is None else [batch]
        table.mark_clean()
    assert dict(rows_in(fold(batches), 2)) == dict(table.rows())


def test_timers_that_fired_are_gone():
    table, batches = TimerTable("event"), []
    table.register("a", None, 5)
    table.register("b", None, 9)
    batches.append(table.delta(GROUPS))
    table.mark_clean()
    table.pop_due(5)
    batches.append(table.delta(GROUPS))
    assert [entry for entry, _ in rows_in(fold(batches), 3)] == [("b", None, 9)]


def test_pairs_of_a_broadcast_map_keep_their_places():
    table, batches = BroadcastTable(), []
    for pairs in ({"b": 1, "a": 2}, {"b": 3, "c": 4}):
        for key, value in pairs.items():
            table.put(key, value)
        batches.append(table.delta(GROUPS))
        table.mark_clean()
    table.remove("a")
    batches.append(table.delta(GROUPS))
    rebuilt = BroadcastTable()
    for batch in fold(batches):
        rebuilt.apply(batch)
    assert list(rebuilt.data.items()) == [("b", 3), ("c", 4)]


def held(times: list[int], values: pa.Array, kind: Any) -> Held:
    column = np.array(times, np.int64)
    return Held(column, column * 0, column * 0, values, kind)


def test_records_that_left_are_gone_and_the_others_stay_as_they_are():
    table, batches = HeldTable(), []
    table.add(held([3, 1, 7], pa.array(["c", "a", "g"]), "str"))
    batches.append(table.delta(GROUPS))
    table.mark_clean()
    table.take_until(3)
    table.add(held([5], pa.array([5]), "int"))
    batches.append(table.delta(GROUPS))
    left = fold(batches)
    assert [batch.column("value").to_pylist() for batch in left] == [[5], ["g"]]
    again = HeldTable()
    for batch in left:
        again.apply(batch)
    assert len(again) == 2
    assert again.horizon == 3


def test_records_of_one_time_stay_in_the_order_of_arrival_whatever_they_are():
    table, batches = HeldTable(), []
    for values, kind in ((pa.array(["a"]), "str"), (pa.array([1]), "int"), (pa.array(["b", "c"]), "str")):
        table.add(held([5] * len(values), values, kind))
        batches.append(table.delta(GROUPS))
        table.mark_clean()
    assert [batch.column("value").to_pylist() for batch in fold(batches)] == [["a"], [1], ["b", "c"]]


def partial(key: str, count: int) -> pa.Table:
    return pa.table({"k0:str": [key], "a0.": [count], "key_group": pa.array([0], pa.int32())})


def test_windows_that_fired_are_gone_and_partial_results_stay_apart():
    table, batches = PartialTable(lambda rows: rows), []
    table.add(0, partial("a", 1))
    table.add(10, partial("a", 2))
    batches.append(table.delta(GROUPS))
    table.mark_clean()
    table.pop(0)
    table.add(10, partial("a", 3))
    batches.append(table.delta(GROUPS))
    (left,) = fold(batches)
    assert left.column("window_start").to_pylist() == [10, 10]
    assert left.column("a0.").to_pylist() == [2, 3]


def test_nothing_left_is_no_batch():
    table, batches = Table("t"), []
    table.put("a", 1)
    batches.append(table.delta(GROUPS))
    table.mark_clean()
    table.delete("a")
    batches.append(table.delta(GROUPS))
    assert fold(batches) == []
    assert fold([]) == []


class Malicious:
    """Unpickling this makes a directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("column", ["key", "value"])
def test_nothing_that_a_pickle_names_is_run(tmp_path, column):
    trap = tmp_path / "made"
    pickles = pa.array([pickle.dumps(Malicious(str(trap)))] * 2, pa.large_binary())
    others = {"key": pa.array(["a", "b"]), "value": pa.array(["x", "y"])}
    kinds = {"key": "str", "value": "str"} | {column: "pickle"}
    arrays = {**others, column: pickles}
    fields = [field_of(name, array, kinds[name]) for name, array in arrays.items()]
    fields += [pa.field("key_group", pa.int32()), pa.field("gone", pa.bool_())]
    extra = [pa.array([0, 0], pa.int32()), pa.array([False, False])]
    batch = pa.RecordBatch.from_arrays([*arrays.values(), *extra], schema=pa.schema(fields))
    left = fold([batch, batch])
    assert sum(each.num_rows for each in left) == (1 if column == "key" else 2)
    assert not trap.exists()
