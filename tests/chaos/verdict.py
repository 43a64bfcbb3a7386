"""What must be in topics and tables at the end of a chaos run, and what is.

The truth is the input topic, read again by a plain consumer: every reading must be there once (that is the feed's
part), and what the job wrote must be what follows from it, no row more and no row less.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from tests.chaos.feed import PARTITIONS, Readings
from tests.chaos.job import CLOSING, SLOT_MS, WINDOW_MS
from tests.kafka.broker import PATIENCE, QUIET, Cluster
from tests.postgres.database import Database

SHOWN = 20


@dataclass
class Verdict:
    """What was compared, and what was wrong in it."""

    rows: dict[str, int] = field(default_factory=dict[str, int])
    wrong: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def compare(self, name: str, found: Counter[Any], expected: Counter[Any]) -> None:
        """Compare what is there with what should be, as multisets."""
        self.rows[name] = found.total()
        missing, surplus = expected - found, found - expected
        doubled = Counter({row: n for row, n in surplus.items() if row in expected})
        for what, rows in (("lost", missing), ("doubled", doubled), ("wrong", surplus - doubled)):
            if rows:
                shown = ", ".join(map(str, sorted(rows)[:SHOWN]))
                self.wrong.setdefault(name, []).append(f"{rows.total():,} {what}: {shown}")

    def check(self, name: str, is_right: bool, what: str) -> None:
        """Note what is wrong, if it is."""
        if not is_right:
            self.wrong.setdefault(name, []).append(what)

    @property
    def is_right(self) -> bool:
        """Whether nothing was wrong."""
        return not self.wrong

    def keep(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps({"rows": self.rows, "wrong": self.wrong}, indent=2) + "\n")


def read_topic(servers: str, topic: str, partitions: int, chunk: int = 20_000) -> list[list[str]]:
    """Return the texts of a topic by partition, in order, as one who reads committed records sees them."""
    settings = {"bootstrap.servers": servers, "group.id": "verdict", "isolation.level": "read_committed", **QUIET}
    reader = Consumer({**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[list[str]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    while len(ended) < partitions:
        messages = reader.consume(chunk, 0.5) or [reader.poll(PATIENCE)]
        for message in messages:
            assert message is not None, f"topic {topic} gives nothing"
            if message.error():
                ended.add(message.partition())
            else:
                found[message.partition()].append(message.value().decode())
    reader.close()
    return found


def judge(cluster: Cluster, database: Database, sent: int, rate: int) -> Verdict:
    """Compare everything that the job wrote with what follows from its input."""
    verdict = Verdict()
    given = [_numbers(texts) for texts in read_topic(cluster.servers, "readings", PARTITIONS)]
    given = [numbers[numbers != CLOSING] for numbers in given]
    numbers = np.concatenate(given)
    verdict.rows["input topic"] = len(numbers)
    verdict.check("input topic", bool((np.sort(numbers) == np.arange(sent)).all()), "the feed lost or doubled readings")
    readings = Readings.of(numbers, rate)
    windows = _grouped(readings, WINDOW_MS)
    for topic in ("windows", "running"):
        cluster.settle(topic)
    for name, expected in (("windows", windows), ("slots", _grouped(readings, SLOT_MS))):
        rows = database.ask(f"select key, start, n, total from {name}")
        verdict.compare(f"table {name}", Counter(map(tuple, rows)), expected)
    texts = [text for part in read_topic(cluster.servers, "windows", PARTITIONS) for text in part]
    verdict.compare("topic windows", Counter(tuple(map(int, text.split(","))) for text in texts), windows)
    _judge_running(verdict, read_topic(cluster.servers, "running", PARTITIONS), readings)
    return verdict


def _numbers(texts: list[str]) -> np.ndarray:
    return np.array([int(text.partition(",")[0]) for text in texts], dtype=np.int64)


def _grouped(readings: Readings, size: int) -> Counter[tuple[int, int, int, int]]:
    start = readings.time // size * size
    pairs, place = np.unique(np.stack([readings.key, start]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    number, total = np.bincount(place), np.bincount(place, weights=readings.value).astype(np.int64)
    columns = (pairs[0].tolist(), pairs[1].tolist(), number.tolist(), total.tolist())
    return Counter(zip(*columns, strict=True))


def _judge_running(verdict: Verdict, found: list[list[str]], readings: Readings) -> None:
    """Each key's counts and sums must be there once, and in order within its partition."""
    expected: Counter[str] = Counter()
    order = np.argsort(readings.key, kind="stable")
    key, value = readings.key[order], readings.value[order]
    for one in np.unique(key):
        sums = np.cumsum(value[key == one]).tolist()
        expected.update(f"{one},{place + 1},{total}" for place, total in enumerate(sums))
    verdict.compare("topic running", Counter(text for part in found for text in part), expected)
    for part in found:
        last: dict[str, int] = {}
        disorder = 0
        for text in part:
            one, number, _ = text.split(",")
            disorder += int(number) != last.get(one, 0) + 1
            last[one] = int(number)
        verdict.check("topic running", not disorder, f"{disorder:,} records out of order")
