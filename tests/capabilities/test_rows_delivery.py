"""Rows 69, 70, 72, 74, 75 and 77: how often a record shows, chosen per job and per sink, refused, and told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    Committer,
    DiscardingSink,
    Encoder,
    FileSink,
    KafkaRecordSerializationSchema,
    KafkaSink,
    PrintSink,
    SimpleStringSchema,
    Sink,
    SinkWriter,
    Types,
    WriterContext,
)
from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from flintstream.datastream.connectors.redis import RedisSink
from flintstream.errors import UnsupportedError
from flintstream.model.delivery import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    DIRECT,
    EAGER,
    EXACTLY_ONCE,
    NO_GUARANTEE,
    Delivery,
)
from tests.capabilities.support import Lists
from tests.delivery.deaths import die_and_recover

GUARANTEES = Path(__file__).parents[2] / "docs" / "concepts" / "guarantees.md"
BEFORE, AFTER = "before the manifest", "after the manifest"
PAIRS = [("a", 1), ("b", 1), ("a", 1), ("b", 1), ("a", 1), ("b", 1)]


@pytest.mark.row(69, 70, 72)
@pytest.mark.parametrize(
    ("guarantee", "phase", "sums"),
    [
        ("exactly-once", BEFORE, [1, 1, 2, 2, 3, 3]),
        ("exactly-once", AFTER, [1, 1, 2, 2, 3, 3]),
        ("at-least-once", BEFORE, [1, 1, 2, 2, 2, 2, 3, 3]),
        ("at-most-once", AFTER, [1, 1, 3, 3]),
    ],
)
def test_one_setting_switches_the_modes(new_env, tmp_path, guarantee, phase, sums):
    sink = CollectSink()

    def declare(env: Any) -> None:
        env.set_guarantee(guarantee)
        env.from_source(Lists(PAIRS)).key_by(0).sum(1).sink_to(sink)
        assert env.guarantee().guarantee.value == guarantee

    _, found = die_and_recover(
        lambda: new_env(1, max_records=2, checkpoint_dir=tmp_path), declare, phase, lambda: sink.results
    )
    # State counts exactly once in every mode: only output is lost or doubled.
    assert sorted(total for _, total in found) == sums


def rows_in(folder: Path) -> list[Any]:
    files = [path for path in folder.rglob("*.json") if ".flintstream" not in path.parts]
    return sorted(json.loads(line)["value"] for path in files for line in path.read_text().splitlines())


@pytest.mark.row(74)
def test_dirty_rows_are_seen_and_then_gone(new_env, tmp_path):
    folder, polled = tmp_path / "out", []

    def declare(env: Any) -> None:
        env.from_source(Lists(range(6))).sink_to(FileSink.json(folder), isolation="read_uncommitted").uid("out")
        env.add_listener(lambda manifest, *_: polled.append((manifest.epoch, rows_in(folder))))

    dirty, found = die_and_recover(
        lambda: new_env(1, max_records=2, checkpoint_dir=tmp_path / "checkpoint"),
        declare,
        BEFORE,
        lambda: rows_in(folder),
    )
    assert dirty == [0, 1, 2, 3]
    assert found == list(range(6))
    assert polled == [(1, [0, 1]), (2, [0, 1, 2, 3]), (3, list(range(6)))]


class TwoPhase(Sink):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        raise NotImplementedError

    def create_committer(self) -> Committer:
        raise NotImplementedError


class WritesAtOnce(TwoPhase):
    delivery = "at-least-once"


def kafka(prefix: str | None) -> KafkaSink:
    values = (
        KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema())
    )
    builder = KafkaSink.builder().set_bootstrap_servers("localhost:1").set_record_serializer(values.build())
    return (builder if prefix is None else builder.set_transactional_id_prefix(prefix)).build()


def all_sinks(folder: Path) -> dict[str, Sink]:
    where = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop").build()
    url = "redis://localhost:1/0"
    return {
        "`FileSink`": FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build(),
        "`print()`, `PrintSink`": PrintSink(),
        "`CollectSink`": CollectSink(),
        "`DiscardingSink`": DiscardingSink(),
        "`KafkaSink` with a transactional id prefix": kafka("mine"),
        "`KafkaSink` without": kafka(None),
        "`JdbcSink.append`": JdbcSink.append("t", where),
        "`JdbcSink.upsert`": JdbcSink.upsert("t", "id", where),
        "`JdbcSink.exactly_once_sink`": JdbcSink.exactly_once_sink(
            "insert into t values (?)", Types.ROW([Types.INT()]), where
        ),
        "`JdbcSink.sink`": JdbcSink.sink("insert into t values (?)", Types.ROW([Types.INT()]), where),
        "`RedisSink.set`": RedisSink.set(url, "k:{id}", "{v}"),
        "`RedisSink.hash`": RedisSink.hash(url, "k:{id}"),
        "`RedisSink.increment`": RedisSink.increment(url, "k:{id}", "n", "1"),
        "your own, which stages and commits": TwoPhase(),
        'your own, which writes at once (`delivery = "at-least-once"`)': WritesAtOnce(),
    }


COLUMNS = (EXACTLY_ONCE, EAGER, AT_LEAST_ONCE, DIRECT, AT_MOST_ONCE, NO_GUARANTEE)


@pytest.mark.row(75)
def test_the_table_of_sinks_is_what_the_sinks_say(tmp_path):
    def cell(sink: Sink, way: Delivery) -> str:
        return "**yes**" if way == sink.deliveries()[0] else "yes" if way in sink.deliveries() else ""

    table = [[name, *(cell(sink, way) for way in COLUMNS)] for name, sink in all_sinks(tmp_path).items()]
    lines = GUARANTEES.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| sink |"))
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 2 :] if line.startswith("|")
    ][: len(table)]
    assert shown == table


@pytest.mark.row(75)
def test_every_cell_of_the_table_builds_or_is_refused(new_env, tmp_path):
    built = refused = 0
    for sink in all_sinks(tmp_path).values():
        for way in COLUMNS:
            env = new_env()
            env.from_collection([1]).sink_to(sink, guarantee=way.guarantee, isolation=way.isolation).name("out")
            if way in sink.deliveries():
                built += 1
                assert env.guarantee().sinks[0].delivery == way
            else:
                refused += 1
                possible = re.escape(" | ".join(map(str, sink.deliveries())))
                with pytest.raises(
                    UnsupportedError, match=rf"cannot be .*; test_rows_delivery.py:\d+; .* can be {possible}"
                ):
                    env.compile()
    assert built > 30
    assert refused > 30


@pytest.mark.row(77)
@pytest.mark.spark
def test_a_socket_is_the_weakest_link(make_env, spark_session, tmp_path):
    lines = spark_session.readStream.format("socket").option("host", "localhost").option("port", "1").load()
    env = make_env("spark", checkpoint_dir=tmp_path)
    env.from_dataframe(lines).name("socket").map(str).sink_to(CollectSink())
    assert str(env.guarantee()).startswith("at-most-once: source 'socket' is not replayable (test_rows_delivery.py:")
    assert env.explain().splitlines()[-1] == f"Guarantee: {env.guarantee()}"
    rate = spark_session.readStream.format("rate").load()
    env = make_env("spark", checkpoint_dir=tmp_path)
    env.from_dataframe(rate).sink_to(CollectSink())
    assert str(env.guarantee()).startswith("exactly-once: every source is replayable")


@pytest.mark.row(77)
def test_the_weakest_link_is_named(make_env, tmp_path):
    env = make_env("local", checkpoint_dir=tmp_path)
    stream = env.from_collection([1])
    stream.sink_to(CollectSink())
    assert str(env.guarantee()).startswith("exactly-once: ")
    stream.print().name("screen")
    assert str(env.guarantee()).startswith("at-least-once: sink 'screen' is at-least-once (test_rows_delivery.py:")
