"""Records into a topic of Kafka: exactly once by transactions, or sent at once (`--delivery at-least-once | none`).

The broker is started for the run, on this machine, and shares its cores. Records have a key and a value of `--size`
bytes; the topic has four partitions. Epochs have a fixed number of records.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "rivals"))
from confluent_kafka.admin import AdminClient, NewTopic
from cpu import cpu_per_million, cpu_seconds
from report import argument_parser, emit, scratch, steady

from flintstream import Configuration, NumberSequenceSource, StreamExecutionEnvironment, Types, WatermarkStrategy
from flintstream.common.serialization import RowFieldExtractorSchema
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from tools.kafka_broker import Broker

PARTITIONS = 4


def sink(servers: str, topic: str, guarantee: DeliveryGuarantee) -> KafkaSink:
    """Return a sink of (key, value), both bytes."""
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record.set_key_serialization_schema(RowFieldExtractorSchema(0))
    record.set_value_serialization_schema(RowFieldExtractorSchema(1))
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(record.build())
    return builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix(topic).build()


def main() -> None:
    parser = argument_parser(__doc__, events=4_000_000, keys=1_000)
    parser.add_argument("--delivery", choices=[each.value for each in DeliveryGuarantee], default="exactly-once")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--epoch-records", type=int, default=200_000, help="records of an epoch")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []
    used: list[tuple[int, float]] = []

    def sample(manifest: Any, reports: Any, seconds: float) -> None:
        done = max(c.get("in", 0) for c in manifest.counters.values())
        samples.append((time.monotonic(), done))
        used.append((done, cpu_seconds()))

    keys, padding = args.keys, b"x" * args.size
    with scratch("kafka-sink") as directory, Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.servers})
        admin.create_topics([NewTopic("numbers", PARTITIONS, 1)])["numbers"].result(60)
        settings = Configuration().set_integer("flintstream.epoch.max-records", args.epoch_records)
        env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=args.runtime)
        env.set_parallelism(args.parallelism).add_listener(sample).set_checkpoint_dir(str(directory))
        source = NumberSequenceSource(0, args.events - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        pair = Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.BYTE())] * 2)
        records = numbers.map(lambda n: (b"%d" % (n % keys), (b"%d," % n + padding)[: len(padding)]), pair)
        records.sink_to(sink(broker.servers, "numbers", DeliveryGuarantee(args.delivery)))
        env.execute("kafka sink")
    number, seconds = steady(samples, args.warmup * args.events)
    more = {
        "seconds_per_epoch": round(seconds / max(1, number // args.epoch_records), 3),
        "cpu_seconds_per_million": cpu_per_million(used, args.warmup * args.events),
    }
    emit(f"flintstream kafka sink, {args.delivery}", number, seconds, vars(args), **more)


if __name__ == "__main__":
    main()
