"""Each guarantee of the sink of Kafka, whose driver dies between two steps of a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintstream import SimpleStringSchema
from flintstream.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from tests.delivery.servers import CASES, at_death_and_end
from tests.kafka.broker import Cluster

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(("guarantee", "phase", "at_death", "at_end"), CASES)
def test_records_are_lost_and_doubled_as_promised(
    cluster: Cluster, tmp_path: Path, guarantee: str, phase: str, at_death: list[int], at_end: list[int]
) -> None:
    topic = cluster.topic(1)
    values = KafkaRecordSerializationSchema.builder().set_topic(topic)
    values.set_value_serialization_schema(SimpleStringSchema())

    def make() -> KafkaSink:
        builder = KafkaSink.builder().set_bootstrap_servers(cluster.servers).set_record_serializer(values.build())
        return builder.set_transactional_id_prefix(f"to-{topic}").build()

    found = at_death_and_end(
        make, str, lambda: [int(value) for value in cluster.values(topic)], guarantee, phase, tmp_path
    )
    assert found == (at_death, at_end)
