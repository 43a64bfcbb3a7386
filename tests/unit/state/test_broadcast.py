"""Broadcast tables: their order is part of them, whoever wrote the changelog and whoever reads it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import DefinitionError
from flintstream.ops.broadcast import unknown_state
from flintstream.state.backend import KeyedBackend, is_shared, merged, table_like
from flintstream.state.broadcast import BroadcastTable, BroadcastView, ReadOnlyBroadcastView, is_broadcast
from flintstream.state.table import EVERY_GROUP, Table

KEYS = st.sampled_from([*range(4), "a", ("b", 1)])
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 9))), max_size=12)


def changed(table: BroadcastTable, changes: list[tuple[Any, int | None]]) -> None:
    for key, value in changes:
        if value is None:
            table.remove(key)
        else:
            table.put(key, value)


def logged(table: BroadcastTable) -> pa.RecordBatch | None:
    batch = table.delta(128)
    table.mark_clean()
    return batch


@given(st.lists(CHANGES, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_a_table_is_a_dict_whichever_way_it_came(epochs, held, split):
    """A copy that was there up to some epoch and is brought forward by the rest, merged or not, is the same dict."""
    dict_: dict[Any, int] = {}
    table, behind = BroadcastTable(), BroadcastTable()
    logs: list[pa.RecordBatch] = []
    for number, changes in enumerate(epochs):
        changed(table, changes)
        for key, value in changes:
            dict_.pop(key, None) if value is None else dict_.__setitem__(key, value)
        log = logged(table)
        if log is None:
            continue
        if number < held:
            changed(behind, changes)
            behind.mark_clean()
        else:
            logs.append(log)
    assert list(table.data.items()) == list(dict_.items())
    for some in (logs[:split], logs[split:]):
        batch = merged(some, 128)
        if batch is not None:
            behind.apply(batch)
    assert list(behind.data.items()) == list(dict_.items())
    restored = BroadcastTable()
    whole = table.snapshot(128)
    if whole is not None:
        restored.apply(whole)
    assert list(restored.data.items()) == list(dict_.items())
    # What is put next has the same place in all of them.
    for each in (table, behind, restored):
        each.put("new", 1)
    places = {batch.column("place").to_pylist()[0] for batch in map(logged, (table, behind, restored)) if batch}
    assert len(places) == 1


def test_an_epoch_that_changes_one_pair_writes_one_row():
    table = BroadcastTable()
    for key in range(100):
        table.put(key, "x")
    logged(table)
    table.put(7, "y")
    batch = logged(table)
    assert batch is not None and batch.num_rows == 1
    assert batch.column("key_group").to_pylist() == [EVERY_GROUP]
    assert is_broadcast(batch) and is_shared(batch) and isinstance(table_like(batch), BroadcastTable)
    assert logged(table) is None


def test_removing_what_is_not_there_changes_nothing():
    table = BroadcastTable()
    table.remove("a")
    assert logged(table) is None


@pytest.mark.parametrize(("groups", "entries", "rows"), [(range(4), 1, 1), (range(4, 8), None, 0)])
def test_one_partition_tells_of_what_all_have(groups, entries, rows):
    backend = KeyedBackend(8, groups)
    table = backend.table("op/#broadcast/rules", BroadcastTable)
    table.put("a", 1)
    assert backend.rows(shared=True) == {"op/#broadcast/rules": 1}
    assert backend.entries().get("op/#broadcast/rules") == entries
    assert len(backend.delta(shared=True)) == rows
    assert backend.delta(shared=True) == {}, "the others have it clean as well"


def test_shared_and_other_tables_are_written_and_forgotten_apart():
    backend = KeyedBackend(8, range(8))
    backend.table("op/#broadcast/rules", BroadcastTable).put("a", 1)
    backend.table("op/seen", lambda: Table("seen")).put("k", 2)
    assert set(backend.snapshot()) == {"op/seen"} and set(backend.snapshot(shared=True)) == {"op/#broadcast/rules"}
    assert set(backend.delta()) == {"op/seen"} and set(backend.delta(shared=True)) == {"op/#broadcast/rules"}
    backend.clear()
    assert backend.entries() == {"op/seen": 0, "op/#broadcast/rules": 1}
    backend.clear(shared=True)
    assert backend.entries() == {"op/seen": 0, "op/#broadcast/rules": 0}


def test_what_nobody_has_claimed_is_carried_along_and_counted_once():
    written = BroadcastTable()
    written.put("a", 1)
    batch = logged(written)
    assert batch is not None
    for groups, entries in ((range(4), {"op/#broadcast/old": 1}), (range(4, 8), {}), (range(0), {})):
        backend = KeyedBackend(8, groups)
        backend.apply({"op/#broadcast/old": batch})
        assert backend.entries() == entries
        assert bool(backend.snapshot(shared=True)) == bool(len(groups)), "who has no key groups has no instance"
        assert backend.snapshot() == {}
        backend.clear()
        assert backend.entries() == entries


def test_the_side_that_may_change_it_may_go_over_it_meanwhile():
    table = BroadcastTable()
    state = BroadcastView(table)
    state.put_all({"a": 1, "b": 2, "c": None})
    for key, value in state.items():
        if value == 1:
            del state[key]
            state["d"] = 4
    assert list(state) == ["b", "c", "d"] and list(state.values()) == [2, None, 4] and len(state) == 3
    assert "c" in state and state["c"] is None and not state.contains("a")
    state.clear()
    assert state.is_empty() and table.delta(8) is not None


def test_the_other_side_may_not_change_it():
    table = BroadcastTable()
    table.put("a", 1)

    def refuse() -> None:
        raise unknown_state({}, "x")

    state: Any = ReadOnlyBroadcastView(table, refuse)
    for change in (
        lambda: state.put("a", 2),
        lambda: state.put_all({"a": 2}),
        lambda: state.remove("a"),
        lambda: state.clear(),
        lambda: state.__setitem__("a", 2),
        lambda: state.__delitem__("a"),
    ):
        with pytest.raises(DefinitionError):
            change()
    assert dict(state.items()) == {"a": 1} and list(state) == ["a"] and not state.is_empty() and len(state) == 1
