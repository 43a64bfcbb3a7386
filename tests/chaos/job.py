"""The job of the chaos run: readings from Kafka, into windows and a function with timers, to PostgreSQL and Kafka.

Every number that comes out follows from the input alone, so a record that is lost, doubled, late or counted on top of
the wrong state shows. Each sink is exactly once. It runs for ever: what ends it is the run that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flintstream import (
    Configuration,
    DeliveryGuarantee,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Row,
    RuntimeContext,
    SimpleStringSchema,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    bounded,
    count,
    sum_of,
    tumbling,
)
from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from flintstream.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource

WINDOW_MS = 5_000
SLOT_MS = 20_000
DISORDER_MS = 1_000
CLOSING = -1
"""The key of records that only carry event time on."""
READING = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
RESULT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])
SLOTS = OutputTag("slots", RESULT)


def parse(text: str) -> Row:
    """Return the reading of a record: `number,key,value`."""
    _, key, value = text.split(",")
    return Row(key=int(key), value=int(value))


class Running(KeyedProcessFunction):
    """Emits `key,count,sum` for every reading, and by a timer what came in each slot of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", PAIR))
        self._slots = runtime_context.get_map_state(MapStateDescriptor("slots", Types.LONG(), PAIR))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        number, total = self._seen.value() or (0, 0)
        number, total = number + 1, total + value["value"]
        self._seen.update((number, total))
        slot = ctx.timestamp() // SLOT_MS * SLOT_MS
        if not self._slots.contains(slot):
            ctx.timer_service().register_event_time_timer(slot + SLOT_MS - 1)
        in_slot = self._slots.get(slot) or (0, 0)
        self._slots.put(slot, (in_slot[0] + 1, in_slot[1] + value["value"]))
        yield f"{ctx.get_current_key()},{number},{total}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        slot = timestamp + 1 - SLOT_MS
        number, total = self._slots.get(slot)
        self._slots.remove(slot)
        yield SLOTS, (ctx.get_current_key(), slot, number, total)


def kafka_sink(servers: str, topic: str) -> KafkaSink:
    """Return an exactly-once sink of text."""
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record.set_key_serialization_schema(FirstField()).set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(record.build())
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    return builder.set_transactional_id_prefix(f"chaos-{topic}").build()


class FirstField(SimpleStringSchema):
    """Writes the text before the first comma: the key."""

    def serialize(self, element: str) -> bytes:
        return element.partition(",")[0].encode()


def declare(env: StreamExecutionEnvironment, servers: str, database: JdbcConnectionOptions) -> None:
    """Declare the job; topics and tables have fixed names."""
    source = KafkaSource.builder().set_bootstrap_servers(servers).set_topics("readings").set_group_id("chaos")
    source.set_value_only_deserializer(SimpleStringSchema())
    texts = env.from_source(source.build(), bounded(f"{DISORDER_MS}ms")).uid("in")
    readings = texts.map(parse, READING).filter(lambda row: row["key"] != CLOSING)
    windows = readings.key_by("key").window(tumbling(f"{WINDOW_MS}ms")).agg(n=count(), total=sum_of("value"))
    rows = windows.uid("windows").map(lambda row: (row["key"], row["window_start"], row["n"], row["total"]), RESULT)
    rows.sink_to(JdbcSink.append("windows", database)).uid("windows-table")
    texts = rows.map(lambda row: ",".join(map(str, row)), Types.STRING())
    texts.sink_to(kafka_sink(servers, "windows")).uid("windows-topic")
    running = readings.key_by("key").process(Running(), Types.STRING()).uid("running")
    running.sink_to(kafka_sink(servers, "running")).uid("running-topic")
    running.get_side_output(SLOTS).sink_to(JdbcSink.append("slots", database)).uid("slots-table")


class Diary:
    """Writes a line for every start, and for every epoch whose output is out: the run reads how far the job is."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._write({"started": os.getpid(), "at": time.time()})

    def __call__(self, manifest: Any, reports: Any, seconds: float) -> None:
        read = sum(sum(by_split.values()) for by_split in manifest.positions.values())
        self._write({"epoch": manifest.epoch, "at": time.time(), "seconds": round(seconds, 3), "read": read})

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Run until someone ends it."""
    parser = argparse.ArgumentParser()
    for name in ("servers", "database", "password", "checkpoints", "diary", "runtime"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = Configuration.from_dict(dict(each.split("=", 1) for each in given.set))
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=given.runtime)
    env.set_parallelism(2).set_checkpoint_dir(given.checkpoints).enable_checkpointing(1000)
    env.add_listener(Diary(given.diary))
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(given.database)
    declare(env, given.servers, builder.with_user_name("flint").with_password(given.password).build())
    env.execute("chaos")


if __name__ == "__main__":
    main()
