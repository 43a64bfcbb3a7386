"""The RuntimeContext a user's function is opened with: its place in the job, and its keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream.errors import DefinitionError, UnsupportedError, describe
from flintstream.model.context import RuntimeContext
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.ops.batch import Values
from flintstream.ops.conform import conform_to
from flintstream.ops.metrics import OperatorMetrics
from flintstream.ops.operator import OperatorContext
from flintstream.state.map_table import MapTable
from flintstream.state.table import GONE, Table
from flintstream.state.views import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
)


def refuse_ttl(descriptor: StateDescriptor, operator: str) -> None:
    """Refuse a time to live, which is still to come, rather than keep state for ever without a word."""
    if descriptor.ttl_config is not None:
        what = f"state {descriptor.name!r} has a time to live, which does not work yet"
        raise UnsupportedError(describe(what, f"operator {operator!r}", "clear the state by a timer"))


class OperatorRuntimeContext(RuntimeContext):
    """RuntimeContext over an OperatorContext; `keyed` says whether keyed state may be asked for."""

    def __init__(self, ctx: OperatorContext, keyed: bool) -> None:
        self._ctx = ctx
        self._keyed = keyed

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

    def _table(self, descriptor: StateDescriptor) -> Table:
        self._check(descriptor)
        name = f"{self._ctx.uid}/{descriptor.name}"
        table = self._ctx.backend.table(name, lambda: Table(name))
        self._hold_to_type(table, descriptor, lambda entry, value: value)
        return table

    def _hold_to_type(self, table: Table, descriptor: StateDescriptor, declared: Callable[[Any, Any], Any]) -> None:
        """Have what an epoch changed compared with the declared type at its end: per epoch, not per update."""
        if descriptor.type_info is None:
            return
        name = f"{self._ctx.name}, state {descriptor.name!r}"
        conform = conform_to(descriptor.type_info, name, "")

        def check() -> None:
            changed = [declared(entry, value) for entry, value in table.dirty_rows() if value is not GONE]
            if changed:
                conform(Values(changed))

        self._ctx.checks.append(check)

    def _check(self, descriptor: StateDescriptor) -> None:
        refuse_ttl(descriptor, self._ctx.name)
        if not self._keyed:
            what = f"state {descriptor.name!r} was asked for on a stream without keys"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", "put key_by(...) before it"))

    def get_state(self, state_descriptor: ValueStateDescriptor) -> KeyedValueState:
        return KeyedValueState(self._ctx.backend, self._table(state_descriptor))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> KeyedListState:
        return KeyedListState(self._ctx.backend, self._table(state_descriptor))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> KeyedMapState:
        self._check(state_descriptor)
        name = f"{self._ctx.uid}/{state_descriptor.name}"
        table = self._ctx.backend.table(name, lambda: MapTable(name))
        self._hold_to_type(table, state_descriptor, lambda entry, value: {entry[-1]: value})
        return KeyedMapState(self._ctx.backend, table)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> KeyedReducingState:
        function = state_descriptor.get_reduce_function()
        return KeyedReducingState(self._ctx.backend, self._table(state_descriptor), function)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> KeyedAggregatingState:
        function = state_descriptor.get_agg_function()
        return KeyedAggregatingState(self._ctx.backend, self._table(state_descriptor), function)
