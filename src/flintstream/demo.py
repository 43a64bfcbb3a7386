"""AverageSensorReadings: ten sensors, readings out of order, the average per sensor over 5-second event-time windows.

Run it with `make demo`, `flintstream demo`, or `python -m flintstream.demo`. Read it as the smallest complete program.
In a job manager it runs with `--endless`, to be looked at, stopped, and started again.
"""

from __future__ import annotations

import argparse
import datetime
import time
from typing import Any

from flintstream import (
    DataStream,
    StreamExecutionEnvironment,
    avg,
    bounded,
    choice,
    count,
    normal,
    timestamps,
    tumbling,
)

NAME = "AverageSensorReadings"
SENSORS = [f"sensor_{number}" for number in range(1, 11)]
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SHOWN = 12


def show(row: Any) -> str:
    """Return a result as a line."""
    end = datetime.datetime.fromtimestamp(row.window_end / 1000, datetime.UTC)
    return f"{row.sensor:<10} {end:%Y-%m-%d %H:%M:%S}  {row.mean:.1f}"


def averages_of(readings: DataStream) -> DataStream:
    """Return the average of each sensor over 5 seconds of event time."""
    windows = readings.key_by("sensor").window(tumbling("5s"))
    return windows.agg(mean=avg("temperature"), readings=count()).uid("averages")


def readings_of(env: StreamExecutionEnvironment, start: Any, step_ms: float, **pace: Any) -> DataStream:
    """Return readings of ten sensors, up to two seconds out of order."""
    return env.generate(
        {
            "sensor": choice(SENSORS),
            "ts": timestamps(start, step_ms=step_ms, jitter_ms=2000),
            "temperature": normal(21.0, 4.0),
        },
        seed=7,
        watermark=bounded("2s", on="ts"),
        **pace,
    ).uid("readings")


def run_short(env: StreamExecutionEnvironment, readings: int, shows_all: bool) -> None:
    """Print some averages of so many readings, and how long it took."""
    print("Ten sensors send readings up to two seconds out of order; averages per 5 seconds of event time:")
    started = time.monotonic()
    env.show_progress()
    averages = averages_of(readings_of(env, START, 1, count=readings))
    shown, total, counted = 0, 0, 0
    with averages.execute_and_collect(NAME) as results:
        for row in results:
            total += 1
            counted += row.readings
            if shows_all or shown < SHOWN:
                shown += 1
                print(show(row))
    print(
        f"... {total} averages of {counted:,} readings in {time.monotonic() - started:.0f} s, Spark's start included."
    )
    print("Try next: python -m flintstream.demo --readings 5000000, the examples/ folder, and the README.")


def run_endless(env: StreamExecutionEnvironment, rate: float, since_ms: int) -> None:
    """Print averages for ever, of readings whose event time follows the clock."""
    # As many splits whatever the parallelism: positions belong to splits, and the demo may be rescaled.
    readings = readings_of(env, since_ms, 1000 / rate, rate=rate, splits=4)
    averages = averages_of(readings)
    averages.map(show).uid("lines").print().uid("shown")
    # `flintstream state get AverageSensorReadings - averages sensor_1` looks the newest one up.
    averages.key_by("sensor").as_queryable_state("averages").uid("latest")
    env.enable_checkpointing("1s").execute(NAME)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="Average sensor readings over 5-second windows of event time.")
    parser.add_argument("--readings", type=int, default=200_000, help="how many readings to make")
    parser.add_argument("--runtime", choices=("spark", "local"), help="where to run; FLINTSTREAM_RUNTIME else")
    parser.add_argument("--all", action="store_true", help="print every result, not only the first few")
    parser.add_argument("--endless", action="store_true", help="go on for ever, with --rate readings per second")
    parser.add_argument("--rate", type=float, default=1000.0, help="with --endless: readings per second")
    parser.add_argument("--since", type=int, help="with --endless: the first reading's time, in ms; now without it")
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
    if args.endless:
        run_endless(env, args.rate, int(time.time() * 1000) if args.since is None else args.since)
    else:
        run_short(env, args.readings, args.all)


if __name__ == "__main__":
    main()
