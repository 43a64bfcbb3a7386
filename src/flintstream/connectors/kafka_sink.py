"""Topics of Kafka as a sink: where records go and as which bytes, declared.

Flink: org.apache.flink.connector.kafka.sink.KafkaSink, as pyflink.datastream.connectors.kafka spells it.
Differs from Flink: exactly once is by staging (see `kafka_publish`), so no transaction is open while an epoch runs, and
readers see its records right after its commit. Keys are hashed as Java's producer hashes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from flintstream.connectors.formats import SerializationSchema
from flintstream.connectors.kafka_client import check_properties, check_servers
from flintstream.connectors.kafka_publish import KafkaCommitter
from flintstream.connectors.kafka_write import DirectWriter, KafkaTarget, NoCommitter, StagingWriter
from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.delivery import (
    AT_MOST_ONCE,
    DIRECT,
    EXACTLY_ONCE,
    NO_GUARANTEE,
    Delivery,
    DeliveryGuarantee,
)

_MOST_PREFIX_BYTES = 64_000


class ProducerRecord(NamedTuple):
    """A record as Kafka takes it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


class KafkaRecordSerializationSchema:
    """How a record becomes one of Kafka: topic, key, value, headers; made by its builder."""

    def __init__(
        self,
        topic: str | KafkaTopicSelector,
        value: SerializationSchema,
        key: SerializationSchema | None,
        headers: Callable[[Any], Any] | None,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()

    def serialize(self, element: Any) -> ProducerRecord:
        """Return the record of Kafka for one of the stream."""
        topic = self._topic if isinstance(self._topic, str) else self._topic.apply(element)
        key = None if self._key is None else self._key.serialize(element)
        headers = None if self._headers is None else _pairs(self._headers(element))
        return ProducerRecord(topic, key, self._value.serialize(element), headers)

    @property
    def target(self) -> str:
        """Where records go, for people to read."""
        return self._topic if isinstance(self._topic, str) else "topics chosen by record"


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers or ()
    return [(str(name), data.encode() if isinstance(data, str) else data) for name, data in pairs]


class KafkaRecordSerializationSchemaBuilder:
    """Collects how records are written; a topic, and how values are written, must be said."""

    def __init__(self) -> None:
        self._topic: str | KafkaTopicSelector | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._headers: Callable[[Any], Any] | None = None

    def set_topic(self, topic: str) -> Self:
        """Write all records to one topic."""
        if not topic:
            raise InvalidArgumentError(describe("the topic's name is empty", remedy="give a name"))
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: Callable[[Any], str] | KafkaTopicSelector) -> Self:
        """Choose the topic of each record, by a function of the record."""
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector
        elif callable(topic_selector):
            self._topic = _Selected(topic_selector)
        else:
            what = f"{topic_selector!r:.80} chooses no topic"
            raise InvalidArgumentError(describe(what, remedy="give a function of a record, or a KafkaTopicSelector"))
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Set how a record's key is made; records with one key stay in order. Without it they have none."""
        self._key = _checked(key_serialization_schema)
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Set how a record's value is made."""
        self._value = _checked(value_serialization_schema)
        return self

    def set_header_provider(self, header_provider: Callable[[Any], Any]) -> Self:
        """Set a function that returns a record's headers, as a dict or as pairs of a name and bytes or text."""
        if not callable(header_provider):
            what = f"{header_provider!r:.80} gives no headers"
            raise InvalidArgumentError(describe(what, remedy="give a function of a record"))
        self._headers = header_provider
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema."""
        if self._topic is None:
            what = "it is not said which topic records go to"
            raise InvalidArgumentError(describe(what, remedy='set_topic("...") or set_topic_selector(...)'))
        if self._value is None:
            what = "it is not said how values are written"
            raise InvalidArgumentError(describe(what, remedy="set_value_serialization_schema(SimpleStringSchema())"))
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key, self._headers)


class _Selected(KafkaTopicSelector):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def apply(self, data: Any) -> str:
        return self._function(data)


def _checked(schema: Any) -> SerializationSchema:
    if not isinstance(schema, SerializationSchema):
        what = f"{schema!r:.80} is no SerializationSchema"
        raise InvalidArgumentError(describe(what, remedy="give one, such as SimpleStringSchema()"))
    return schema


class KafkaSink(Sink):
    """Writes to topics of Kafka; made by `KafkaSink.builder()`.

    Example:
        >>> from flintstream.connectors.formats import SimpleStringSchema
        >>> values = KafkaRecordSerializationSchema.builder().set_topic("totals")
        >>> sink = (
        ...     KafkaSink.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_record_serializer(values.set_value_serialization_schema(SimpleStringSchema()).build())
        ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        ...     .set_transactional_id_prefix("totals-job")
        ...     .build()
        ... )
        >>> sink, sink.delivery
        (KafkaSink(totals at localhost:9092), 'exactly-once')
    """

    def __init__(
        self, target: KafkaTarget, serializer: KafkaRecordSerializationSchema, guarantee: DeliveryGuarantee | None
    ) -> None:
        self.is_chosen = guarantee is not None
        self._target = target
        self._serializer = serializer
        self._guarantee = guarantee or DeliveryGuarantee.NONE
        self.delivery = self._guarantee.value

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()

    def deliveries(self) -> tuple[Delivery, ...]:
        # What is published after the commit goes in transactions, which must have a name.
        possible = [DIRECT, NO_GUARANTEE, *([EXACTLY_ONCE, AT_MOST_ONCE] if self._target.prefix else [])]
        return tuple(sorted(possible, key=lambda each: each.guarantee is not self._guarantee))

    def delivering(self, delivery: Delivery) -> KafkaSink:
        return KafkaSink(self._target, self._serializer, delivery.guarantee)

    @property
    def _is_staged(self) -> bool:
        return self._guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_MOST_ONCE)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._is_staged:
            return StagingWriter(self._target, self._serializer.serialize, context)
        is_strict = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return DirectWriter(self._target, self._serializer.serialize, is_strict)

    def create_committer(self) -> Committer:
        if self._is_staged:
            return KafkaCommitter(self._target)
        return NoCommitter()

    def __repr__(self) -> str:
        return f"KafkaSink({self._serializer.target} at {self._target.servers})"


class KafkaSinkBuilder:
    """Collects the settings of a sink; as in Flink, it guarantees nothing unless told to."""

    def __init__(self) -> None:
        self._servers: str | None = None
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee: DeliveryGuarantee | None = None
        self._prefix: str | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Set the addresses of some brokers, as "host:9092,other:9092"."""
        self._servers = check_servers(bootstrap_servers)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set how often a record may show: EXACTLY_ONCE or AT_MOST_ONCE to those who read committed records, or less.

        Without it, what the job or `sink_to(...)` says holds; if they say nothing, NONE.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"{delivery_guarantee!r:.80} is no DeliveryGuarantee"
            raise InvalidArgumentError(describe(what, remedy="give DeliveryGuarantee.EXACTLY_ONCE, say"))
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """Set what the names of transactions begin with; no other job may use the same, and it must stay the same."""
        if not transactional_id_prefix or len(transactional_id_prefix.encode()) > _MOST_PREFIX_BYTES:
            what = "the prefix of transactional ids is empty or too long"
            raise InvalidArgumentError(describe(what, remedy="give a name of this job's own"))
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> Self:
        """Set where records go and as which bytes."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"{record_serializer!r:.80} is no KafkaRecordSerializationSchema"
            raise InvalidArgumentError(describe(what, remedy="make one by KafkaRecordSerializationSchema.builder()"))
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> Self:
        """Set a property of the producer; `default.api.timeout.ms` is how long to wait for a broker."""
        self._properties[str(key)] = str(value)
        return self

    def build(self) -> KafkaSink:
        """Return the sink."""
        servers = check_servers(self._servers)
        if self._serializer is None:
            what = "it is not said where records go and as which bytes"
            raise InvalidArgumentError(describe(what, remedy="set_record_serializer(...)"))
        if self._guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_MOST_ONCE) and self._prefix is None:
            what = f"{self._guarantee.value} needs names for its transactions that no other job uses"
            raise InvalidArgumentError(describe(what, remedy='set_transactional_id_prefix("...")'))
        if "transactional.id" in self._properties:
            what = "property 'transactional.id' is not set by hand"
            raise InvalidArgumentError(describe(what, remedy="set_transactional_id_prefix(...)"))
        check_properties(self._properties, "Producer")
        return KafkaSink(KafkaTarget(servers, self._properties, self._prefix or ""), self._serializer, self._guarantee)
