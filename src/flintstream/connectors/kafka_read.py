"""Reads ranges of offsets inside tasks, with consumers that a worker process keeps from one epoch to the next.

A consumer goes on fetching behind the range it was asked for, so a worker that gets the partition's next range finds it
in memory. Whoever reads takes the consumer out of the cache, so no two threads ever share one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from flintstream.connectors.kafka_client import GROUP, ISOLATION, client_settings, library, reason_of, timeout_of
from flintstream.connectors.kafka_offsets import KafkaTopicPartition
from flintstream.errors import SourceError, describe

CONSUMERS_KEPT = 8
FETCHED_AHEAD_KB = 16_384
"""What a consumer holds in memory, unless its property says otherwise; a worker may keep several."""
_SLICE = 0.2
_Key = tuple[str, tuple[tuple[str, str], ...], KafkaTopicPartition]
_KEPT: dict[_Key, PartReader] = {}


def read_messages(
    servers: str, properties: Mapping[str, str], partition: KafkaTopicPartition, start: int, end: int
) -> list[Any]:
    """Return the messages of a partition with offsets `[start, end)`; where there are gaps, fewer than that."""
    key = (servers, tuple(sorted(properties.items())), partition)
    reader = _KEPT.pop(key, None) or PartReader(servers, properties, partition)
    try:
        messages = reader.read(start, end)
    except BaseException:
        reader.close()
        raise
    _KEPT[key] = reader
    while len(_KEPT) > CONSUMERS_KEPT:
        _KEPT.pop(next(iter(_KEPT))).close()
    return messages


class PartReader:
    """One consumer on one partition."""

    def __init__(self, servers: str, properties: Mapping[str, str], partition: KafkaTopicPartition) -> None:
        self._partition = partition
        self._servers = servers
        self._timeout = timeout_of(properties)
        self._next: int | None = None
        self._ahead: list[Any] = []
        self._consumer: Any = library().Consumer(
            {
                "bootstrap.servers": servers,
                GROUP: "flintstream",
                # Kafka's own default, and Flink's; this client has another.
                ISOLATION: "read_uncommitted",
                "queued.max.messages.kbytes": FETCHED_AHEAD_KB,
                **client_settings(properties),
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # Offsets that are gone must be told, never skipped.
                "auto.offset.reset": "error",
                # The last offsets of a range may hold no record: then the end of the partition is what ends it.
                "enable.partition.eof": True,
            }
        )

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def read(self, start: int, end: int) -> list[Any]:
        """Return the messages with offsets `[start, end)`."""
        if start != self._next:
            self._ahead.clear()
            where = library().TopicPartition(self._partition.topic, self._partition.partition, start)
            self._consumer.assign([where])
        found: list[Any] = []
        done = self._take(self._ahead, found, end)
        deadline = time.monotonic() + self._timeout
        while not done:
            wanted = max(1, end - start - len(found))
            first = self._consumer.poll(_SLICE)
            if first is not None:
                # The rest without waiting: a range with gaps has fewer messages than offsets.
                done = self._take([first, *self._consumer.consume(min(wanted, 100_000), 0)], found, end)
                deadline = time.monotonic() + self._timeout
            elif time.monotonic() > deadline:
                what = f"partition {self._partition} gives no record from {start + len(found)} on, of up to {end}"
                remedy = f"see that Kafka runs at {self._servers}, and start the job again: nothing is lost"
                raise SourceError(describe(what, remedy=remedy))
        self._next = end
        return found

    def _take(self, messages: list[Any], found: list[Any], end: int) -> bool:
        """Move messages to what was found; keep those behind the end for later. Return whether the end was reached."""
        done = False
        ahead: list[Any] = []
        for message in messages:
            error = message.error()
            if error is None:
                offset = message.offset()
                if offset < end:
                    found.append(message)
                else:
                    ahead.append(message)
                done = done or offset >= end - 1
            elif error.code() == library().KafkaError._PARTITION_EOF:
                done = done or message.offset() >= end
            else:
                raise self._failed(error)
        self._ahead = ahead
        return done

    def _failed(self, error: Any) -> SourceError:
        codes = library().KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            what = f"records of partition {self._partition} that the job has not read yet are gone ({reason_of(error)})"
            remedy = "let the topic keep records longer; to go on without them, start in an empty checkpoint directory"
        else:
            what = f"partition {self._partition} cannot be read ({reason_of(error)}; {self._servers})"
            remedy = "see what the broker says about it, and start the job again: nothing is lost"
        return SourceError(describe(what, remedy=remedy))
