"""The RuntimeContext a user's function is opened with: its place in the job, and its keyed state."""

from __future__ import annotations

from typing import Any

from flintstream.errors import UnsupportedError, describe
from flintstream.model.context import KeyedStateStore, RuntimeContext
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.ops.keyed_store import KeyedStore
from flintstream.ops.metrics import OperatorMetrics


def refuse_ttl(descriptor: StateDescriptor, operator: str) -> None:
    """Refuse a time to live for the state of a window, which ends with the window."""
    if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
        what = f"state {descriptor.name!r} of a window has a time to live, but it lives as long as the window"
        raise UnsupportedError(describe(what, f"operator {operator!r}", "leave it out, or use global_state()"))


def state_by(store: KeyedStateStore, descriptor: object) -> State | None:
    """Return the state that a descriptor of any of the five kinds asks a store for, None if it is of no such kind."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return store.get_reducing_state(descriptor)
    if isinstance(descriptor, ValueStateDescriptor):
        return store.get_state(descriptor)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return store.get_aggregating_state(descriptor)
    if isinstance(descriptor, ListStateDescriptor):
        return store.get_list_state(descriptor)
    if isinstance(descriptor, MapStateDescriptor):
        return store.get_map_state(descriptor)
    return None


class OperatorRuntimeContext(KeyedStore, RuntimeContext):
    """RuntimeContext over an OperatorContext; `keyed` says whether keyed state may be asked for."""

    def get_task_name(self) -> str:
        return self._ctx.name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._ctx.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._ctx.backend.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._ctx.subtask

    def get_attempt_number(self) -> int:
        return self._ctx.attempt

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._ctx.name} ({self._ctx.subtask + 1}/{self._ctx.parallelism})"

    def get_job_parameter(self, key: str, default_value: str | None) -> str | None:
        return self._ctx.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> Any:
        return OperatorMetrics(self._ctx)
