"""The table of waiting records, against a list; and its changelogs, however they are cut and merged."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.state.backend import KeyedBackend, adds_up, merged
from flintstream.state.codec import decode, encode
from flintstream.state.held import MOST_PARTS, Held, HeldTable
from flintstream.state.table import is_resident, within
from tests.unit.values import law

GROUPS = 4
RECORDS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 7), st.one_of(st.integers(), st.text())), max_size=6)
STEPS = st.lists(st.one_of(st.tuples(st.just("add"), RECORDS), st.tuples(st.just("pass"), st.integers(1, 5))))


def part(records: list[Any]) -> Held:
    times, places, values = ([record[index] for record in records] for index in range(3))
    columns = np.array(times, np.int64), np.array(places, np.int64), np.array(places, np.int64) % GROUPS
    return Held(*columns, *encode(values))


def rows(held: Held | None) -> list[Any]:
    if held is None:
        return []
    return list(zip(held.times.tolist(), held.places.tolist(), decode(held.values, held.kind), strict=True))


def by_time(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda record: record[0])


def play(steps: list[Any]) -> tuple[HeldTable, list[Any], list[Any]]:
    """Play steps on a table and on a list, a commit after each; return both and the changelogs."""
    table, model, logs, time = HeldTable(), [], [], -1
    for verb, argument in steps:
        if verb == "add":
            records = [record for record in argument if record[0] > time]
            if records:
                table.add(part(records))
            model += records
        else:
            time += argument
            assert rows(table.take_until(time)) == by_time([record for record in model if record[0] <= time])
            model = [record for record in model if record[0] > time]
        logs.append(table.delta(GROUPS))
        table.mark_clean()
    return table, model, [log for log in logs if log is not None]


@law
@given(STEPS)
def test_records_leave_by_time_and_then_in_the_order_of_arrival(steps: list[Any]) -> None:
    table, model, _ = play(steps)
    assert len(table) == len(model)
    assert rows(table.take_until(100)) == by_time(model)
    assert len(table) == 0


@law
@given(STEPS, st.integers(0, 20), st.integers(0, 20))
def test_changelogs_bring_another_table_to_the_same_state(steps: list[Any], start: int, stop: int) -> None:
    table, model, logs = play(steps)
    start, stop = min(start, stop), max(start, stop)
    middle = merged(logs[start:stop], GROUPS)
    chain = [*logs[:start], *([] if middle is None else [middle]), *logs[stop:]]
    snapshot = table.snapshot(GROUPS)
    for batches in (logs, chain, [] if snapshot is None else [snapshot]):
        other = HeldTable()
        for batch in batches:
            other.apply(batch)
        assert rows(other.take_until(100)) == by_time(model)


@law
@given(STEPS)
def test_partitions_can_be_cut_and_put_together_again(steps: list[Any]) -> None:
    _, model, logs = play(steps)
    other = HeldTable()
    for groups in (range(2), range(2, GROUPS)):
        for log in logs:
            other.apply(within(log, groups))
    assert sorted(rows(other.take_until(100)), key=repr) == sorted(model, key=repr)


def test_what_comes_and_goes_within_an_epoch_is_not_in_its_changelog() -> None:
    table = HeldTable()
    table.add(part([(1, 0, "a"), (2, 0, "b"), (9, 0, "c")]))
    table.take_until(5)
    batch = table.delta(GROUPS)
    assert batch is not None
    assert batch.column("value").to_pylist() == ["c"]
    table.mark_clean()
    assert table.delta(GROUPS) is None


def test_many_small_parts_become_one() -> None:
    table = HeldTable()
    for number in range(3 * MOST_PARTS):
        table.add(part([(number % 5, 0, number)]))
    assert len(table._parts) <= MOST_PARTS
    assert [value for _, _, value in rows(table.take_until(0))] == list(range(0, 3 * MOST_PARTS, 5))


def test_a_backend_knows_its_batches() -> None:
    backend = KeyedBackend(GROUPS, range(GROUPS))
    table = backend.table("sort/waiting", HeldTable)
    table.add(part([(1, 0, "a"), (7, 1, "b")]))
    first = backend.delta()["sort/waiting"]
    table.take_until(5)
    second = backend.delta()["sort/waiting"]
    assert is_resident(first) and adds_up(first)
    assert second.num_rows == 0
    other = KeyedBackend(GROUPS, range(GROUPS))
    for batch in (first, second):
        other.apply({"sort/waiting": batch})
    assert rows(other.table("sort/waiting", HeldTable).take_until(9)) == [(7, 1, "b")]
    backend.clear()
    assert backend.entries() == {"sort/waiting": 0}
