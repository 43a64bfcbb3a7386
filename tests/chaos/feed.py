"""The input of the chaos run: readings whose every field follows from their number, sent at an even rate.

The sender outlives brokers that die: its client sends again what was not confirmed, each record once and in order.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import Producer

from tests.chaos.job import CLOSING, DISORDER_MS

KEYS = 200
PARTITIONS = 4
EPOCH_MS = 1_700_000_000_000
_CHUNK_SECONDS = 0.05
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Readings:
    """Columns of readings, by their numbers. All readings of a key are in one partition."""

    number: np.ndarray
    key: np.ndarray
    value: np.ndarray
    time: np.ndarray

    @staticmethod
    def of(numbers: Any, rate: int) -> Readings:
        """Return the readings with these numbers, `rate` of which come in a second of event time."""
        number = np.asarray(numbers, dtype=np.int64)
        late = number * 104_729 % (DISORDER_MS - 100)
        at = EPOCH_MS + number * 1000 // rate - late
        return Readings(number, number * 7_919 % KEYS, number * 2_654_435_761 % 1_000, at)


class Feed(threading.Thread):
    """Sends readings until it is told to stop, then what carries event time past all of them."""

    def __init__(self, servers: str, rate: int) -> None:
        super().__init__(name="feed", daemon=True)
        self._rate = rate
        self._over = threading.Event()
        self.sent = 0
        self.closings = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": 2_000_000,
                "log_level": 0,
                "delivery.report.only.error": True,
            }
        )

    def run(self) -> None:
        started = time.monotonic()
        while not self._over.wait(_CHUNK_SECONDS):
            due = int((time.monotonic() - started) * self._rate)
            self._send(Readings.of(range(self.sent, due), self._rate))
            self.sent = due

    def _send(self, readings: Readings) -> None:
        columns = [each.tolist() for each in (readings.number, readings.key, readings.value, readings.time)]
        for number, key, value, at in zip(*columns, strict=True):
            self._produce(f"{number},{key},{value}", key % PARTITIONS, at)
        self._producer.poll(0)

    def _produce(self, text: str, partition: int, at: int) -> None:
        self._producer.produce("readings", text, partition=partition, timestamp=at, on_delivery=self._told)

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))

    def stop(self, patience: float) -> int:
        """End the feed and return how many readings are in the topic."""
        self._over.set()
        self.join()
        self._flush(patience)
        return self.sent

    def close_time(self, patience: float) -> int:
        """Send a record to each partition that is later than all readings; return how many records there are now."""
        self.closings += 1
        at = EPOCH_MS + self.sent * 1000 // self._rate + _HOUR_MS + self.closings
        for partition in range(PARTITIONS):
            self._produce(f"{CLOSING},{CLOSING},0", partition, at)
        self._flush(patience)
        return self.sent + self.closings * PARTITIONS

    def _flush(self, patience: float) -> None:
        left = self._producer.flush(patience)
        if left or self.failures:
            raise RuntimeError(f"the feed could not send {left} readings; failures: {self.failures[:3]}")
