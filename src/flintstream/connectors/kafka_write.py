"""The writers of the Kafka sink, in tasks: one stages what the driver publishes after the commit, one sends at once.

A transaction of Kafka dies with the process that began it, so none is begun here: an exactly-once task only turns
records into bytes and stages them, small output with the epoch's commit, large output in files beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.connectors.kafka_client import client_settings, library, reason_of, timeout_of
from flintstream.errors import SinkError, describe
from flintstream.model.connect import Committer, SinkWriter, WriterContext

PIECE_BYTES = 8 << 20
INLINE_BYTES = 64 << 10
DEFAULT_MESSAGE_BYTES = 1_000_000
"""What brokers and clients take at most, unless both are told otherwise."""
_LOG = logging.getLogger("flintstream")
_MANY = 512
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

Headers = list[tuple[str, bytes | None]] | None
Serialized = tuple[str, bytes | None, bytes | None, Headers]
Serialize = Callable[[Any], Serialized]


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


class StagingWriter(SinkWriter):
    """Stages records as Arrow streams that name the job's life and the subtask."""

    def __init__(self, target: KafkaTarget, serialize: Serialize, context: WriterContext) -> None:
        self._serialize = serialize
        self._most = target.most_bytes
        self._context = context
        self._records: list[Serialized] = []
        self._times: list[int] = []
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._pieces: list[dict[str, Any]] = []
        metadata = {"incarnation": context.incarnation, "subtask": str(context.subtask)}
        self._schema = SCHEMA.with_metadata(metadata)

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        records = list(map(self._serialize, values))
        self._records += records
        self._times += timestamps
        if len(records) < _MANY:
            # Columns of a few records each would cost more than the records.
            self._bytes += sum(len(value or b"") for _, _, value, _ in records)
        if len(self._records) >= _MANY or self._bytes > PIECE_BYTES:
            self._fold()

    def _fold(self) -> None:
        """Turn the records at hand into columns; those of a piece are staged together."""
        if not self._records:
            return
        records = self._records
        topic = pa.array([record[0] for record in records], pa.string()).dictionary_encode()
        key, value = (pa.array([record[place] for record in records], pa.binary()) for place in (1, 2))
        headers = [record[3] for record in records]
        named = pa.nulls(len(records), SCHEMA.field("headers").type)
        if any(headers):
            pairs = [None if each is None else [{"name": n, "value": v} for n, v in each] for each in headers]
            named = pa.array(pairs, named.type)
        self._check_sizes(key, value, headers)
        times = np.array(self._times, dtype=np.int64)
        self._keep(pa.record_batch([topic, key, value, pa.array(times, mask=times < 0), named], schema=self._schema))
        self._records, self._times, self._bytes = [], [], 0

    def _keep(self, batch: pa.RecordBatch) -> None:
        if batch.nbytes > PIECE_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self._keep(batch.slice(0, half))
            self._keep(batch.slice(half))
            return
        self._batches.append(batch)
        if sum(each.nbytes for each in self._batches) > PIECE_BYTES and self._context.stage is not None:
            self._pieces.append(self._context.stage(self._pack()))

    def _check_sizes(self, key: Any, value: Any, headers: Sequence[Headers]) -> None:
        """Refuse a record that is too large: behind the commit it would be too late for that."""
        sizes: Any = _lengths(key) + _lengths(value)
        if any(headers):
            sizes = sizes + [sum(len(n) + len(v or b"") for n, v in each or ()) for each in headers]
        if sizes.max() > self._most:
            raise too_large(int(sizes.max()), self._most)

    def _pack(self) -> bytes:
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, self._schema) as stream:
            for batch in self._batches:
                stream.write_batch(batch)
        self._batches = []
        return out.getvalue().to_pybytes()

    def prepare_commit(self) -> Any:
        self._fold()
        stage = self._context.stage
        if self._batches:
            data = self._pack()
            if not self._pieces and (len(data) <= INLINE_BYTES or stage is None):
                return data
            assert stage is not None
            self._pieces.append(stage(data))
        return {"pieces": self._pieces} if self._pieces else None


def _lengths(column: Any) -> Any:
    return pc.call_function("binary_length", [column]).fill_null(0).to_numpy(zero_copy_only=False)


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
        serialize, producer, told, refused = self._serialize, self._producer, self._told, library().KafkaException
        for element, at in zip(values, timestamps, strict=True):
            topic, key, value, headers = serialize(element)
            try:
                send(producer, topic, key, value, at, headers, told)
            except refused as error:
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
    at: int,
    headers: Headers = None,
    told: Callable[[Any, Any], None] | None = None,
) -> None:
    """Hand a record to a producer, as soon as that has room; without a time of its own it gets the present one."""
    while True:
        try:
            # No keyword that is not needed: this is called for every record.
            if headers:
                producer.produce(topic, value, key, timestamp=at if at > 0 else 0, headers=headers, on_delivery=told)
            else:
                producer.produce(topic, value, key, timestamp=at if at > 0 else 0, on_delivery=told)
            return
        except BufferError:
            producer.poll(0.1)


class NoCommitter(Committer):
    """Has nothing to do: what was written is out already."""

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """Called after the epoch was committed."""
