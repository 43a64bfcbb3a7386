"""A time to live as a parameter of state descriptors."""

from __future__ import annotations

from typing import Any

from flintstream import KeyedProcessFunction, StateTtlConfig, ValueStateDescriptor, bounded
from tests.capabilities.parameters import ABSENT, Bench, case
from tests.capabilities.support import collect


class Last(KeyedProcessFunction):
    """Gives back what it kept of the record before."""

    def __init__(self, ttl: Any) -> None:
        self._descriptor = ValueStateDescriptor("last")
        if ttl is not ABSENT:
            self._descriptor.enable_time_to_live(ttl)

    def open(self, runtime_context):
        self._last = runtime_context.get_state(self._descriptor)

    def process_element(self, value, ctx):
        yield self._last.value()
        self._last.update(value[1])


def last(bench: Bench, ttl: Any) -> list[Any]:
    stream = bench.of(("a", 0), ("b", 5000), ("a", 6000)).assign_timestamps_and_watermarks(bounded(0, on=1))
    return collect(stream.key_by(0).process(Last(ttl)))


def event_time(ttl: str) -> Any:
    return StateTtlConfig.new_builder(ttl).use_event_time()


case(
    "StateDescriptor.enable_time_to_live.ttl_config",
    last,
    (ABSENT, [None, None, 0]),
    (event_time("4s").build(), [None, None, None]),
    (event_time("1h").build(), [None, None, 0]),
    (event_time("4s").set_update_type(StateTtlConfig.UpdateType.Disabled).build(), [None, None, 0]),
    (event_time("4s").return_expired_if_not_cleaned_up().build(), [None, None, None]),
    (event_time("4s").return_expired_if_not_cleaned_up().disable_cleanup_in_background().build(), [None, None, 0]),
    (StateTtlConfig.new_builder("4s").build(), [None, None, 0]),
)
