"""Records that arrive steadily and know when they did, for measuring latency.

Spark's rate source hands over whole seconds, so up to a second of its latency is its own. Here a thread writes, every
few milliseconds, one line into Spark's socket source: the first and the last number of the records that came since and
the wall-clock time of their receipt. Native expressions unfold a line into its records, so the source can give a
thousand as well as millions a second and costs next to nothing. The DataFrame suits any engine on Spark.
"""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from report import KEY_MULTIPLIER

TICK = 0.01


class Arrivals:
    """A server on a free local port that sends `events` records at `rate` a second to the first who connects.

    Attributes:
        sent: per line, the wall-clock time in seconds at which it was handed to Spark.
    """

    def __init__(self, rate: int, events: int) -> None:
        self.sent: list[float] = []
        self.per_line = max(1, round(rate * TICK))
        self._lines = events // self.per_line
        self._seconds_per_line = self.per_line / rate
        self._server = socket.create_server(("localhost", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    @property
    def finished(self) -> bool:
        """Whether every line has been sent."""
        return len(self.sent) == self._lines

    def records(self, spark: SparkSession, keys: int) -> DataFrame:
        """The records as a streaming DataFrame (key, value, received); `received` is in seconds since 1970."""
        port = self._server.getsockname()[1]
        lines = spark.readStream.format("socket").options(host="localhost", port=port).load()
        fields = F.split("value", " ")
        numbers = F.sequence(fields[0].cast("long"), fields[1].cast("long"))
        # The time is read once for a line, not once for each of its records.
        lines = lines.select(numbers.alias("numbers"), fields[2].cast("double").alias("received"))
        records = lines.select(F.explode("numbers").alias("value"), "received")
        return records.select((F.col("value") * KEY_MULTIPLIER % keys).alias("key"), "value", "received")

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start = time.time()
            for line in range(self._lines):
                time.sleep(max(0.0, start + line * self._seconds_per_line - time.time()))
                first, now = line * self.per_line, time.time()
                connection.sendall(f"{first} {first + self.per_line - 1} {now:.6f}\n".encode())
                self.sent.append(now)
            # Closing would end the query before its last micro-batch.
            threading.Event().wait()
