"""Keyed state for a function that asks for it: from a descriptor to a view of a table.

Here what was declared meets what was restored: its type must still fit, and a time to live may be new, or gone. Apart
from the rest of the RuntimeContext, which is about the function's place in the job.

Flink: DefaultKeyedStateStore, TtlStateFactory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flintstream.errors import DefinitionError, IncompatibleStateError, TypeMismatchError, UnsupportedError, describe
from flintstream.model.context import KeyedStateStore
from flintstream.model.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.model.state_summaries import S, SummaryStateDescriptor
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.ops.batch import Values
from flintstream.ops.conform import conform_to
from flintstream.ops.operator import OperatorContext
from flintstream.ops.queryable import mark_state, refuse_mark
from flintstream.state.map_table import MapTable
from flintstream.state.stamped import Stamped
from flintstream.state.summary_views import summary_table, summary_view
from flintstream.state.table import GONE, Table
from flintstream.state.ttl import Deadlines, Lifetime, TtlClock, give_stamps, take_stamps
from flintstream.state.ttl_views import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)
from flintstream.state.views import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
)

_VISIBLE = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp


@dataclass(slots=True)
class EpochClock:
    """Processing time: it stands still within an epoch."""

    ctx: OperatorContext

    def now(self) -> int:
        return self.ctx.now

    def stamp(self) -> int:
        return self.ctx.now


class KeyedStore(KeyedStateStore):
    """Hands out state of the current key; `keyed` says whether there are keys."""

    def __init__(self, ctx: OperatorContext, keyed: bool) -> None:
        self._ctx = ctx
        self._keyed = keyed
        self._views: dict[str, tuple[StateDescriptor, Any]] = {}

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._view(state_descriptor, KeyedValueState, TtlValueState)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._view(state_descriptor, KeyedListState, TtlListState)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._view(state_descriptor, KeyedMapState, TtlMapState)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        function = state_descriptor.get_reduce_function()
        return self._view(state_descriptor, KeyedReducingState, TtlReducingState, function)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        function = state_descriptor.get_agg_function()
        return self._view(state_descriptor, KeyedAggregatingState, TtlAggregatingState, function)

    def get_summary_state(self, state_descriptor: SummaryStateDescriptor[S]) -> S:
        known = self._views.get(state_descriptor.name)
        if known is not None and known[0] == state_descriptor:
            return known[1]
        self._check(state_descriptor)
        self._refuse_second_kind(state_descriptor)
        refuse_mark(self._ctx, state_descriptor, "it is a summary")
        table = summary_table(self._ctx.backend, f"{self._ctx.uid}/{state_descriptor.name}", 1)
        view = summary_view(self._ctx.backend, table, state_descriptor)
        self._views[state_descriptor.name] = (state_descriptor, view)
        return view

    def _view(self, descriptor: StateDescriptor, plain: Callable[..., Any], expiring: Any, *function: Any) -> Any:
        """Return the view made for this descriptor; some ask once per record, so it is made once."""
        known = self._views.get(descriptor.name)
        if known is not None and (known[0] is descriptor or known[0] == descriptor):
            return known[1]
        self._check(descriptor)
        self._refuse_second_kind(descriptor)
        if known is not None and _in_force(known[0]) != _in_force(descriptor):
            what = f"state {descriptor.name!r} was asked for twice, with different times to live"
            remedy = "use one descriptor for it, or another name"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", remedy))
        table = self._table(descriptor)
        config = _in_force(descriptor)
        if config is None:
            take_stamps(table)
            self._drop_deadlines(descriptor)
            view = plain(self._ctx.backend, table, *function)
            mark_state(self._ctx, descriptor, table.name)
        else:
            life = self._lifetime(descriptor, config)
            stamp = self._ctx.watermark if _by_event_time(config) else self._ctx.now
            give_stamps(table, stamp, life, lists=isinstance(descriptor, ListStateDescriptor))
            view = expiring(self._ctx.backend, table, life, *function)
            mark_state(self._ctx, descriptor, table.name, **_life_of(config))
            self._ctx.sweeps[table.name] = view.sweep if _by_event_time(config) else self._by_clock(view.sweep)
        self._hold_to_type(table, descriptor)
        self._views[descriptor.name] = (descriptor, view)
        return view

    def _refuse_second_kind(self, descriptor: StateDescriptor) -> None:
        known = self._views.get(descriptor.name)
        if known is not None and type(known[0]) is not type(descriptor):
            what = f"state {descriptor.name!r} is asked for by {known[0]!r} and by {descriptor!r}"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", "give one of them another name"))

    def _check(self, descriptor: StateDescriptor) -> None:
        if not self._keyed:
            what = f"state {descriptor.name!r} was asked for on a stream without keys"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", "put key_by(...) before it"))

    def _table(self, descriptor: StateDescriptor) -> Table:
        name = f"{self._ctx.uid}/{descriptor.name}"
        if isinstance(descriptor, MapStateDescriptor):
            return self._ctx.backend.table(name, lambda: MapTable(name))
        return self._ctx.backend.table(name, lambda: Table(name))

    def _deadlines(self, descriptor: StateDescriptor) -> Deadlines:
        name = self._deadlines_name(descriptor)
        return self._ctx.backend.table(name, lambda: Deadlines(name))

    def _deadlines_name(self, descriptor: StateDescriptor) -> str:
        return f"{self._ctx.uid}/#ttl:{descriptor.name}-timers"

    def _drop_deadlines(self, descriptor: StateDescriptor) -> None:
        """Forget when to look at what does not expire any more, or is not looked at."""
        if self._ctx.backend.knows(self._deadlines_name(descriptor)):
            deadlines = self._deadlines(descriptor)
            for key in list(deadlines.data):
                deadlines.drop(key)

    def _lifetime(self, descriptor: StateDescriptor, config: StateTtlConfig) -> Lifetime:
        ctx = self._ctx
        clock: TtlClock = EpochClock(ctx)
        if _by_event_time(config):
            if ctx.moment is None:
                what = f"state {descriptor.name!r} expires by event time, which this operator cannot tell"
                remedy = "use_processing_time(), or keep the state in a process function"
                raise UnsupportedError(describe(what, f"operator {ctx.name!r}", remedy))
            clock = ctx.moment
        on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        if not config.get_cleanup_strategies().is_cleanup_in_background():
            self._drop_deadlines(descriptor)
            shows_expired = config.get_state_visibility() is _VISIBLE
            return Lifetime(config.get_ttl().to_milliseconds(), clock, on_read, shows_expired, None)
        return Lifetime(config.get_ttl().to_milliseconds(), clock, on_read, False, self._deadlines(descriptor))

    def _by_clock(self, sweep: Callable[[int], None]) -> Callable[[int], None]:
        ctx = self._ctx
        return lambda watermark: sweep(ctx.now)

    def _hold_to_type(self, table: Table, descriptor: StateDescriptor) -> None:
        """Have what an epoch changed compared with the declared type at its end: per epoch, not per update."""
        if descriptor.type_info is None:
            return
        type_info, is_map = descriptor.type_info, isinstance(descriptor, MapStateDescriptor)
        conform = conform_to(type_info, f"{self._ctx.name}, state {descriptor.name!r}", "")

        def declared(entry: Any, value: Any) -> Any:
            return {entry[-1]: _plain(value)} if is_map else _plain(value)

        def check() -> None:
            changed = [declared(entry, value) for entry, value in table.dirty_rows() if value is not GONE]
            if changed:
                conform(Values(changed))

        restored = next(table.rows(), None)
        if restored is not None:
            try:
                conform(Values([declared(*restored)]))
            except TypeMismatchError:
                what = f"state {descriptor.name!r} was restored with values like {declared(*restored)!r:.200}, "
                what += f"but its declared type is now {type_info}"
                remedy = "declare the type it had, or another name for state of the new type"
                raise IncompatibleStateError(describe(what, f"operator {self._ctx.name!r}", remedy)) from None
        self._ctx.checks.append(check)


def _in_force(descriptor: StateDescriptor) -> StateTtlConfig | None:
    config = descriptor.ttl_config
    return None if config is None or not config.is_enabled() else config


def _by_event_time(config: StateTtlConfig) -> bool:
    return config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime


def _life_of(config: StateTtlConfig) -> dict[str, Any]:
    """Return what those who only look must know of entries that may have expired and are still there."""
    cleaned = config.get_cleanup_strategies().is_cleanup_in_background()
    if cleaned or config.get_state_visibility() is _VISIBLE:
        return {}
    return {"ttl": config.get_ttl().to_milliseconds(), "clock": "event" if _by_event_time(config) else "processing"}


def _plain(value: Any) -> Any:
    """Return what the user put into state that may expire."""
    if type(value) is Stamped:
        return value[0]
    return [each[0] for each in value] if type(value) is list and value and type(value[0]) is Stamped else value
