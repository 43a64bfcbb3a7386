"""What the tests need of a broker besides the product: topics, records in, and the records that a reader sees."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from flintstream import StreamExecutionEnvironment
from flintstream.common.serialization import SimpleStringSchema
from flintstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder

PATIENCE = 60.0
QUIET = {"log_level": 0}


class Seen(NamedTuple):
    """A record that a reader has seen."""

    partition: int
    offset: int
    key: str | None
    value: str | None
    timestamp: int
    headers: dict[str, bytes | None]


class Cluster:
    """A running broker, as its users see it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, **QUIET})

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        """Make a topic and return its name, which no other has unless one is given."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        self._admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(PATIENCE)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        place = TopicPartition(topic, partition, offset)
        for future in self._admin.delete_records([place]).values():
            future.result(PATIENCE)

    def send(self, topic: str, values: Iterable[Any], partition: int = 0, transaction: str | None = None) -> None:
        """Write values; one may be (value, timestamp), (value, timestamp, key), or with headers behind."""
        producer = Producer({"bootstrap.servers": self.servers, **QUIET, **_named(transaction)})
        if transaction:
            producer.init_transactions(PATIENCE)
            producer.begin_transaction()
        for value in values:
            text, *rest = value if isinstance(value, tuple) else (value,)
            more: dict[str, Any] = dict(zip(("timestamp", "key", "headers"), rest, strict=False))
            producer.produce(topic, value=text, partition=partition, **more)
        if transaction:
            producer.commit_transaction(PATIENCE)
        assert producer.flush(PATIENCE) == 0

    def open_transaction(self, topic: str, values: Iterable[str], partition: int = 0) -> Producer:
        """Begin a transaction that writes values, and leave it open."""
        producer = Producer({"bootstrap.servers": self.servers, **QUIET, **_named(uuid.uuid4().hex)})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, partition=partition)
        producer.flush(PATIENCE)
        return producer

    def seen(self, topic: str, isolation: str = "read_committed") -> list[Seen]:
        """Return all records that a reader sees, partition by partition.

        A transaction that is committed shows a moment later, when all its partitions know: that is waited for.
        """
        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"reader-{uuid.uuid4().hex}",
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        partitions = list(self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
        places = [TopicPartition(topic, number, 0) for number in partitions]
        if isolation == "read_committed":
            self._settle(places)
        reader.assign(places)
        ended: set[int] = set()
        found: list[Seen] = []
        while len(ended) < len(partitions):
            message = reader.poll(PATIENCE)
            assert message is not None, "the broker gives nothing"
            if message.error():
                ended.add(message.partition())
                continue
            key, value = message.key(), message.value()
            found.append(
                Seen(
                    message.partition(),
                    message.offset(),
                    None if key is None else key.decode(),
                    None if value is None else value.decode(),
                    message.timestamp()[1],
                    dict(message.headers() or []),
                )
            )
        reader.close()
        return sorted(found)

    def settle(self, topic: str) -> None:
        """Return when no transaction is open in a topic."""
        partitions = self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        self._settle([TopicPartition(topic, number, 0) for number in partitions])

    def _settle(self, places: list[TopicPartition]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._is_settled(places):
            assert time.monotonic() < deadline, "a transaction is still open"
            time.sleep(0.01)

    def _is_settled(self, places: list[TopicPartition]) -> bool:
        try:
            return self._ends(places, True) == self._ends(places, False)
        except KafkaException as error:
            # A topic that was made a moment ago.
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False

    def _ends(self, places: list[TopicPartition], committed: bool) -> list[int]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        found = self._admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
        return [found[place].result(PATIENCE).offset for place in places]

    def values(self, topic: str, isolation: str = "read_committed") -> list[str]:
        return [str(each.value) for each in self.seen(topic, isolation)]

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": group, **QUIET})
        try:
            return reader.committed([TopicPartition(topic, partition)], timeout=PATIENCE)[0].offset
        finally:
            reader.close()

    def source(self, *topics: str, until: Any = KafkaOffsetsInitializer.latest()) -> KafkaSourceBuilder:  # noqa: B008
        """Return a source of strings, by default of what is there now."""
        builder = KafkaSource.builder().set_bootstrap_servers(self.servers)
        builder.set_value_only_deserializer(SimpleStringSchema())
        if topics:
            builder.set_topics(*topics)
        return builder if until is None else builder.set_bounded(until)


class Running:
    """A job in the background whose commits can be waited for; leaving the block stops it between two epochs."""

    def __init__(self, env: StreamExecutionEnvironment, name: str = "job") -> None:
        self._changed = threading.Condition()
        self.manifest: Any = None
        env.add_listener(self._note)
        self._client = env.execute_async(name)

    def _note(self, manifest: Any, reports: Any, seconds: float) -> None:
        with self._changed:
            self.manifest = manifest
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[Any], bool]) -> None:
        """Wait until a committed manifest fulfils a condition."""
        with self._changed:
            ended = self._client.get_job_execution_result()
            while self.manifest is None or not condition(self.manifest):
                if ended.done():
                    ended.result(0)
                    raise AssertionError("the job ended before that")
                self._changed.wait(0.2)

    def wait_for_records(self, number: int) -> None:
        """Wait until so many records have been read, in this and former runs, and committed."""
        self.wait_for(lambda m: sum(sum(p.values()) for p in m.positions.values()) >= number)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.cancel().result(PATIENCE)


def _named(transaction: str | None) -> dict[str, str]:
    return {} if transaction is None else {"transactional.id": transaction}
