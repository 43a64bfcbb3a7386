"""A record as Kafka keeps it, and how it becomes a record of the stream.

Flink: KafkaRecordDeserializationSchema; PyFlink has only the value-only kind of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from flintstream.connectors.formats import DeserializationSchema
from flintstream.errors import InvalidArgumentError, UserFunctionError, describe
from flintstream.model.connect import TimedRecords
from flintstream.model.dead_letters import BadRecord
from flintstream.model.row import Row
from flintstream.model.time import MIN_TIMESTAMP

FIELDS = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]


class KafkaRecord(NamedTuple):
    """One record of a topic; `timestamp` is in ms, `headers` are pairs of a name and bytes."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    headers: list[tuple[str, bytes | None]]


class KafkaRecordDeserializationSchema(ABC):
    """Turns a record of Kafka into records of the stream; those who write their own override `deserialize`."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Iterable[Any]:
        """Return, or yield, the records of the stream: none, one or more."""

    @staticmethod
    def value_only(value_deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Return what reads the value and nothing else; a record without a value is left out."""
        return ValueOnly(_checked(value_deserialization_schema, "value_deserialization_schema"))

    @staticmethod
    def rows(
        value_deserialization_schema: DeserializationSchema,
        key_deserialization_schema: DeserializationSchema | None = None,
    ) -> KafkaRecordDeserializationSchema:
        """Return what makes rows of everything: key, value, topic, partition, offset, timestamp and headers.

        A key or a value that is not there is None; without a schema of its own a key is bytes.
        """
        key = key_deserialization_schema
        if key is not None:
            _checked(key, "key_deserialization_schema")
        return Rows(_checked(value_deserialization_schema, "value_deserialization_schema"), key)


class ValueOnly(KafkaRecordDeserializationSchema):
    """The value alone."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, record: KafkaRecord) -> Iterable[Any]:
        found = None if record.value is None else self._schema.deserialize(record.value)
        return () if found is None else (found,)

    def read(self, messages: Sequence[Any]) -> TimedRecords:
        """Return many messages at once, without making a record of each first."""
        deserialize = self._schema.deserialize
        records: list[Any] = []
        timestamps: list[int] = []
        for message in messages:
            value = message.value()
            record = None if value is None else deserialize(value)
            if record is not None:
                records.append(record)
                kind, at = message.timestamp()
                timestamps.append(at if kind else MIN_TIMESTAMP)
        return TimedRecords(records, timestamps)


class Rows(KafkaRecordDeserializationSchema):
    """Everything there is, as a row."""

    def __init__(self, value: DeserializationSchema, key: DeserializationSchema | None) -> None:
        self._value = value
        self._key = key

    def deserialize(self, record: KafkaRecord) -> Iterable[Any]:
        value = None if record.value is None else self._value.deserialize(record.value)
        key = record.key if record.key is None or self._key is None else self._key.deserialize(record.key)
        headers = [Row(name=name, value=data) for name, data in record.headers]
        fields = [key, value, record.topic, record.partition, record.offset, record.timestamp, headers]
        return (Row.builder(FIELDS)(fields),)


def read_all(schema: KafkaRecordDeserializationSchema, messages: Sequence[Any]) -> TimedRecords:
    """Return the stream's records of many messages of the client, with the timestamps that Kafka keeps."""
    if isinstance(schema, ValueOnly):
        return schema.read(messages)
    records: list[Any] = []
    timestamps: list[int] = []
    for message in messages:
        kind, at = message.timestamp()
        found = schema.deserialize(
            KafkaRecord(
                message.key(),
                message.value(),
                message.topic(),
                message.partition(),
                message.offset(),
                at if kind else None,
                message.headers() or [],
            )
        )
        before = len(records)
        records.extend(found)
        timestamps.extend([at if kind else MIN_TIMESTAMP] * (len(records) - before))
    return TimedRecords(records, timestamps)


def read_leniently(
    schema: KafkaRecordDeserializationSchema, messages: Sequence[Any], part: str, errors: tuple[type[Exception], ...]
) -> TimedRecords:
    """Return the same, with a bad record in the place of each message that the schema cannot read."""
    records: list[Any] = []
    timestamps: list[int] = []
    for message in messages:
        try:
            found = read_all(schema, [message])
        except errors as error:
            kind, at = message.timestamp()
            told = UserFunctionError.from_exception(error, operator="")
            where = (part, message.offset())
            bad = BadRecord(message.value(), *where, told.error_type, told.error_message, told.user_traceback)
            found = TimedRecords([bad], [at if kind else MIN_TIMESTAMP])
        records += found.records
        timestamps += found.timestamps
    return TimedRecords(records, timestamps)


def _checked(schema: Any, name: str) -> DeserializationSchema:
    if not isinstance(schema, DeserializationSchema):
        what = f"{name} is {schema!r:.80}, no DeserializationSchema"
        raise InvalidArgumentError(describe(what, remedy="give one, such as SimpleStringSchema()"))
    return schema
