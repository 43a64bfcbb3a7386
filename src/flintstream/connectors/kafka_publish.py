"""Publishes what an epoch has staged for Kafka, after its commit and in the driver: each record once, whatever dies.

Every share (what one subtask staged) is one transaction, which also commits the epoch's number as an offset of a group
of its own. So a driver that does not know whether its predecessor got a share out asks for that offset: the transaction
took all or nothing. Asking comes after `init_transactions`, which ends whatever the predecessor had left open, and
shuts out a predecessor that is not dead but slow. The group's name holds the job's incarnation: a job that starts anew
counts its epochs from 1 again, and must not take those of its former life for its own.

Flink: KafkaCommitter and its transactional producers, which pre-commit in the tasks instead.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flintstream.connectors.kafka_client import GROUP, code_of, is_lasting, library, reason_of, shared_settings
from flintstream.connectors.kafka_write import SCHEMA, KafkaTarget, send
from flintstream.errors import SinkError, describe
from flintstream.model.connect import Committer

PUBLISHERS = 8
TRANSACTION_MS = 900_000
"""How long a transaction may stay open, by default of brokers at most; then those who wait behind it are let go."""
TOPIC_MS = 30_000
"""How long to wait for a topic to come up, unless `topic.metadata.propagation.max.ms` says otherwise."""
ATTEMPT_SECONDS = 30.0
_PAUSE = 0.1


@dataclass(frozen=True)
class Share:
    """What one subtask has staged in an epoch: functions that return pieces of it."""

    pieces: Sequence[Callable[[], bytes]]

    @staticmethod
    def of(committable: Any) -> Share:
        """Return the share of a committable: bytes, or pieces in the checkpoint directory."""
        return Share([lambda: committable] if isinstance(committable, bytes) else committable["pieces"])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its records, a piece at a time."""
        for piece in self.pieces:
            with pa.ipc.open_stream(piece()) as stream:
                yield from stream


class KafkaCommitter(Committer):
    """Publishes shares with a producer each, several at a time; producers are kept from epoch to epoch."""

    def __init__(self, target: KafkaTarget) -> None:
        self._target = target
        self._publishers: dict[str, Publisher] = {}

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        shares = [Share.of(each) for each in committables]
        with ThreadPoolExecutor(min(PUBLISHERS, max(1, len(shares)))) as pool:
            for done in [pool.submit(self._publish, uid, epoch, share) for share in shares]:
                done.result()

    def _publish(self, uid: str, epoch: int, share: Share) -> None:
        batches = share.batches()
        first = next(batches)
        metadata = {key.decode(): value.decode() for key, value in (first.schema.metadata or {}).items()}
        name = f"{self._target.prefix}-{uid}-{metadata['subtask']}"
        publisher = self._publishers.get(name)
        if publisher is None:
            publisher = self._publishers[name] = Publisher(self._target, name)
        publisher.publish(metadata["incarnation"], epoch, str(first.column("topic")[0]), share)


class Publisher:
    """One transactional producer. Whatever fails, it is thrown away, and a new one finds out what is so."""

    def __init__(self, target: KafkaTarget, name: str) -> None:
        self._target = target
        self._name = name
        self._producer: Any = None
        self._group: Any = None
        self._done: tuple[str, int] | None = None
        self._known: set[str] = set()
        # One that knew the brokers before they died may never get through to them again, where a new one does at once.
        self._brief = min(target.timeout, ATTEMPT_SECONDS)

    def publish(self, incarnation: str, epoch: int, topic: str, share: Share) -> None:
        """Send a share in one transaction, unless that was done before."""
        kafka = library()
        deadline = None
        while self._done is None or self._done[0] != incarnation or self._done[1] < epoch:
            try:
                if not self._is_published(incarnation, epoch, topic):
                    self._send(epoch, topic, share)
                self._done = (incarnation, epoch)
            except kafka.KafkaException as error:
                self._producer = None
                deadline = deadline or time.monotonic() + self._target.timeout
                if is_lasting(error) or _is_missing(error) or time.monotonic() > deadline:
                    raise self._failed(epoch, error) from None
                time.sleep(_PAUSE)

    def _is_published(self, incarnation: str, epoch: int, topic: str) -> bool:
        """Whether a former driver, or a former producer, got the share out."""
        if self._producer is not None and self._done is not None and self._done[0] == incarnation:
            return False
        kafka = library()
        # By default a client forgets brokers that are all down, and one that is in a transaction then waits for ever.
        settings = {"metadata.recovery.strategy": "none", **self._target.settings()}
        # A record that fails fails its transaction; to be told of those that do not costs more than to send them.
        settings = {"transaction.timeout.ms": TRANSACTION_MS, **settings, "delivery.report.only.error": True}
        self._producer = kafka.Producer({**settings, "transactional.id": self._name})
        self._producer.init_transactions(self._brief)
        group = f"flintstream-{self._name}-{incarnation}"
        if len(group) > 200:
            group = f"flintstream-{hashlib.blake2b(group.encode(), digest_size=16).hexdigest()}"
        settings = {"bootstrap.servers": self._target.servers, **shared_settings(self._target.properties)}
        reader = kafka.Consumer({**settings, GROUP: group, "enable.auto.commit": False})
        try:
            self._group = reader.consumer_group_metadata()
            (found,) = self._committed(reader, kafka.TopicPartition(topic, 0))
        finally:
            reader.close()
        return found.offset >= epoch

    def _committed(self, reader: Any, place: Any) -> Any:
        kafka = library()
        deadline = time.monotonic() + self._target.timeout
        while True:
            try:
                return reader.committed([place], timeout=self._target.timeout)
            except kafka.KafkaException as error:
                if is_lasting(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def _send(self, epoch: int, topic: str, share: Share) -> None:
        kafka, producer = library(), self._producer
        producer.begin_transaction()
        for batch in share.batches():
            for name in set(batch.column("topic").dictionary.to_pylist()) - self._known:
                self._await_topic(name)
            self._send_batch(batch)
        self._flush()
        marker = kafka.TopicPartition(topic, 0, epoch)
        producer.send_offsets_to_transaction([marker], self._group, self._brief)
        producer.commit_transaction(self._brief)

    def _send_batch(self, batch: pa.RecordBatch) -> None:
        producer = self._producer
        topic, key, value, timestamp, headers = (batch.column(field.name) for field in SCHEMA)
        # Arrow would make an object of its own of each entry of a dictionary.
        names, places = topic.dictionary.to_pylist(), topic.indices.to_numpy().tolist()
        columns = [key.to_pylist(), value.to_pylist(), timestamp.fill_null(-1).to_numpy().tolist()]
        if headers.null_count == batch.num_rows:
            for place, name, data, at in zip(places, *columns, strict=True):
                send(producer, names[place], name, data, at)
        else:
            for place, name, data, at, found in zip(places, *columns, headers.to_pylist(), strict=True):
                send(producer, names[place], name, data, at, [(each["name"], each["value"]) for each in found or ()])
        producer.poll(0)

    def _flush(self) -> None:
        """Return when the brokers have all records; that may take long, as long as they go on taking some."""
        kafka, producer = library(), self._producer
        left = len(producer)
        deadline = time.monotonic() + self._target.timeout
        while still := producer.flush(self._brief):
            if still < left:
                left, deadline = still, time.monotonic() + self._target.timeout
            elif time.monotonic() > deadline:
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))

    def _await_topic(self, name: str) -> None:
        """Return when a topic is there; asked for, since the client would wait for one that is not until it gives up.

        Brokers may make topics that are asked for, which takes a moment.
        """
        kafka = library()
        wait = int(self._target.properties.get("topic.metadata.propagation.max.ms", TOPIC_MS)) / 1000
        deadline = time.monotonic() + wait
        while (error := self._producer.list_topics(name, timeout=self._target.timeout).topics[name].error) is not None:
            if time.monotonic() > deadline:
                raise kafka.KafkaException(error)
            time.sleep(_PAUSE)
        self._known.add(name)

    def _failed(self, epoch: int, error: Any) -> SinkError:
        what = f"epoch {epoch} could not be published to Kafka at {self._target.servers} ({reason_of(error)})"
        remedy = "see that it runs and has the topic, and start the job again: it begins with that, and nothing is lost"
        return SinkError(describe(what, remedy=remedy))


def _is_missing(error: Any) -> bool:
    """Whether a topic is not there, which was waited for."""
    codes = library().KafkaError
    return code_of(error) in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION)
