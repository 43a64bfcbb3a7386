"""What the driver asks the brokers: which partitions there are, which offsets they hold, what a group has committed.

Apart from the source, which is a value that travels to the workers: this holds a connection and stays in the driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from flintstream.connectors.kafka_client import (
    GROUP,
    ISOLATION,
    admin_library,
    asking,
    client_settings,
    is_lasting,
    library,
    shared_settings,
    timeout_of,
)
from flintstream.connectors.kafka_offsets import KafkaTopicPartition, Offsets
from flintstream.errors import SourceError, describe

T = TypeVar("T")
_PAUSE = 0.05


class KafkaLog:
    """A connection of the driver to the brokers."""

    def __init__(self, servers: str, properties: Mapping[str, str]) -> None:
        self._servers = servers
        self._properties = properties
        self._timeout = timeout_of(properties)
        self._settings = {"bootstrap.servers": servers, **client_settings(properties)}
        # Those of a consumer alone would make the others warn.
        self._shared = {"bootstrap.servers": servers, **shared_settings(properties)}
        self._connect()

    def _connect(self) -> None:
        self._admin: Any = admin_library().AdminClient(self._shared)
        self._group: Any = None

    def topics(self) -> dict[str, list[int]]:
        """Return all topics with the numbers of their partitions."""
        found = self._ask(lambda: self._admin.list_topics(timeout=self._timeout), "the topics cannot be listed")
        return {name: sorted(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the oldest offset of each partition."""
        return self._offsets(partitions, admin_library().OffsetSpec.earliest())

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the offset behind the newest record of each partition, of those that may be read."""
        return self._offsets(partitions, admin_library().OffsetSpec.latest())

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp: int) -> Offsets:
        """Return the first offset of each partition at or after a time, the latest if there is none."""
        last = self.latest(partitions)
        found = self._offsets(partitions, admin_library().OffsetSpec.for_timestamp(timestamp))
        return {each: found[each] if found[each] >= 0 else last[each] for each in partitions}

    def _offsets(self, partitions: Collection[KafkaTopicPartition], which: Any) -> Offsets:
        if not partitions:
            return {}
        kafka = library()
        request = {kafka.TopicPartition(each.topic, each.partition): which for each in partitions}
        level = kafka.IsolationLevel
        is_committed = self._properties.get(ISOLATION) == "read_committed"
        isolation = level.READ_COMMITTED if is_committed else level.READ_UNCOMMITTED

        def ask() -> Offsets:
            futures = self._admin.list_offsets(request, isolation_level=isolation, request_timeout=self._timeout)
            try:
                return {
                    KafkaTopicPartition(each.topic, each.partition): future.result(self._timeout).offset
                    for each, future in futures.items()
                }
            except TimeoutError:
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT)) from None

        return self._ask(ask, "offsets cannot be asked for")

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the offsets that the group has committed; partitions without one are left out."""
        if not partitions or GROUP not in self._properties:
            return {}
        kafka = library()
        request = [kafka.TopicPartition(each.topic, each.partition) for each in partitions]
        found = self._ask(
            lambda: self._consumer().committed(request, timeout=self._timeout), "committed offsets cannot be read"
        )
        return {KafkaTopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def commit(self, offsets: Offsets) -> None:
        """Commit offsets for the group; others see there how far it is."""
        kafka = library()
        request = [kafka.TopicPartition(each.topic, each.partition, offset) for each, offset in offsets.items()]
        self._ask(lambda: self._consumer().commit(offsets=request, asynchronous=False), "offsets cannot be committed")

    def _consumer(self) -> Any:
        if self._group is None:
            self._group = library().Consumer({**self._settings, "enable.auto.commit": False})
        return self._group

    def _ask(self, question: Callable[[], T], what: str) -> T:
        """Ask until there is an answer: brokers that come back, or move a group, say many things that mean later."""
        kafka = library()
        deadline = time.monotonic() + self._timeout

        def patiently() -> T:
            while True:
                try:
                    return question()
                except kafka.KafkaException as error:
                    if is_lasting(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(_PAUSE)
                    # One that knew the brokers before they died may go on asking in the name of their former lives.
                    self._connect()

        return asking(patiently, what, self._servers, SourceError)


def missing_topics(names: Collection[str]) -> SourceError:
    """Return the error for topics that do not exist."""
    what = f"there is no topic {', '.join(map(repr, sorted(names)))}"
    return SourceError(describe(what, remedy="create it, or mend the name"))
