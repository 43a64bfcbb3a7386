"""What a running function may ask of the engine: state, timers, where it runs, metrics.

Flink: RuntimeContext, KeyedStateStore, OperatorStateStore, TimerService and TimeDomain of pyflink.datastream. These are
ports: the engine implements them, and so does the test harness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from flintstream.model.metrics import MetricGroup
from flintstream.model.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.model.state_summaries import S, SummaryStateDescriptor


class TimeDomain(Enum):
    """The clock that a timer belongs to."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """The two clocks, and timers on them for the current key; setting a timer twice sets it once."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return processing time in ms; it stands still within an epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return event time in ms: no record up to it is expected any more."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when processing time reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Take back a processing-time timer; nothing happens if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Take back an event-time timer; nothing happens if there is none."""


class KeyedStateStore(ABC):
    """Hands out state of the current key."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state with that name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state with that name."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state with that name."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state with that name."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the aggregating state with that name."""

    @abstractmethod
    def get_summary_state(self, state_descriptor: SummaryStateDescriptor[S]) -> S:
        """Return the summary with that name: a sample, a distinct count, quantiles or the commonest values."""


class OperatorStateStore(ABC):
    """Hands out state that belongs to no key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the broadcast state with that name."""


class RuntimeContext(KeyedStateStore):
    """Where a function runs, and its state; given to `open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the operator."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return how many instances of the operator run side by side."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return how many instances there can be at most: the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the number of this instance, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return how often this piece of work was started before, 0 the first time."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with instance and number of instances: `count (3/8)`, counted from 1."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str | None) -> str | None:
        """Return a job parameter, or the default if it is not set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group in which this function registers its metrics."""
