"""High temperature, then smoke at the same sensor within ten minutes: state and event-time timers in one function.

The state of a sensor is empty again once its ten minutes have passed.

It prints:

    fire in the hall: smoke at minute 8
"""

from __future__ import annotations

from collections.abc import Iterator

from flintstream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    monotonous,
)

MINUTE = 60_000
READINGS = [
    {"sensor": "hall", "ts": 0 * MINUTE, "kind": "high temperature"},
    {"sensor": "attic", "ts": 1 * MINUTE, "kind": "high temperature"},
    {"sensor": "hall", "ts": 8 * MINUTE, "kind": "smoke"},
    {"sensor": "attic", "ts": 12 * MINUTE, "kind": "smoke"},
]


class Alarm(KeyedProcessFunction):
    """Raises an alarm when smoke follows heat within ten minutes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.hot_since = runtime_context.get_state(ValueStateDescriptor("hot since"))

    def process_element(self, value: dict, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        if value["kind"] == "high temperature":
            self.hot_since.update(value["ts"])
            ctx.timer_service().register_event_time_timer(value["ts"] + 10 * MINUTE)
            return
        hot_since = self.hot_since.value()
        # The timer only cleans up: the watermark may still be behind this record.
        if hot_since is not None and value["ts"] - hot_since <= 10 * MINUTE:
            yield f"fire in the {value['sensor']}: smoke at minute {value['ts'] // MINUTE}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.hot_since.clear()


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = env.from_collection(READINGS).assign_timestamps_and_watermarks(monotonous(on="ts"))
    for alarm in readings.key_by("sensor").process(Alarm()).execute_and_collect("smoke alarm"):
        print(alarm)


if __name__ == "__main__":
    main()
