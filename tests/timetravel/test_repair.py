"""Repair: only corrections, shown first; what the replay cannot judge is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import CollectSink, DictSink, Row, RowKind, repair
from flintstream.errors import InvalidArgumentError, SinkError
from tests.capabilities.support import Lists
from tests.timetravel.log import filled
from tests.timetravel.programs import orders, totals, windows


@pytest.fixture
def local(make_env: Any) -> Any:
    return lambda **settings: make_env("local", **settings)


class Counting(DictSink):
    """Counts what is written to it."""

    writes = 0

    def take(self, values: Any) -> None:
        values = list(values)
        Counting.writes += len(values)
        super().take(values)


def test_only_what_is_wrong_is_sent_and_only_when_it_is_asked_for(local, tmp_path):
    log, sink = filled(tmp_path / "log", a=orders(5, 7, -2, 1)), Counting("customer")
    sink.table.update({"ann": {"customer": "ann", "paid": 8}, "bob": {"customer": "bob", "paid": 7}})
    sink.table["eve"] = {"customer": "eve", "paid": 1}
    before, Counting.writes = {**sink.table}, 0
    found = repair(local(), totals(log, sink))
    assert sink.table == before and not found.is_applied
    assert [(each.kind, each.key, each.was, each.now) for each in found.corrections] == [
        ("update", ("bob",), {"customer": "bob", "paid": 7}, {"customer": "bob", "paid": 3})
    ]
    assert (found.right, found.left_alone) == (1, 1)
    assert str(found).splitlines() == [
        "out: 0 inserts, 1 updates, 0 deletes to send (nothing was sent); 1 rows are right, 1 were left alone",
        "  do      customer  paid was  paid",
        "  update  bob       7         3",
    ]
    assert found.table().to_pylist() == [{"do": "update", "customer": "bob", "paid was": 7, "paid": 3}]
    done = found.apply()
    assert done.is_applied and done.apply() is done and "1 updates, 0 deletes sent;" in str(done)
    assert sink.table == {**before, "bob": {"customer": "bob", "paid": 3}}
    assert Counting.writes == 1
    assert repair(local(), totals(log, sink), apply=True).corrections == []
    assert Counting.writes == 1


def test_rows_that_the_mended_program_does_not_give_go_if_the_wrong_one_gave_them(local, tmp_path):
    log, sink = filled(tmp_path / "log", a=orders(*[1] * 9, start=8000)), DictSink(["customer", "start"])
    older = {"customer": "bob", "start": -10_000, "n": 1}
    held = {
        (row["customer"], row["start"]): row
        for row in [older, *({"customer": c, "start": 0, "n": 1} for c in ("ann", "bob"))]
    }
    sink.table.update(held)
    mended, wrong = windows(log, sink, least=1), windows(log, sink)
    assert repair(local(), mended).corrections == []
    found = repair(local(), mended, wrong=wrong, apply=True)
    assert [(each.kind, each.key) for each in found.corrections] == [("delete", ("ann", 0)), ("delete", ("bob", 0))]
    assert list(sink.table.values()) == [older] and found.left_alone == 1
    sink.table.update(held)
    found = repair(local(), mended, covers=lambda row: row["start"] >= 0)
    assert sorted(each.key for each in found.corrections) == [("ann", 0), ("bob", 0)]


def test_a_sink_that_cannot_be_asked_holds_what_the_wrong_program_gave_or_what_is_said(local, tmp_path):
    log, sink = filled(tmp_path / "log", a=orders(5, 7, -2, 1)), CollectSink()
    mended, wrong = totals(log, sink), totals(log, sink, is_right=False)
    found = repair(local(), mended, wrong=wrong, key="customer", apply=True)
    assert sink.results == [Row(customer="bob", paid=3)]
    assert found.corrections[0].was == {"customer": "bob", "paid": 7}
    found = repair(local(), mended, holds=lambda: [{"customer": "bob", "paid": 3}], key="customer")
    assert [(each.kind, each.key) for each in found.corrections] == [("insert", ("ann",))]
    found = repair(local(), mended, holds=[{"customer": "eve", "paid": 3}], covers=lambda row: True, key=["customer"])
    assert [each.kind for each in found.corrections] == ["insert", "insert", "delete"]
    assert found.corrections[-1].record() == Row.of_kind(RowKind.DELETE, customer="eve", paid=3)


def two_sinks(env: Any) -> None:
    numbers = env.from_source(Lists([("x", 1)]))
    numbers.sink_to(DictSink("f0")).uid("one")
    numbers.sink_to(CollectSink()).uid("two")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "has 2 sinks; .*name the one to mend: 'one', 'two'"),
        ({"sink": "three"}, "no sink 'three'"),
        ({"sink": "two"}, "by which fields"),
        ({"sink": "two", "key": "f0"}, "nobody says what CollectSink 'two' holds"),
        ({"sink": "one", "key": "f1"}, "the sink's is f0"),
        ({"sink": "two", "key": []}, "name one field or more"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(local, options, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        repair(local(), two_sinks, **options)
    assert "test_repair.py:" in str(caught.value)


def test_rows_without_the_key_are_told(local):
    with pytest.raises(InvalidArgumentError, match="no field 'x', but f0, f1"):
        repair(local(), two_sinks, sink="two", key="x", holds=[])


def test_a_dict_takes_the_last_of_each_key_and_what_takes_it_back(local):
    sink = DictSink(["id"])
    rows = [Row(id=1, n=1), Row(id=2, n=1), Row.of_kind(RowKind.UPDATE_BEFORE, id=1, n=1), Row(id=1, n=2)]
    rows.append(Row.of_kind(RowKind.DELETE, id=2, n=1))
    env = local(parallelism=1)
    env.from_source(Lists(rows)).sink_to(sink)
    env.execute()
    assert sink.table == {1: {"id": 1, "n": 2}}


def test_a_dict_refuses_records_without_its_key(local):
    env = local()
    env.from_source(Lists([{"a": 1}])).sink_to(DictSink("b"))
    with pytest.raises(SinkError, match="no field 'b', but a"):
        env.execute()
    with pytest.raises(InvalidArgumentError, match=r"the key is \[\]; test_repair"):
        DictSink([])
