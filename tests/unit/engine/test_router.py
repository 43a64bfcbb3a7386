"""Routing: every record arrives once, in order, at the partition that its exchange chooses."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.engine.envelope import Envelope, Sender, read_blob
from flintstream.engine.router import Router, keys_of
from flintstream.graph.nodes import Exchange, Upstream
from flintstream.ops.batch import Batch, Values
from flintstream.ops.selectors import ConstantKey, FieldKey, FunctionKey, KeySource
from flintstream.planner.plan import Link, Plan
from flintstream.state.keygroups import group_range, hash_key
from tests.unit.graphs import Sketch
from tests.unit.values import LAW, exactly, key_columns, law

SENDER = Sender(5, 1)
GROUPS = 128


def plan_with(exchange: Exchange, parallelism: int) -> tuple[Plan, Link]:
    sketch = Sketch()
    source = sketch.source()
    target = sketch.function(Upstream(source, exchange=exchange), shape="process", parallelism=parallelism)
    sketch.sink(target)
    plan = sketch.plan(parallelism=1)
    return plan, plan.links_to(target)[0]


def router_of(exchange: Exchange, parallelism: int, partition: int = 0) -> tuple[Router, Link]:
    plan, link = plan_with(exchange, parallelism)
    return Router(link, plan.operator(link.target), GROUPS, partition), link


def batch_of(rows: list[Any], first: int = 0) -> Batch:
    count = len(rows)
    positions = np.arange(first, first + count)
    stamp = [np.zeros(count, np.int64), np.full(count, 3), positions]
    return Batch(Values(rows), positions + 100, stamp, positions, Values(rows))


def received(link: Link, envelopes: list[Envelope]) -> dict[int, list[tuple[Any, Any, int, int]]]:
    """Return (value, key, timestamp, position) of every record, by partition, in the order of arrival."""
    found: dict[int, list[tuple[Any, Any, int, int]]] = {}
    for row in envelopes:
        assert (row.edge, row.level, row.target, row.producer) == (link.edge, 1, row.partition, 5)
        batch, chunk = read_blob(row.blob)
        assert chunk == [0]
        batch = keys_of(link, batch)
        keys = batch.keys.rows() if batch.keys is not None else [None] * len(batch)
        columns = (batch.values.rows(), keys, batch.timestamps.tolist(), batch.stamp[2].tolist())
        found.setdefault(row.partition, []).extend(zip(*columns, strict=True))
    return found


def route(router: Router, rows: list[Any], cuts: list[int]) -> list[Envelope]:
    bounds = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
    pieces = [batch_of(rows[a:b], a) for a, b in itertools.pairwise(bounds)]
    return [row for piece in pieces for row in router.route(piece, SENDER, [0])]


def first_of(record: Any) -> Any:
    return record[0]


EXCHANGES = [
    Exchange("HASH", FunctionKey(first_of)),
    Exchange("HASH", FieldKey((0,))),
    Exchange("HASH", FieldKey((0, 1))),
    Exchange("HASH", ConstantKey()),
    Exchange("REBALANCE"),
    Exchange("RESCALE"),
    Exchange("SHUFFLE"),
    Exchange("GLOBAL"),
    Exchange("FORWARD"),
    Exchange("CUSTOM", FunctionKey(first_of), lambda key, count: hash_key(key)),
]
CUTS = st.lists(st.integers(0, 12), max_size=3)
WIDTHS = st.integers(1, 5)


@settings(LAW, max_examples=3 * LAW.max_examples)
@given(exchange=st.sampled_from(EXCHANGES), rows=key_columns(max_size=8), cuts=CUTS, width=WIDTHS)
def test_every_record_arrives_once_and_in_order(
    exchange: Exchange, rows: list[Any], cuts: list[int], width: int
) -> None:
    records = [(row, index % 2) for index, row in enumerate(rows)]
    router, link = router_of(exchange, width) if exchange.kind != "FORWARD" else crossing_forward(width)
    arrived = received(link, route(router, records, cuts))
    everything = sorted((each for part in arrived.values() for each in part), key=lambda each: each[3])
    assert exactly([value for value, *_ in everything]) == exactly(records)
    assert [(timestamp, position) for _, _, timestamp, position in everything] == [
        (100 + index, index) for index in range(len(records))
    ]
    for part in arrived.values():
        assert [position for *_, position in part] == sorted(position for *_, position in part)
    assert router.sent == {partition: len(part) for partition, part in arrived.items()}


def test_an_attempt_of_an_epoch_spreads_records_as_another_did() -> None:
    """However many records the process has sent before: else the partitions would hold what two attempts sent."""
    router, link = router_of(Exchange("REBALANCE"), 3, partition=1)
    shares: list[Any] = []
    for epoch in (7, 8, 7):
        router.begin(epoch)
        shares.append(received(link, route(router, list(range(5)), [2])))
        assert router.sent == {partition: len(part) for partition, part in shares[-1].items()}
    assert shares[0] == shares[2] != shares[1]


def crossing_forward(width: int) -> tuple[Router, Link]:
    """A forward link that crosses a level, because another way to its target is longer."""
    sketch = Sketch()
    source = sketch.source()
    counted = sketch.function(Upstream(source, exchange=Exchange("REBALANCE")), parallelism=width)
    joined = sketch.function([source, counted])
    sketch.sink(joined)
    plan = sketch.plan(parallelism=1)
    link = plan.links_to(joined)[0]
    return Router(link, plan.operator(joined), GROUPS, 0), link


KEYS = [FunctionKey(first_of), FieldKey((0,)), FieldKey((0, 1))]


@law
@given(key=st.sampled_from(KEYS), rows=key_columns(max_size=10), cuts=CUTS, width=WIDTHS)
def test_a_key_goes_to_the_owner_of_its_group_and_arrives_with_its_record(
    key: KeySource, rows: list[Any], cuts: list[int], width: int
) -> None:
    records = [(row, index % 2) for index, row in enumerate(rows)]
    router, link = router_of(Exchange("HASH", key), width)
    for partition, part in received(link, route(router, records, cuts)).items():
        mine = group_range(partition, width, GROUPS)
        for value, found, _, _ in part:
            wanted = value if isinstance(key, FieldKey) and len(key.fields) == 2 else value[0]
            assert exactly(found) == exactly(wanted)
            assert hash_key(wanted) % GROUPS in mine


@pytest.mark.parametrize("kind", ["REBALANCE", "RESCALE"])
@law
@given(
    count=st.integers(0, 40), cuts=st.lists(st.integers(0, 40), max_size=6), width=WIDTHS, partition=st.integers(0, 6)
)
def test_rebalancing_is_even_within_one(kind: str, count: int, cuts: list[int], width: int, partition: int) -> None:
    router, _ = router_of(Exchange(kind), width, partition)
    route(router, list(range(count)), cuts)
    counts = [router.sent.get(target, 0) for target in range(width)]
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1


def test_shuffling_spreads_records_but_does_not_depend_on_batches() -> None:
    targets: list[dict[int, int]] = []
    for cuts in ([], list(range(0, 4000, 70))):
        router, link = router_of(Exchange("SHUFFLE"), 4)
        found = received(link, route(router, list(range(4000)), cuts))
        targets.append({value: partition for partition, part in found.items() for value, *_ in part})
        assert all(values == sorted(values) for values in ([value for value, *_ in part] for part in found.values()))
    assert targets[0] == targets[1]
    counts = Counter(targets[0].values())
    assert min(counts.values()) > 900


def test_broadcasting_sends_everything_to_everyone() -> None:
    router, link = router_of(Exchange("BROADCAST"), 3)
    arrived = received(link, route(router, ["a", "b"], []))
    assert {partition: [value for value, *_ in part] for partition, part in arrived.items()} == {
        0: ["a", "b"],
        1: ["a", "b"],
        2: ["a", "b"],
    }
    assert router.sent == {0: 2, 1: 2, 2: 2}


def test_a_partitioner_of_the_users_chooses_and_is_kept_in_bounds() -> None:
    exchange = Exchange("CUSTOM", FunctionKey(lambda record: record), lambda key, count: key * 10 + count)
    router, link = router_of(exchange, 3)
    arrived = received(link, route(router, [0, 1, 2, 5], []))
    assert {value: partition for partition, part in arrived.items() for value, *_ in part} == {0: 0, 1: 1, 2: 2, 5: 2}


def test_equal_keys_of_different_types_meet() -> None:
    router, link = router_of(Exchange("HASH", FunctionKey(first_of)), 5)
    records = [(1, "int"), (1.0, "float"), (True, "bool")]
    assert len(received(link, route(router, records, [1, 2]))) == 1
