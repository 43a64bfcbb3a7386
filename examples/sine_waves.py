"""The sum of sine waves: zero in event time, noise in processing time.

Twelve sensors measure the same wave, each a twelfth of a period behind the one before, so at any moment their readings
add up to nothing. They reach us with delays of up to a second. A window of event time holds the readings that belong
together, whenever they come, and its sum is zero; a window of processing time holds what happened to arrive.

It prints:

    event time       15 windows, largest |sum| ...e-14
    processing time  ... windows, largest |sum| ...e+01
"""

from __future__ import annotations

import math
import random

from flintstream import (
    ProcessAllWindowFunction,
    Split,
    SplitSource,
    StreamExecutionEnvironment,
    TumblingProcessingTimeWindows,
    bounded,
    tumbling,
)

SENSORS = 12
SECONDS = 15
STEP_MS = 10
MOST_DELAY_MS = 1000


def readings() -> list[tuple[int, float]]:
    """Return (event time, value) in the order of arrival."""
    chance = random.Random(37)
    arrivals = []
    for time in range(0, SECONDS * 1000, STEP_MS):
        for sensor in range(SENSORS):
            value = math.sin(2 * math.pi * (time / 2500 + sensor / SENSORS))
            arrivals.append((time + chance.uniform(0, MOST_DELAY_MS), time, value))
    return [(time, value) for _, time, value in sorted(arrivals)]


class Sensors(SplitSource):
    """The readings, as fast as they would come in reality."""

    is_bounded = True

    def __init__(self) -> None:
        self._readings = readings()

    def splits(self, parallelism: int) -> list[Split]:
        return [Split(0, 0, len(self._readings))]

    def read(self, split: int, start: int, end: int) -> list[tuple[int, float]]:
        return self._readings[start:end]

    def rate(self) -> float:
        return SENSORS * 1000 / STEP_MS


class Sum(ProcessAllWindowFunction):
    """Adds up a window's values."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def process(self, context, elements):  # type: ignore[no-untyped-def]
        """Called with all readings of a window."""
        yield self._kind, math.fsum(value for _, value in elements)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    by_time = bounded(f"{MOST_DELAY_MS}ms", on=0)
    waves = env.from_source(Sensors(), by_time, "sensors")
    event_time = waves.window_all(tumbling("1s")).process(Sum("event time"))
    processing_time = waves.window_all(TumblingProcessingTimeWindows.of("1s")).process(Sum("processing time"))
    sums: dict[str, list[float]] = {"event time": [], "processing time": []}
    for kind, total in event_time.union(processing_time).execute_and_collect("sine waves"):
        sums[kind].append(total)
    for kind, totals in sums.items():
        print(f"{kind:16} {len(totals)} windows, largest |sum| {max(map(abs, totals)):.1e}")
    assert all(abs(total) < 1e-9 for total in sums["event time"])


if __name__ == "__main__":
    main()
