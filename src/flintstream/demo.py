"""AverageSensorReadings: ten sensors, readings out of order, the average per sensor over 5-second event-time windows.

Run it with `make demo`, or `python -m flintstream.demo`. Read it as the smallest complete program.
"""

from __future__ import annotations

import argparse
import datetime
import time
from typing import Any

from flintstream import (
    StreamExecutionEnvironment,
    avg,
    bounded,
    choice,
    count,
    normal,
    timestamps,
    tumbling,
)

SENSORS = [f"sensor_{number}" for number in range(1, 11)]
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SHOWN = 12


def show(row: Any) -> str:
    """Return a result as a line."""
    end = datetime.datetime.fromtimestamp(row.window_end / 1000, datetime.UTC)
    return f"{row.sensor:<10} {end:%Y-%m-%d %H:%M:%S}  {row.mean:.1f}"


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="Average sensor readings over 5-second windows of event time.")
    parser.add_argument("--readings", type=int, default=200_000, help="how many readings to make")
    parser.add_argument("--runtime", choices=("spark", "local"), default="spark", help="where to run")
    parser.add_argument("--all", action="store_true", help="print every result, not only the first few")
    args = parser.parse_args()

    print("Ten sensors send readings up to two seconds out of order; averages per 5 seconds of event time:")
    started = time.monotonic()
    env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
    env.show_progress()
    readings = env.generate(
        {
            "sensor": choice(SENSORS),
            "ts": timestamps(START, step_ms=1, jitter_ms=2000),
            "temperature": normal(21.0, 4.0),
        },
        count=args.readings,
        seed=7,
        watermark=bounded("2s", on="ts"),
    )
    averages = readings.key_by("sensor").window(tumbling("5s")).agg(mean=avg("temperature"), readings=count())
    shown, total, counted = 0, 0, 0
    with averages.execute_and_collect("AverageSensorReadings") as results:
        for row in results:
            total += 1
            counted += row.readings
            if args.all or shown < SHOWN:
                shown += 1
                print(show(row))
    print(
        f"... {total} averages of {counted:,} readings in {time.monotonic() - started:.0f} s, Spark's start included."
    )
    print("Try next: python -m flintstream.demo --readings 5000000, the examples/ folder, and the README.")


if __name__ == "__main__":
    main()
