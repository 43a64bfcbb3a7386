"""Kafka without a broker: what the builders refuse, how offsets are found, and what travels to the workers."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any

import pytest

from flintstream import StreamExecutionEnvironment
from flintstream.common.serialization import SimpleStringSchema
from flintstream.connectors.kafka_client import client_settings
from flintstream.connectors.kafka_offsets import Offsets
from flintstream.connectors.kafka_write import KafkaTarget, StagingWriter
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from flintstream.errors import DefinitionError, InvalidArgumentError, SourceError
from flintstream.model.connect import WriterContext

Begin, Reset = KafkaOffsetsInitializer, KafkaOffsetResetStrategy
A, B, C = (KafkaTopicPartition("t", number) for number in range(3))


class Brokers:
    """Three partitions that keep offsets 10 to 20; the group has committed 15 of the second, and 5 of the third."""

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 20)

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp: int) -> Offsets:
        return dict.fromkeys(partitions, timestamp)

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return {each: offset for each, offset in {B: 15, C: 5}.items() if each in partitions}


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (Begin.earliest(), [10, 10, 10]),
        (Begin.latest(), [20, 20, 20]),
        (Begin.timestamp(17), [17, 17, 17]),
        (Begin.offsets({A: 12}), [12, 15, 10]),
        (Begin.offsets({A: 99, B: 20}, Reset.LATEST), [20, 20, 20]),
        (Begin.committed_offsets(Reset.EARLIEST), [10, 15, 10]),
        (Begin.committed_offsets(Reset.LATEST), [20, 15, 20]),
    ],
)
def test_offsets_are_those_given_then_those_committed_then_reset(
    initializer: KafkaOffsetsInitializer, expected: list[int]
) -> None:
    found = initializer.resolve([A, B, C], Brokers())
    assert [found[each] for each in (A, B, C)] == expected


def test_an_end_may_be_yet_to_come_a_beginning_may_not() -> None:
    later = Begin.offsets({A: 99}, Reset.NONE)
    assert later.resolve([A], Brokers(), ending=True) == {A: 99}
    with pytest.raises(SourceError, match="partition t-0 has no offset 99: it keeps 10 to 20"):
        later.resolve([A], Brokers())
    with pytest.raises(SourceError, match="partition t-0 has no offset to begin at"):
        Begin.committed_offsets().resolve([A], Brokers())


def builder() -> KafkaSourceBuilder:
    ready = KafkaSource.builder().set_bootstrap_servers("a:1,b:2").set_topics("t")
    return ready.set_value_only_deserializer(SimpleStringSchema())


def record() -> Any:
    values = KafkaRecordSerializationSchema.builder().set_topic("t")
    return values.set_value_serialization_schema(SimpleStringSchema()).build()


BAD: dict[str, tuple[Any, str]] = {
    "no brokers": (lambda: KafkaSource.builder().set_topics("t").build(), "no Kafka brokers are named"),
    "no address": (lambda: KafkaSource.builder().set_bootstrap_servers("localhost"), "no list of Kafka brokers"),
    "no topic": (
        lambda: KafkaSource.builder().set_bootstrap_servers("a:1").build(),
        "no topic is named",
    ),
    "no topics": (lambda: KafkaSource.builder().set_topics(), "got no topic"),
    "no partitions": (lambda: KafkaSource.builder().set_partitions(set()), "got no partition"),
    "two choices": (lambda: builder().set_topic_pattern("x"), "is to read t already"),
    "a bad pattern": (lambda: KafkaSource.builder().set_topic_pattern("("), "no regular expression"),
    "no schema": (
        lambda: KafkaSource.builder().set_bootstrap_servers("a:1").set_topics("t").build(),
        "not said how values are read",
    ),
    "no value schema": (lambda: builder().set_value_only_deserializer("x"), "no DeserializationSchema"),  # type: ignore[arg-type]
    "no record schema": (lambda: builder().set_deserializer("x"), "no KafkaRecordDeserializationSchema"),  # type: ignore[arg-type]
    "no key schema": (
        lambda: KafkaRecordDeserializationSchema.rows(SimpleStringSchema(), "x"),  # type: ignore[arg-type]
        "key_deserialization_schema is 'x'",
    ),
    "no offsets": (lambda: builder().set_starting_offsets("earliest"), "says nothing about offsets"),  # type: ignore[arg-type]
    "no stop": (lambda: builder().set_bounded(5), "says nothing about offsets"),  # type: ignore[arg-type]
    "no end": (lambda: builder().set_unbounded(5), "says nothing about offsets"),  # type: ignore[arg-type]
    "an unknown property": (lambda: builder().set_property("no.such.thing", "1").build(), '"no.such.thing"'),
    "a bad value": (lambda: builder().set_property("fetch.wait.max.ms", "x").build(), "fetch.wait.max.ms"),
    "a bad interval": (lambda: builder().set_property("partition.discovery.interval.ms", "x").build(), "not a number"),
    "offsets by property": (
        lambda: builder().set_property("auto.offset.reset", "latest").build(),
        r"set_starting_offsets\(\.\.\.\)",
    ),
    "a negative partition": (lambda: KafkaTopicPartition("t", -1), "no partition -1"),
    "a negative offset": (lambda: Begin.offsets({A: -5}), "-5 is no offset"),
    "a negative time": (lambda: Begin.timestamp(-5), "-5 is no timestamp"),
    "no target": (lambda: KafkaRecordSerializationSchema.builder().build(), "not said which topic"),
    "an empty topic": (lambda: KafkaRecordSerializationSchema.builder().set_topic(""), "name is empty"),
    "no value": (lambda: KafkaRecordSerializationSchema.builder().set_topic("t").build(), "not said how values"),
    "no selector": (lambda: KafkaRecordSerializationSchema.builder().set_topic_selector(1), "chooses no topic"),  # type: ignore[arg-type]
    "no headers": (lambda: KafkaRecordSerializationSchema.builder().set_header_provider(1), "gives no headers"),  # type: ignore[arg-type]
    "no key": (
        lambda: KafkaRecordSerializationSchema.builder().set_key_serialization_schema("k"),  # type: ignore[arg-type]
        "no SerializationSchema",
    ),
    "no serializer": (lambda: KafkaSink.builder().set_bootstrap_servers("a:1").build(), "where records go"),
    "another serializer": (lambda: KafkaSink.builder().set_record_serializer(1), "no KafkaRecordSer"),  # type: ignore[arg-type]
    "no guarantee": (lambda: KafkaSink.builder().set_delivery_guarantee("once"), "no DeliveryGuarantee"),  # type: ignore[arg-type]
    "an empty prefix": (lambda: KafkaSink.builder().set_transactional_id_prefix(""), "prefix"),
    "no prefix": (
        lambda: (
            KafkaSink.builder()
            .set_bootstrap_servers("a:1")
            .set_record_serializer(record())
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .build()
        ),
        "set_transactional_id_prefix",
    ),
    "a prefix by property": (
        lambda: (
            KafkaSink.builder()
            .set_bootstrap_servers("a:1")
            .set_record_serializer(record())
            .set_property("transactional.id", "x")
            .build()
        ),
        "set_transactional_id_prefix",
    ),
}


@pytest.mark.parametrize("mistake", BAD)
def test_mistakes_are_refused_where_they_are_made(mistake: str) -> None:
    make, says = BAD[mistake]
    with pytest.raises(InvalidArgumentError, match=says):
        make()


def test_a_source_travels_without_its_connection_and_shows_no_property() -> None:
    source = builder().set_client_id_prefix("me").set_properties({"sasl.password": "hunter2"}).build()
    source._brokers()
    copy = pickle.loads(pickle.dumps(source))
    assert copy._log is None
    assert repr(copy) == "KafkaSource(t at a:1,b:2)"
    assert client_settings(copy._properties)["client.id"] == "me"


@pytest.mark.parametrize(
    ("value", "expected"), [(None, 300_000), ("50", 50), ("0", None), ("-1", None)], ids=["default", "50", "0", "-1"]
)
def test_how_often_partitions_are_looked_for(value: str | None, expected: int | None) -> None:
    ready = builder() if value is None else builder().set_property("partition.discovery.interval.ms", value)
    assert ready.build().discovery_interval_ms == expected
    assert ready.set_bounded(Begin.latest()).build().discovery_interval_ms is None


def test_column_expressions_behind_a_log_are_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    with pytest.raises(DefinitionError, match=r"where\(\.\.\.\).*test_kafka\.py:\d+.*filter"):
        env.from_source(builder().build()).where("value > 'a'")


def test_output_without_a_place_to_stage_goes_with_the_commit() -> None:
    target = KafkaTarget("a:1", {}, "x")
    writer = StagingWriter(target, lambda value: ("t", None, value, None), WriterContext("job", "out", 1, 0, "a"))
    assert writer.prepare_commit() is None
    writer = StagingWriter(target, lambda value: ("t", None, value, None), WriterContext("job", "out", 1, 0, "a"))
    writer.write([b"x" * 100_000], [0])
    assert isinstance(writer.prepare_commit(), bytes)
