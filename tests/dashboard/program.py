"""The job that the tests of the dashboard steer: sensors, their means in windows, and how often each was read.

Arguments: the time that the first reading has, in ms, how many readings there are a second, and the job's name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from flintstream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    avg,
    bounded,
    choice,
    count,
    normal,
    timestamps,
    tumbling,
)


class CountReadings(KeyedProcessFunction):
    """Counts the readings of each sensor; others may look the count up."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("seen", int)
        descriptor.set_queryable("readings", uncommitted=True)
        self.seen = runtime_context.get_state(descriptor)
        self.hot = runtime_context.get_metrics_group().counter("hot readings")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        if value.temperature > 25.0:
            self.hot.inc()
            yield f"{value.sensor} is at {value.temperature:.1f} after {seen} readings"


def main(start_ms: int, rate: int, name: str = "sensor averages") -> None:
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    env.enable_checkpointing(250)
    readings = env.generate(
        {
            "sensor": choice(["kitchen", "cellar", "attic", "garden"]),
            "ts": timestamps(start_ms, step_ms=1000 / rate, jitter_ms=300),
            "temperature": normal(21.0, 4.0),
        },
        rate=rate,
    )
    timed = readings.name("readings").uid("readings").assign_timestamps_and_watermarks(bounded("300ms", on="ts"))
    sensors = timed.uid("times").key_by("sensor")
    sensors.process(CountReadings()).name("count readings").uid("counts").print().name("hot sensors").uid("hot")
    means = sensors.window(tumbling("2s")).agg(mean=avg("temperature"), readings=count())
    means.name("means of 2 s").uid("means").print().name("means").uid("shown")
    env.execute(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
