"""The job that the tests kill: it counts the words of a topic and writes every count to another, exactly once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from flintstream import (
    Configuration,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from flintstream.common.serialization import SerializationSchema, SimpleStringSchema
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

TIMEOUT = "default.api.timeout.ms"


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        number = (self._count.value() or 0) + 1
        self._count.update(number)
        yield f"{value}:{number}"


class Word(SerializationSchema):
    def serialize(self, element: str) -> bytes:
        return element.partition(":")[0].encode()


def sink(
    servers: str,
    topic: str,
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
    prefix: str = "",
    **properties: str,
) -> KafkaSink:
    """Return a sink of counts, with the word as key."""
    record = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(Word())
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_delivery_guarantee(guarantee)
    builder.set_record_serializer(record.set_value_serialization_schema(SimpleStringSchema()).build())
    for name, value in properties.items():
        builder.set_property(name.replace("_", "."), value)
    return builder.set_transactional_id_prefix(prefix or f"to-{topic}").build()


def declare(
    env: StreamExecutionEnvironment, servers: str, given: str, wanted: str, *, bounded: bool, **more: str
) -> None:
    """Declare the job: words of one topic, counted into another."""
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(given)
    builder.set_value_only_deserializer(SimpleStringSchema())
    for name, value in more.items():
        builder.set_property(name.replace("_", "."), value)
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    words = env.from_source(builder.build()).uid("in")
    counts = words.key_by(lambda word: word, Types.STRING()).process(Count(), Types.STRING()).uid("count")
    counts.sink_to(sink(servers, wanted, **more)).uid("out")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("servers", "input", "output", "checkpoints", "runtime"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--die", nargs=2, default=None)
    parser.add_argument("--records", default="0")
    given = parser.parse_args()
    if given.die is not None:
        from tests.kafka.faults import die_at

        die_at(given.die[0], int(given.die[1]))
    settings = Configuration.from_dict({"flintstream.epoch.max-records": given.records})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=given.runtime).set_parallelism(2)
    env.set_checkpoint_dir(given.checkpoints)
    declare(env, given.servers, given.input, given.output, bounded=True)
    env.execute("counts")


if __name__ == "__main__":
    main()
