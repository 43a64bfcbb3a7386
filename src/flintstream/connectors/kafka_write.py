"""The writers of the Kafka sink, in tasks: one stages what the driver publishes after the commit, one sends at once.

A transaction of Kafka dies with the process that began it, so none is begun here: an exactly-once task only turns
records into bytes and stages them, small output with the epoch's commit, large output in files beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flintstream.connectors.kafka_client import client_settings, library, reason_of, timeout_of
from flintstream.errors import SinkError, describe
from flintstream.model.connect import Committer, SinkWriter, WriterContext

PIECE_BYTES = 8 << 20
INLINE_BYTES = 64 << 10
DEFAULT_MESSAGE_BYTES = 1_000_000
"""What brokers and clients take at most, unless both are told otherwise."""
_LOG = logging.getLogger("flintstream")
_PRODUCERS: dict[tuple[Any, ...], Any] = {}

SCHEMA = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)

Serialize = Callable[[Any], tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]]


@dataclass(frozen=True)
class KafkaTarget:
    """Which brokers, how to talk to them, and what transactions are called."""

    servers: str
    properties: Mapping[str, str] = field(repr=False)
    prefix: str

    @property
    def timeout(self) -> float:
        """After how many seconds without an answer a broker counts as dead."""
        return timeout_of(self.properties)

    @property
    def most_bytes(self) -> int:
        """How large a record may be."""
        return int(self.properties.get("message.max.bytes", DEFAULT_MESSAGE_BYTES))

    def settings(self) -> dict[str, Any]:
        """Return the settings of a producer."""
        return {
            "bootstrap.servers": self.servers,
            # As Java's producer does: a key is in the same partition whoever wrote it.
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            **client_settings(self.properties),
        }


@dataclass(slots=True)
class _Columns:
    """Records of Kafka as columns, until there are enough for a piece."""

    topics: list[str] = field(default_factory=list[str])
    keys: list[bytes | None] = field(default_factory=list["bytes | None"])
    values: list[bytes | None] = field(default_factory=list["bytes | None"])
    timestamps: list[int | None] = field(default_factory=list["int | None"])
    headers: list[Any] = field(default_factory=list[Any])
    size: int = 0


class StagingWriter(SinkWriter):
    """Stages records as Arrow streams that name the job's life and the subtask."""

    def __init__(self, target: KafkaTarget, serialize: Serialize, context: WriterContext) -> None:
        self._serialize = serialize
        self._most = target.most_bytes
        self._context = context
        self._columns = _Columns()
        self._pieces: list[dict[str, Any]] = []
        metadata = {"incarnation": context.incarnation, "subtask": str(context.subtask)}
        self._schema = SCHEMA.with_metadata(metadata)

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        serialize, columns = self._serialize, self._columns
        for element, at in zip(values, timestamps, strict=True):
            topic, key, value, headers = serialize(element)
            size = len(key or b"") + len(value or b"") + sum(len(n) + len(v or b"") for n, v in headers or ())
            if size > self._most:
                # Behind the commit it would be too late to refuse it.
                raise too_large(size, self._most)
            columns.topics.append(topic)
            columns.keys.append(key)
            columns.values.append(value)
            columns.timestamps.append(at if at >= 0 else None)
            columns.headers.append(None if headers is None else [{"name": n, "value": v} for n, v in headers])
            columns.size += size + 32
            if columns.size > PIECE_BYTES and self._context.stage is not None:
                self._pieces.append(self._context.stage(self._pack()))
                columns = self._columns = _Columns()

    def _pack(self) -> bytes:
        columns = self._columns
        arrays = [columns.topics, columns.keys, columns.values, columns.timestamps, columns.headers]
        batch = pa.record_batch(
            [
                pa.array(column, field.type) if index else pa.array(column, pa.string()).dictionary_encode()
                for index, (column, field) in enumerate(zip(arrays, SCHEMA, strict=True))
            ],
            schema=self._schema,
        )
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, self._schema) as stream:
            stream.write_batch(batch)
        return out.getvalue().to_pybytes()

    def prepare_commit(self) -> Any:
        if not self._pieces:
            if not self._columns.topics:
                return None
            data = self._pack()
            if len(data) <= INLINE_BYTES or self._context.stage is None:
                return data
            self._pieces.append(self._context.stage(data))
        elif self._columns.topics:
            assert self._context.stage is not None
            self._pieces.append(self._context.stage(self._pack()))
        return {"pieces": self._pieces}


def too_large(size: int, most: int) -> SinkError:
    """Return the error for a record that no broker would take."""
    what = f"a record of {size:,} bytes is larger than the {most:,} that the producer may send"
    remedy = "make it smaller, or raise message.max.bytes here, and max.message.bytes of the topic"
    return SinkError(describe(what, remedy=remedy))


class DirectWriter(SinkWriter):
    """Sends records at once, and waits at the end of the epoch until the brokers have them.

    A strict writer fails if they did not take one, so that the epoch runs again: at least once.
    """

    def __init__(self, target: KafkaTarget, serialize: Serialize, is_strict: bool) -> None:
        self._target = target
        self._serialize = serialize
        self._is_strict = is_strict
        self._failed: list[str] = []
        self._producer = producer_of(target, is_strict)

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        for element, at in zip(values, timestamps, strict=True):
            topic, key, value, headers = self._serialize(element)
            try:
                send(self._producer, topic, key, value, at, headers, self._told)
            except library().KafkaException as error:
                self._failed.append(reason_of(error))

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(reason_of(error))

    def prepare_commit(self) -> Any:
        left = self._producer.flush(self._target.timeout)
        if left:
            self._failed.append(f"{left} records were not taken in time")
            self._producer.purge()
            self._producer.flush(1)
        if self._failed and self._is_strict:
            what = f"{len(self._failed)} records could not be written to Kafka at {self._target.servers}"
            remedy = "see that it runs and has the topic, and start the job again: nothing is lost"
            raise SinkError(describe(f"{what} ({self._failed[0]})", remedy=remedy))
        if self._failed:
            where = self._target.servers
            _LOG.warning("%s records for Kafka at %s are lost (%s)", len(self._failed), where, self._failed[0])
        return None

    def abort(self) -> None:
        self._producer.purge()


def producer_of(target: KafkaTarget, is_strict: bool) -> Any:
    """Return this process's producer for a target; it is kept from epoch to epoch."""
    key = (target.servers, tuple(sorted(target.properties.items())), is_strict)
    if key not in _PRODUCERS:
        settings = {"message.timeout.ms": int(target.timeout * 1000), **target.settings()}
        _PRODUCERS[key] = library().Producer({**settings, "delivery.report.only.error": True})
    return _PRODUCERS[key]


def send(
    producer: Any,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    at: int | None,
    headers: list[tuple[str, bytes | None]] | None,
    told: Callable[[Any, Any], None] | None = None,
) -> None:
    """Hand a record to a producer, as soon as that has room."""
    more: dict[str, Any] = {} if at is None or at < 0 else {"timestamp": at}
    if headers:
        more["headers"] = headers
    if told is not None:
        more["on_delivery"] = told
    while True:
        try:
            producer.produce(topic, value=value, key=key, **more)
            return
        except BufferError:
            producer.poll(0.1)


class NoCommitter(Committer):
    """Has nothing to do: what was written is out already."""

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """Called after the epoch was committed."""
