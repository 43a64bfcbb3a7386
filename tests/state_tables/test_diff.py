"""Two savepoints differ in rows that one of them has, and in rows with other values; in nothing else."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    CollectSink,
    ListStateDescriptor,
    MapStateDescriptor,
    SavepointWriter,
    ValueStateDescriptor,
    count,
    savepoint,
    tumbling,
)
from flintstream.engine.state_tables_diff import Shown, differences
from flintstream.errors import InvalidArgumentError
from tests.capabilities.support import Lists
from tests.state_tables.programs import Account, savepoint_of, stopped
from tests.state_tables.test_reading import WATERMARKS
from tests.unit.values import law


def with_state(path: Any, name: str, descriptor: Any, data: Any) -> str:
    return SavepointWriter.new_savepoint().with_state("op", descriptor, data).write(path / name)


def test_rows_of_one_side_and_rows_with_other_values_are_told(tmp_path):
    state = ValueStateDescriptor("account", Account)
    here = with_state(tmp_path, "here", state, [("a", Account(1, "x")), ("b", Account(2, "y")), ("c", Account(3, "z"))])
    there = with_state(
        tmp_path, "there", state, [("d", Account(3, "z")), ("c", Account(3, "z")), ("b", Account(2, "q"))]
    )
    diff = savepoint(here).diff(there)
    assert diff.state("op", "account", arrow=True).to_pylist() == [
        {
            "change": "only_here",
            "key": "a",
            "here_balance": 1,
            "there_balance": None,
            "here_owner": "x",
            "there_owner": None,
        },
        {
            "change": "different",
            "key": "b",
            "here_balance": 2,
            "there_balance": 2,
            "here_owner": "y",
            "there_owner": "q",
        },
        {
            "change": "only_there",
            "key": "d",
            "here_balance": None,
            "there_balance": 3,
            "here_owner": None,
            "there_owner": "z",
        },
    ]
    (summary,) = diff.summary()
    assert (summary.here, summary.there, summary.only_here, summary.only_there, summary.different) == (3, 3, 1, 1, 1)
    assert "op        account     3      3          1           1          1" in str(diff)


@pytest.mark.parametrize(
    ("kind", "one", "other", "changes"),
    [
        (ValueStateDescriptor, [("a", 1)], [("a", 1.0)], 0),
        (ValueStateDescriptor, [("a", 1)], [("a", "1")], 1),
        (ValueStateDescriptor, [("a", math.nan)], [("a", math.nan)], 0),
        (ValueStateDescriptor, [("a", (1, [2]))], [("a", (1, [3]))], 1),
        (ValueStateDescriptor, [(1, 1)], [("x", 1)], 2),
        (ListStateDescriptor, [("a", [1, None])], [("a", [1])], 1),
        (MapStateDescriptor, [("a", {1: None, 2: 2})], [("a", {1: 0, 2: 2})], 1),
        (MapStateDescriptor, [("a", {1: 1})], [("a", {2: 1})], 2),
        (ValueStateDescriptor, [("a", 1 << 70)], [("a", 1 << 71)], 1),
    ],
)
def test_what_counts_as_different(tmp_path, kind, one, other, changes):
    paths = with_state(tmp_path, "one", kind("s"), one), with_state(tmp_path, "other", kind("s"), other)
    assert savepoint(paths[0]).diff(paths[1]).state("op", "s", arrow=True).num_rows == changes
    assert savepoint(paths[0]).diff(paths[0]).summary()[0].is_same


def test_state_that_only_one_side_has(tmp_path):
    one = with_state(tmp_path, "one", ValueStateDescriptor("s"), [("a", 1)])
    other = (
        SavepointWriter.new_savepoint().with_state("else", ValueStateDescriptor("t"), [("a", 1)]).write(tmp_path / "2")
    )
    diff = savepoint(one).diff(other)
    assert [(each.uid, each.only_here, each.only_there) for each in diff.summary()] == [("op", 1, 0), ("else", 0, 1)]
    with pytest.raises(InvalidArgumentError, match=r"neither of the two has state 'x' of operator 'op'; .*'op': 's'"):
        diff.state("op", "x", arrow=True)


def test_partial_results_of_windows_are_compared_as_bags(make_env, tmp_path):
    def program(records: list[Any]) -> Any:
        def declare(env: Any, sink: CollectSink) -> None:
            stream = env.from_source(Lists([*records, ("z", 90)]), watermark=WATERMARKS)
            stream.key_by(0).window(tumbling("100ms")).agg(n=count()).uid("w").sink_to(sink)

        return declare

    def left(name: str, records: list[Any]) -> str:
        folder = stopped(lambda **how: make_env("local", **how), tmp_path / name, program(records), len(records), 1)
        return savepoint_of(folder, tmp_path / f"{name}-sp")

    one = left("one", [("a", 1), ("a", 2), ("b", 3)])
    other = left("other", [("a", 1), ("a", 2), ("a", 3), ("b", 3)])
    assert savepoint(one).diff(savepoint(one)).summary()[0].is_same
    changes = savepoint(one).diff(other).state("w", "windows", arrow=True).to_pylist()
    assert [(row["change"], row["key"], row["window_start"]) for row in changes] == [("only_there", "a", 0)]


ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=12)


def table(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.int64())})


@law
@given(ROWS, ROWS)
def test_differences_are_those_of_dicts_and_of_bags(one, other):
    here, there = dict(one), dict(other)
    told = differences(Shown(table(list(here.items())), ("k",)), Shown(table(list(there.items())), ("k",)))
    expected = {(k, here.get(k), there.get(k)) for k in {*here, *there} if here.get(k) != there.get(k)}
    assert {(row["k"], row["here_v"], row["there_v"]) for row in told.to_pylist()} == expected
    bags = differences(Shown(table(one), ()), Shown(table(other), ())).to_pylist()
    more = [(row["k"], row["v"]) for row in bags if row["change"] == "only_here"]
    fewer = [(row["k"], row["v"]) for row in bags if row["change"] == "only_there"]
    assert sorted([*other, *more]) == sorted([*one, *fewer])
    assert not set(more) & set(fewer)
