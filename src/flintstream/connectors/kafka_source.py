"""Topics of Kafka as a source: what to read and from where, declared. Every partition is a split.

Positions are offsets, kept in the job's manifest with everything else; what a group commits is for others to watch.
Flink: org.apache.flink.connector.kafka.source.KafkaSource, as pyflink.datastream.connectors.kafka spells it.
Differs from Flink: read by the client of Python inside the tasks, so properties have librdkafka's names, which differ
from Java's in matters of security alone. A record without a value is left out whatever the value's schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from flintstream.connectors.formats import DeserializationSchema
from flintstream.connectors.kafka_client import (
    COMMITS,
    DISCOVERY,
    GROUP,
    check_properties,
    check_servers,
)
from flintstream.connectors.kafka_log import KafkaLog, missing_topics
from flintstream.connectors.kafka_offsets import KafkaOffsetsInitializer, KafkaTopicPartition, check_initializer
from flintstream.connectors.kafka_read import read_messages
from flintstream.connectors.kafka_records import KafkaRecordDeserializationSchema, read_all, read_leniently
from flintstream.errors import FlintstreamError, InvalidArgumentError, SourceError, describe
from flintstream.model.connect import LogPart, LogSource, Split

DEFAULT_DISCOVERY_MS = 300_000


class KafkaSource(LogSource):
    """Reads topics of Kafka; made by `KafkaSource.builder()`.

    Records have the timestamps that Kafka keeps, until a watermark strategy gives them others.

    Example:
        >>> from flintstream.connectors.formats import SimpleStringSchema
        >>> source = (
        ...     KafkaSource.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_topics("orders")
        ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
        >>> source, source.is_bounded
        (KafkaSource(orders at localhost:9092), False)
    """

    is_lenient = True

    def __init__(self, builder: KafkaSourceBuilder) -> None:
        self._servers = check_servers(builder.servers)
        self._topics = builder.topics
        self._schema = builder.checked_schema()
        self._properties = dict(builder.properties)
        self._starting = builder.starting
        self._stopping = builder.stopping
        self._is_bounded = builder.is_bounded
        interval = int(self._properties.get(DISCOVERY, DEFAULT_DISCOVERY_MS))
        self.discovery_interval_ms = interval if interval > 0 and self._stopping is None else None
        self._log: KafkaLog | None = None

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder."""
        return KafkaSourceBuilder()

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    def __repr__(self) -> str:
        return f"KafkaSource({self._topics} at {self._servers})"

    def __getstate__(self) -> dict[str, Any]:
        # A connection belongs to its process.
        return {**self.__dict__, "_log": None}

    def _brokers(self) -> KafkaLog:
        if self._log is None:
            self._log = KafkaLog(self._servers, self._properties)
        return self._log

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        brokers = self._brokers()
        new = [each for each in self._topics.found(brokers.topics()) if str(each) not in known]
        if not is_first:
            # As in Flink: what comes up while the job runs is new, so all of it is read.
            return [LogPart(str(each), offset) for each, offset in brokers.earliest(new).items()]
        starts = self._starting.resolve(new, brokers)
        ends = {} if self._stopping is None else self._stopping.resolve(new, brokers, ending=True)
        return [LogPart(str(each), starts[each], _end(starts[each], ends.get(each))) for each in new]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        found = self._brokers().latest([KafkaTopicPartition.parse(name) for name in names])
        return {str(each): offset for each, offset in found.items()}

    def positions_at(self, splits: Sequence[Split], timestamp: int) -> Sequence[int]:
        partitions = [KafkaTopicPartition.parse(split.name) for split in splits]
        found = self._brokers().at_time(partitions, timestamp)
        return [found[each] for each in partitions]

    def read_part(self, name: str, start: int, end: int) -> Any:
        partition = KafkaTopicPartition.parse(name)
        messages = read_messages(self._servers, self._properties, partition, start, end)
        try:
            return read_all(self._schema, messages)
        except FlintstreamError as error:
            raise _placed(error, partition, start, end) from error

    def read_part_leniently(self, name: str, start: int, end: int, errors: tuple[type[Exception], ...]) -> Any:
        partition = KafkaTopicPartition.parse(name)
        messages = read_messages(self._servers, self._properties, partition, start, end)
        return read_leniently(self._schema, messages, name, errors)

    def committed(self, positions: Mapping[str, int]) -> None:
        if GROUP in self._properties and self._properties.get(COMMITS, "true").lower() != "false" and positions:
            self._brokers().commit({KafkaTopicPartition.parse(name): each for name, each in positions.items()})


def _end(start: int, end: int | None) -> int | None:
    return None if end is None else max(start, end)


def _placed(error: FlintstreamError, partition: KafkaTopicPartition, start: int, end: int) -> FlintstreamError:
    """Return an error of a schema with where in the topic it was."""
    what, _, remedy = str(error).rpartition("; ")
    where = f"in partition {partition}, offsets {start} to {end - 1}"
    return type(error)(describe(what or remedy, where, remedy if what else None))


class Topics:
    """Which partitions to read: of named topics, of all whose names match a pattern, or these alone."""

    def __init__(
        self,
        names: Sequence[str] = (),
        pattern: str | None = None,
        partitions: Collection[KafkaTopicPartition] = (),
    ) -> None:
        self._names = tuple(names)
        self._pattern = pattern
        self._partitions = tuple(sorted(partitions))

    def found(self, topics: Mapping[str, Sequence[int]]) -> list[KafkaTopicPartition]:
        """Return the partitions among those of all topics that are there."""
        if self._pattern is not None:
            names = sorted(name for name in topics if re.fullmatch(self._pattern, name))
        else:
            names = list(self._names) or sorted({each.topic for each in self._partitions})
        missing = [name for name in names if name not in topics]
        if missing:
            raise missing_topics(missing)
        all_of_them = [KafkaTopicPartition(name, number) for name in names for number in topics[name]]
        if not self._partitions:
            return all_of_them
        absent = [each for each in self._partitions if each not in all_of_them]
        if absent:
            what = f"topic {absent[0].topic!r} has no partition {absent[0].partition}"
            raise SourceError(describe(what, remedy=f"it has {len(topics[absent[0].topic])}, numbered from 0"))
        return list(self._partitions)

    def __str__(self) -> str:
        if self._pattern is not None:
            return f"topics like {self._pattern!r}"
        return ", ".join(self._names or map(str, self._partitions))


class KafkaSourceBuilder:
    """Collects the settings of a source; which topics, and how values are read, must be said."""

    def __init__(self) -> None:
        self.servers: str | None = None
        self.properties: dict[str, str] = {}
        self.starting = KafkaOffsetsInitializer.earliest()
        self.stopping: KafkaOffsetsInitializer | None = None
        self.is_bounded = False
        self._chosen: Topics | None = None
        self._schema: KafkaRecordDeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Set the addresses of some brokers, as "host:9092,other:9092"."""
        self.servers = check_servers(bootstrap_servers)
        return self

    def set_group_id(self, group_id: str) -> Self:
        """Set the group under which offsets are committed after each epoch, for others to watch."""
        return self.set_property(GROUP, group_id)

    def set_topics(self, *topics: str) -> Self:
        """Read all partitions of these topics."""
        if not topics or not all(topics):
            raise InvalidArgumentError(describe("set_topics(...) got no topic", remedy="name one or more"))
        return self._choose(Topics(topics))

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Read all topics whose whole names match a regular expression, also those that are made later."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            what = f"{topic_pattern!r} is no regular expression ({error})"
            raise InvalidArgumentError(describe(what, remedy='write one, such as "orders-.*"')) from None
        return self._choose(Topics(pattern=topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> Self:
        """Read these partitions alone."""
        if not partitions:
            what = "set_partitions(...) got no partition"
            raise InvalidArgumentError(describe(what, remedy="give one or more"))
        return self._choose(Topics(partitions=partitions))

    def _choose(self, topics: Topics) -> Self:
        if self._chosen is not None:
            what = f"the source is to read {self._chosen} already"
            raise InvalidArgumentError(describe(what, remedy="set topics, a pattern or partitions, once"))
        self._chosen = topics
        return self

    @property
    def topics(self) -> Topics:
        """What to read."""
        if self._chosen is None:
            raise InvalidArgumentError(describe("no topic is named", remedy='set_topics("...")'))
        return self._chosen

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Set where a job that starts for the first time begins; without it, with the oldest record."""
        self.starting = check_initializer(starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """End at these offsets, yet be no bounded input: the job runs as a stream."""
        self.stopping = check_initializer(stopping_offsets_initializer)
        self.is_bounded = False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """End at these offsets, which are looked up once, when the job first starts."""
        self.stopping = check_initializer(stopping_offsets_initializer)
        self.is_bounded = True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Read the value of each record, and nothing else of it."""
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> Self:
        """Read keys, headers and all; as in Flink's Java."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"{record_deserializer!r:.80} is no KafkaRecordDeserializationSchema"
            raise InvalidArgumentError(describe(what, remedy="give one, or use set_value_only_deserializer(...)"))
        self._schema = record_deserializer
        return self

    def checked_schema(self) -> KafkaRecordDeserializationSchema:
        """Return how records are read."""
        if self._schema is None:
            what = "it is not said how values are read"
            raise InvalidArgumentError(describe(what, remedy="set_value_only_deserializer(SimpleStringSchema())"))
        return self._schema

    def set_client_id_prefix(self, prefix: str) -> Self:
        """Set the name under which brokers know this client."""
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> Self:
        """Set a property of the consumer, or one of Flink's.

        `partition.discovery.interval.ms` is how often to look for new partitions (5 minutes; 0 for never),
        `commit.offsets.on.checkpoint` whether to commit offsets for a group, `default.api.timeout.ms` how long to wait
        for a broker.
        """
        self.properties[str(key)] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> Self:
        """Set many properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Return the source."""
        check_properties(self.properties, "Consumer")
        return KafkaSource(self)
