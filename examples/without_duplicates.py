"""Messages that arrive twice within ten minutes are let through once; then their ids are forgotten.

The state of a keyed filter has a time to live in event time, so that it does not grow with every id there ever was. The
order 7 comes again after half an hour, when nobody remembers it, and counts as new.

It prints, in any order:

    12:00  order 7
    12:01  order 8
    12:20  order 9
    12:30  order 7
"""

from __future__ import annotations

from typing import Any

from flintstream import (
    FilterFunction,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    bounded,
)

MESSAGES = [(7, "12:00"), (8, "12:01"), (7, "12:05"), (8, "12:01"), (9, "12:20"), (7, "12:30")]


def millis(clock: str) -> int:
    hours, minutes = clock.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000


class FirstTime(FilterFunction):
    """Lets a key through, and then not again for ten minutes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("seen", bool)
        descriptor.enable_time_to_live(StateTtlConfig.new_builder("10m").use_event_time().build())
        self._seen = runtime_context.get_state(descriptor)

    def filter(self, value: Any) -> bool:
        if self._seen.value():
            return False
        self._seen.update(True)
        return True


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    messages = env.from_collection([{"order": order, "at": at, "ts": millis(at)} for order, at in MESSAGES])
    timed = messages.assign_timestamps_and_watermarks(bounded("1m", on="ts"))
    for message in timed.key_by("order").filter(FirstTime()).execute_and_collect("without duplicates"):
        print(f"{message['at']}  order {message['order']}")


if __name__ == "__main__":
    main()
