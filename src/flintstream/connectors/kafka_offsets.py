"""Where reading a topic begins and ends: a declared choice, and how it becomes a number for each partition.

Flink: OffsetsInitializer and its implementations, by PyFlink's name KafkaOffsetsInitializer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from flintstream.errors import InvalidArgumentError, SourceError, describe


@dataclass(frozen=True, order=True)
class KafkaTopicPartition:
    """One partition of a topic."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not self.topic or self.partition < 0:
            what = f"there is no partition {self.partition} of topic {self.topic!r}"
            raise InvalidArgumentError(describe(what, remedy="give a topic's name, and a number of 0 or more"))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @staticmethod
    def parse(name: str) -> KafkaTopicPartition:
        """Return the partition of a name that `str` gave."""
        topic, _, number = name.rpartition("-")
        return KafkaTopicPartition(topic, int(number))


class KafkaOffsetResetStrategy(Enum):
    """Where to begin if there is no offset to begin at, or it is out of range; NONE fails."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


Offsets = dict[KafkaTopicPartition, int]


class Retriever(Protocol):
    """Asks the brokers; those who resolve offsets need no more of them."""

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> Offsets: ...

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Offsets: ...

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp: int) -> Offsets:
        """Return the first offset of each partition at or after a time, the latest if there is none."""
        ...

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the offsets that the group has committed; partitions without one are left out."""
        ...


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Where to begin, or to end, in each partition; made by its static methods."""

    kind: str
    time: int = 0
    given: tuple[tuple[KafkaTopicPartition, int], ...] = ()
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Begin with the oldest record there is."""
        return KafkaOffsetsInitializer("earliest")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Begin with what comes from now on; as an end: what is there now."""
        return KafkaOffsetsInitializer("latest")

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Begin with the first record whose timestamp is this or later, in ms; if there is none, with what comes."""
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"{timestamp!r} is no timestamp to begin at"
            raise InvalidArgumentError(describe(what, remedy="give milliseconds since 1970"))
        return KafkaOffsetsInitializer("timestamp", timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Begin at these offsets; a partition that has none begins at what its group has committed, or is reset."""
        wrong = [offset for offset in offsets.values() if offset < 0]
        if wrong:
            raise InvalidArgumentError(describe(f"{wrong[0]} is no offset", remedy="give numbers of 0 or more"))
        return KafkaOffsetsInitializer("offsets", 0, tuple(sorted(offsets.items())), offset_reset_strategy)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Begin where the group has committed; a partition without such an offset is reset."""
        return KafkaOffsetsInitializer("committed", 0, (), offset_reset_strategy)

    def resolve(
        self, partitions: Collection[KafkaTopicPartition], retriever: Retriever, ending: bool = False
    ) -> Offsets:
        """Return the offset of each partition; `ending` says that it is where to end, which may be yet to come."""
        if self.kind == "earliest":
            return retriever.earliest(partitions)
        if self.kind == "latest":
            return retriever.latest(partitions)
        if self.kind == "timestamp":
            return retriever.at_time(partitions, self.time)
        wanted = {partition: offset for partition, offset in self.given if partition in partitions}
        ends = dict(wanted) if ending else {}
        wanted.update(retriever.committed([each for each in partitions if each not in wanted]))
        return {**self._within([each for each in partitions if each not in ends], wanted, retriever), **ends}

    def _within(self, partitions: Collection[KafkaTopicPartition], wanted: Offsets, retriever: Retriever) -> Offsets:
        """Return the wanted offsets, reset where there is none or it points outside of what the broker keeps."""
        first, last = retriever.earliest(partitions), retriever.latest(partitions)
        found: Offsets = {}
        for each in partitions:
            offset = wanted.get(each)
            if offset is not None and first[each] <= offset <= last[each]:
                found[each] = offset
            elif self.reset is KafkaOffsetResetStrategy.NONE:
                kept = f"it keeps {first[each]} to {last[each]}"
                what = f"partition {each} has no offset to begin at"
                if offset is not None:
                    what = f"partition {each} has no offset {offset}: {kept}"
                remedy = "give an offset_reset_strategy, or begin elsewhere"
                raise SourceError(describe(what, remedy=remedy))
            else:
                found[each] = (first if self.reset is KafkaOffsetResetStrategy.EARLIEST else last)[each]
        return found


def check_initializer(candidate: Any) -> KafkaOffsetsInitializer:
    """Return an initializer, or raise if it is none."""
    if not isinstance(candidate, KafkaOffsetsInitializer):
        what = f"{candidate!r:.80} says nothing about offsets"
        raise InvalidArgumentError(describe(what, remedy="give a KafkaOffsetsInitializer, such as its earliest()"))
    return candidate
