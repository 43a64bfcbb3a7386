"""Operators of a stream beside a broadcast one: every instance has every broadcast record, and so the same state.

They run as all operators of two inputs do, in the order of stamps. What one broadcast record makes several instances
emit has one stamp but for the number of the instance, which is put into it.

Flink: CoBroadcastWithNonKeyedOperator, CoBroadcastWithKeyedOperator.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from flintstream.errors import DefinitionError, IncompatibleStateError, TypeMismatchError, describe
from flintstream.model.functions import Function
from flintstream.model.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    StateDescriptor,
)
from flintstream.model.state_summaries import SummaryStateDescriptor
from flintstream.ops.batch import FIRST, NO_TIMESTAMP, Batch, Values
from flintstream.ops.conform import conform_to
from flintstream.ops.context import OperatorRuntimeContext, state_by
from flintstream.ops.keyed import PIECE, KeyedContext, KeyedProcessOperator, TimedOperator, TimerMoment
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.queryable import refuse_mark
from flintstream.ops.run import Emissions, Run, Span
from flintstream.ops.stateless import FunctionOperator, is_generator
from flintstream.ops.tagging import emit_tagged
from flintstream.state.broadcast import BroadcastTable, BroadcastView, ReadOnlyBroadcastView
from flintstream.state.keygroups import hash_key
from flintstream.state.table import GONE, Table
from flintstream.state.timers import order_of

BROADCAST_PORT = 1
METHODS = ("process_element", "process_broadcast_element")


class BroadcastStates:
    """The broadcast state of one operator, by name, once to be changed and once to be read."""

    def __init__(self, ctx: OperatorContext, descriptors: Sequence[MapStateDescriptor]) -> None:
        self.writable: dict[str, BroadcastState[Any, Any]] = {}
        self.readable: dict[str, ReadOnlyBroadcastState[Any, Any]] = {}
        for descriptor in descriptors:
            refuse_mark(ctx, descriptor, "it is broadcast and has no keys")
            table = ctx.backend.table(f"{ctx.uid}/#broadcast/{descriptor.name}", BroadcastTable)
            self.writable[descriptor.name] = BroadcastView(table)
            self.readable[descriptor.name] = ReadOnlyBroadcastView(table, _refusal(descriptor.name))
            if descriptor.type_info is not None:
                ctx.checks.append(_type_check(ctx, table, descriptor))


def _refusal(name: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        what = f"broadcast state {name!r} can only be read here"
        raise DefinitionError(describe(what, remedy="change it in process_broadcast_element(...)"))

    return refuse


def _type_check(ctx: OperatorContext, table: BroadcastTable, descriptor: MapStateDescriptor) -> Callable[[], None]:
    """Return what compares the pairs that an epoch changed with their declared type, at its end."""
    assert descriptor.type_info is not None
    conform = conform_to(descriptor.type_info, f"{ctx.name}, state {descriptor.name!r}", "")
    restored = dict(itertools.islice(table.data.items(), 1))
    try:
        conform(Values([restored]))
    except TypeMismatchError:
        what = f"broadcast state {descriptor.name!r} was restored with pairs like {restored!r:.200}, "
        what += f"but its declared type is now {descriptor.type_info}"
        remedy = "declare the type it had, or another name for state of the new type"
        raise IncompatibleStateError(describe(what, f"operator {ctx.name!r}", remedy)) from None

    def check() -> None:
        changed = [{key: value} for key, value in table.dirty_rows() if value is not GONE]
        if changed:
            conform(Values(changed))

    return check


def unknown_state(states: Mapping[str, Any], descriptor: Any) -> DefinitionError:
    """Return the error of asking for state that the stream was not broadcast with."""
    name = getattr(descriptor, "name", descriptor)
    what = f"{name!r:.100} is not broadcast state of this stream, which has {', '.join(map(repr, states))}"
    return DefinitionError(describe(what, remedy="pass one of the descriptors that broadcast(...) was given"))


class SideContext:
    """The context of one side of a function without keys; it stands at the record that an iterator gave last."""

    __slots__ = ("_now", "_rest", "_states", "_timestamps", "_watermarks")

    def __init__(self, states: Mapping[str, Any]) -> None:
        self._states = states

    def walk(self, batch: Batch, rest: Any, now: int) -> None:
        """Go through a batch with an iterator over a list, which knows its place: nothing is counted per record."""
        assert batch.watermarks is not None
        self._timestamps, self._watermarks, self._now = batch.timestamps, batch.watermarks, now
        self._rest = rest

    def _index(self) -> int:
        return len(self._timestamps) - 1 - self._rest.__length_hint__()

    def timestamp(self) -> int | None:
        timestamp = int(self._timestamps[self._index()])
        return None if timestamp == NO_TIMESTAMP else timestamp

    def current_processing_time(self) -> int:
        return self._now

    def current_watermark(self) -> int:
        return int(self._watermarks[self._index()])

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        try:
            return self._states[state_descriptor.name]
        except (AttributeError, KeyError):
            raise unknown_state(self._states, state_descriptor) from None


class BroadcastProcessOperator(FunctionOperator):
    """A BroadcastProcessFunction."""

    def __init__(self, function: Function, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(function)
        self._descriptors = tuple(descriptors)

    def open(self, ctx: OperatorContext) -> None:
        states = BroadcastStates(ctx, self._descriptors)
        self._reading, self._writing = SideContext(states.readable), SideContext(states.writable)
        super().open(ctx)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "an operator with broadcast state is always behind an exchange"
        raise AssertionError(msg)

    def process_run(self, run: Run, out: Output) -> None:
        for piece in run.pieces(PIECE):
            self._process_piece(piece, out)

    def _process_piece(self, run: Run, out: Output) -> None:
        if not len(run.batch):
            return
        emissions = Emissions()
        values = iter(run.batch.values.rows())
        for ctx in (self._reading, self._writing):
            ctx.walk(run.batch, values, run.now)
        assert run.inputs is not None
        if BROADCAST_PORT in run.inputs:
            self._process_both(run, values, run.inputs.tolist(), emissions)
        else:
            self._process_one(values, emissions)
        if emissions.rows:
            emit_tagged(emissions.batch(run), out)

    def _process_one(self, values: Iterator[Any], emissions: Emissions) -> None:
        """The hot loop: mostly there is no broadcast record far and wide."""
        ctx, rows, function = self._reading, emissions.rows, getattr(self.function, METHODS[0])
        append, end = rows.append, emissions.ends.append
        if is_generator(function):
            for value in values:
                # Mostly there is one row, and `extend` asks a generator first how many there will be.
                for row in function(value, ctx):
                    append(row)
                end(len(rows))
            return
        for value in values:
            result = function(value, ctx)
            if result is not None:
                rows.extend(result)
            end(len(rows))

    def _process_both(self, run: Run, values: Iterator[Any], inputs: Sequence[int], emissions: Emissions) -> None:
        rows, contexts = emissions.rows, (self._reading, self._writing)
        functions = [getattr(self.function, method) for method in METHODS]
        for index, (port, value) in enumerate(zip(inputs, values, strict=True)):
            start = len(rows)
            result = functions[port](value, contexts[port])
            if result is not None:
                rows.extend(result)
            if port == BROADCAST_PORT and len(rows) > start:
                end_broadcast(emissions, start, index, run, self.ctx.subtask)
            emissions.ends.append(len(rows))


def end_broadcast(emissions: Emissions, start: int, index: int, run: Run, subtask: int) -> None:
    """Note that the rows from `start` on are one instance's own for a record that all instances have."""
    timestamp = int(run.batch.timestamps[index])
    emissions.spans.append(Span(start, len(emissions.rows), index, -1, FIRST, subtask, timestamp))


class NoKey:
    """Stands where the broadcast side has no key; whoever looks for its state is told so."""

    def __hash__(self) -> int:
        what = "there is no key on the broadcast side, so neither state of a key nor timers"
        remedy = "use them in process_element(...), or ctx.apply_to_keyed_state(descriptor, function)"
        raise DefinitionError(describe(what, remedy=remedy))


_NO_KEY = NoKey()


class KeyedReadingContext(KeyedContext):
    """ReadOnlyContext and OnTimerContext of a keyed function: it stands at one record or timer."""

    __slots__ = ("_states",)

    def __init__(self, operator: KeyedBroadcastOperator, states: Mapping[str, Any]) -> None:
        super().__init__(operator.backend, operator.timers)
        self._states = states

    def current_processing_time(self) -> int:
        return self._timers.now

    def current_watermark(self) -> int:
        return self._timers.watermark

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        try:
            return self._states[state_descriptor.name]
        except (AttributeError, KeyError):
            raise unknown_state(self._states, state_descriptor) from None


class KeyedWritingContext:
    """Context of a keyed function's broadcast side."""

    __slots__ = ("_operator", "_states", "element_timestamp")

    def __init__(self, operator: KeyedBroadcastOperator, states: Mapping[str, Any]) -> None:
        self._operator = operator
        self._states = states
        self.element_timestamp = NO_TIMESTAMP

    def timestamp(self) -> int | None:
        return None if self.element_timestamp == NO_TIMESTAMP else self.element_timestamp

    def current_processing_time(self) -> int:
        return self._operator.timers.now

    def current_watermark(self) -> int:
        return self._operator.timers.watermark

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        try:
            return self._states[state_descriptor.name]
        except (AttributeError, KeyError):
            raise unknown_state(self._states, state_descriptor) from None

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Any) -> None:
        operator = self._operator
        backend = operator.backend
        state = _view_of(operator.runtime, state_descriptor)
        call: Callable[[Any, Any], Any] = getattr(function, "process", function)
        name = f"{operator.ctx.uid}/{state_descriptor.name}"
        table: Any = backend.tables[name]
        sweep = operator.ctx.sweeps.get(name)
        if sweep is not None:
            # Keys of which all has expired are not among them, wherever the epochs end.
            sweep(operator.timers.watermark)
        try:
            for key in _keys_of(table, backend.max_parallelism):
                backend.key = key
                call(key, state)
        finally:
            backend.key = _NO_KEY


def _view_of(runtime: OperatorRuntimeContext, descriptor: StateDescriptor) -> Any:
    """Return the state that a descriptor asks for, the same that the function itself was given."""
    if isinstance(descriptor, SummaryStateDescriptor):
        return runtime.get_summary_state(descriptor)
    found = state_by(runtime, descriptor)
    if found is not None:
        return found
    what = f"apply_to_keyed_state(...) got {descriptor!r:.100}, which is no state descriptor"
    raise TypeMismatchError(describe(what, remedy="pass the descriptor that the function got its state with"))


def _keys_of(table: Table, max_parallelism: int) -> list[Any]:
    """Return the keys that have an entry, in an order that is the same over all instances, however many there are."""
    keys = {entry if table.parts == 1 else entry[0] for entry, _ in table.rows()}
    return sorted(keys, key=lambda key: (hash_key(key) % max_parallelism, order_of(key)))


class KeyedBroadcastOperator(KeyedProcessOperator):
    """A KeyedBroadcastProcessFunction: as a keyed process function, but for the records of the broadcast side."""

    def __init__(self, function: Function, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(function, METHODS)
        self._descriptors = tuple(descriptors)

    def open(self, ctx: OperatorContext) -> None:
        TimedOperator.open(self, ctx)
        states = BroadcastStates(ctx, self._descriptors)
        self._element_ctx = KeyedReadingContext(self, states.readable)
        self._writing = KeyedWritingContext(self, states.writable)
        ctx.moment = TimerMoment(self.timers, self._element_ctx)
        self.runtime = OperatorRuntimeContext(ctx, keyed=True)
        self.function.open(self.runtime)

    def _process_inputs(self, run: Run, inputs: list[int], emissions: Emissions) -> None:
        if BROADCAST_PORT not in inputs:
            if inputs:
                self._process_one_input(run, emissions)
            return
        batch, ctx, rows = run.batch, self._element_ctx, emissions.rows
        assert batch.watermarks is not None
        function = getattr(self.function, METHODS[0])
        # Where all are broadcast records nobody has a key.
        keys: Sequence[Any] = [None] * len(batch) if batch.keys is None else batch.keys.rows()
        times = zip(batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True)
        columns = zip(inputs, keys, batch.values.rows(), times, strict=True)
        for index, (port, key, value, (timestamp, watermark)) in enumerate(columns):
            if watermark > self.timers.watermark:
                self.fire_until(watermark, run, emissions)
                self.timers.watermark = watermark
            if port == BROADCAST_PORT:
                self._process_broadcast(index, value, run, emissions)
            else:
                self.backend.key, ctx.element_timestamp = key, timestamp
                result = function(value, ctx)
                if result is not None:
                    rows.extend(result)
            emissions.ends.append(len(rows))

    def _process_broadcast(self, index: int, value: Any, run: Run, emissions: Emissions) -> None:
        rows = emissions.rows
        start = len(rows)
        timestamp = int(run.batch.timestamps[index])
        self.backend.key = _NO_KEY
        self._writing.element_timestamp = self._element_ctx.element_timestamp = timestamp
        result = getattr(self.function, METHODS[BROADCAST_PORT])(value, self._writing)
        if result is not None:
            rows.extend(result)
        if len(rows) > start:
            end_broadcast(emissions, start, index, run, self.ctx.subtask)
