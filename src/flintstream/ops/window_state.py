"""State of one window of one key: the same primitives as keyed state, under `(key, window)` instead of the key alone.

Tables have the window as a column of their own, so a savepoint shows it and key groups depend on the key only.

Flink: PerWindowStateStore, MergingWindowStateStore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pyarrow as pa

from flintstream.errors import DefinitionError, UnsupportedError, describe
from flintstream.model.context import KeyedStateStore
from flintstream.model.functions import entry_point
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.model.state_summaries import S, SummaryStateDescriptor
from flintstream.ops.context import refuse_ttl, state_by
from flintstream.ops.operator import OperatorContext
from flintstream.ops.queryable import mark_state, refuse_mark
from flintstream.ops.window_contents import collected, merge_into
from flintstream.state.backend import KeyedBackend
from flintstream.state.map_table import MapTable
from flintstream.state.summary_views import summary_table, summary_view
from flintstream.state.table import GONE, Table, write_rows
from flintstream.state.views import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
)


class WindowMapTable(MapTable):
    """Rows `(key, window, map key) -> value`, held as `(key, window) -> {map key: value}`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.parts = 3

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        if not self.dirty:
            return None
        touched = list(self.dirty)
        empty: dict[Any, Any] = {}
        values = [(self.data.get(scope) or empty).get(inner, GONE) for scope, inner in touched]
        return write_rows(self, [(*scope, inner) for scope, inner in touched], values, max_parallelism)

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        rows = [((*scope, inner), value) for scope, held in self.data.items() for inner, value in held.items()]
        if not rows:
            return None
        return write_rows(self, [entry for entry, _ in rows], [value for _, value in rows], max_parallelism)

    def load(self, entries: Iterable[Any], values: Iterable[Any]) -> None:
        super().load([((key, window), inner) for key, window, inner in entries], values)

    def unload(self, entry: Any) -> None:
        key, window, inner = entry
        super().unload(((key, window), inner))


class _Scope:
    """What a view takes for the current key: the key together with the window that is being processed."""

    __slots__ = ("_backend", "window")

    def __init__(self, backend: KeyedBackend) -> None:
        self._backend = backend
        self.window: Any = None

    @property
    def key(self) -> tuple[Any, Any]:
        return self._backend.key, self.window


class WindowStateStore(KeyedStateStore):
    """Hands out state of the current key and of `window`; `prefix` keeps triggers and functions apart."""

    def __init__(self, ctx: OperatorContext, prefix: str) -> None:
        self._ctx = ctx
        self._prefix = prefix
        self._scope = _Scope(ctx.backend)
        self._views: dict[str, tuple[StateDescriptor, State]] = {}

    @property
    def window(self) -> Any:
        """The window whose state is handed out."""
        return self._scope.window

    @window.setter
    def window(self, window: Any) -> None:
        self._scope.window = window

    def get_state(self, state_descriptor: ValueStateDescriptor) -> KeyedValueState:
        return self._view(state_descriptor, KeyedValueState)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> KeyedListState:
        return self._view(state_descriptor, KeyedListState)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> KeyedMapState:
        return self._view(state_descriptor, KeyedMapState)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> KeyedReducingState:
        function = state_descriptor.get_reduce_function()
        return self._view(state_descriptor, lambda scope, table: KeyedReducingState(scope, table, function))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> KeyedAggregatingState:
        function = state_descriptor.get_agg_function()
        return self._view(state_descriptor, lambda scope, table: KeyedAggregatingState(scope, table, function))

    def get_summary_state(self, state_descriptor: SummaryStateDescriptor[S]) -> S:
        held = self._views.get(state_descriptor.name)
        if held is None or held[0] is not state_descriptor:
            refuse_mark(self._ctx, state_descriptor, "it is a summary")
            scope = cast("KeyedBackend", self._scope)
            name = f"{self._ctx.uid}/#{self._prefix}:{state_descriptor.name}"
            table = summary_table(self._ctx.backend, name, 2)
            held = self._views[state_descriptor.name] = (state_descriptor, summary_view(scope, table, state_descriptor))
        return cast("S", held[1])

    def get_any_state(self, state_descriptor: StateDescriptor) -> State:
        """Return the state that a descriptor of any kind asks for."""
        found = state_by(self, state_descriptor)
        if found is not None:
            return found
        what = f"{state_descriptor!r} describes no state of a window"
        raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", "use one of the five state descriptors"))

    def merge(self, state_descriptor: StateDescriptor, target: Any, sources: Iterable[Any]) -> None:
        """Merge the named state of the windows `sources` into that of `target`."""
        if isinstance(state_descriptor, ReducingStateDescriptor):
            merge = entry_point(state_descriptor.get_reduce_function(), "reduce")
        elif isinstance(state_descriptor, AggregatingStateDescriptor):
            merge = state_descriptor.get_agg_function().merge
        elif isinstance(state_descriptor, ListStateDescriptor):
            merge = collected().merge
        else:
            what = f"state {state_descriptor.name!r} cannot be merged"
            remedy = "use reducing, aggregating or list state in triggers of merging windows"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", remedy))
        merge_into(self._table(state_descriptor), self._ctx.backend.key, target, sources, merge)

    def copies(self, state_descriptor: StateDescriptor, windows: Iterable[Any]) -> dict[Any, Any]:
        """Return what the current key holds for these windows, so that it can be changed without harm to that."""
        data, key = self._table(state_descriptor).data, self._ctx.backend.key
        held = {window: data[key, window] for window in windows}
        return {window: list(each) if isinstance(each, list) else each for window, each in held.items()}

    def restore(self, state_descriptor: StateDescriptor, window: Any, held: Any) -> None:
        """Set what the current key holds for a window; None removes it."""
        self._table(state_descriptor).put((self._ctx.backend.key, window), held)

    def _view(self, descriptor: StateDescriptor, build: Callable[[Any, Any], Any]) -> Any:
        """Return the view made for this descriptor; asked for per record, so it is made once."""
        held = self._views.get(descriptor.name)
        if held is None or held[0] is not descriptor:
            refuse_ttl(descriptor, self._ctx.name)
            # Views read nothing of a backend but its key.
            scope = cast("KeyedBackend", self._scope)
            table = self._table(descriptor)
            mark_state(self._ctx, descriptor, table.name, windowed=True)
            held = self._views[descriptor.name] = (descriptor, build(scope, table))
        return held[1]

    def _table(self, descriptor: StateDescriptor) -> Table:
        name = f"{self._ctx.uid}/#{self._prefix}:{descriptor.name}"
        if isinstance(descriptor, MapStateDescriptor):
            return self._ctx.backend.table(name, lambda: WindowMapTable(name))
        return self._ctx.backend.table(name, lambda: Table(name, parts=2))


class NoWindowStateStore(KeyedStateStore):
    """Stands in where windows merge: nobody could say what the state of two windows becomes."""

    def __init__(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self.window: Any = None

    def _refuse(self, descriptor: StateDescriptor) -> Any:
        what = f"state {descriptor.name!r} was asked for of a window that can merge with others"
        remedy = "use global_state(), or windows that do not merge"
        raise UnsupportedError(describe(what, f"operator {self._ctx.name!r}", remedy))

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        return self._refuse(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        return self._refuse(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        return self._refuse(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        return self._refuse(state_descriptor)

    def get_summary_state(self, state_descriptor: SummaryStateDescriptor[Any]) -> Any:
        return self._refuse(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        return self._refuse(state_descriptor)
