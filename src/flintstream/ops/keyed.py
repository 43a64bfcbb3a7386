"""Operators behind a `key_by`: the user's function runs at a current key, with state and timers.

One loop serves them all: set the key, call the function, collect. Between records it looks at one integer, the time of
the earliest timer, and fires those that the watermark has reached, at the advance that reached them.

Flink: KeyedProcessOperator, InternalTimerServiceImpl.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flintstream.model.context import TimeDomain, TimerService
from flintstream.model.functions import Function
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import NO_TIMESTAMP, Batch, Values, expand
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.moment import RecordMoment
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.run import Emissions, Run
from flintstream.ops.stateless import FunctionOperator, callable_of
from flintstream.ops.tagging import emit_tagged
from flintstream.state.backend import KeyedBackend
from flintstream.state.table import Table
from flintstream.state.timers import TimerTable, order_of

PIECE = 1 << 14
"""Records per stretch of the record path."""


class KeyedTimerService(TimerService):
    """Timers of the current key; `namespace` is the window being processed, or None.

    `firing` is the time of the event timer that fires, NO_TIMESTAMP while another one does, None at a record; `passed`
    is how far event time has come by such timers.
    """

    __slots__ = ("_backend", "event", "firing", "namespace", "now", "passed", "processing", "watermark")

    def __init__(self, backend: KeyedBackend, uid: str) -> None:
        self._backend = backend
        self.event = backend.table(f"{uid}/#event-timers", lambda: TimerTable("event"))
        self.processing = backend.table(f"{uid}/#processing-timers", lambda: TimerTable("processing"))
        self.namespace: Any = None
        self.watermark = self.passed = MIN_TIMESTAMP
        self.firing: int | None = None
        self.now = 0

    def current_processing_time(self) -> int:
        return self.now

    def current_watermark(self) -> int:
        return self.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        self.event.register(self._backend.key, self.namespace, _within_time(timestamp))

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.processing.register(self._backend.key, self.namespace, _within_time(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.event.unregister(self._backend.key, self.namespace, _within_time(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.processing.unregister(self._backend.key, self.namespace, _within_time(timestamp))

    def begin_advance(self, passed: int, watermark: int) -> None:
        """The watermark advances from `passed`; timers that this makes fire follow."""
        self.passed, self.watermark = passed, watermark

    def begin_timer(self, time: int) -> None:
        """A timer fires: an event timer at its time, another at NO_TIMESTAMP."""
        self.firing = time
        if time > self.passed:
            self.passed = time


def _within_time(timestamp: Any) -> int:
    """Return a timer's time; beyond the ends of time lie the ends of time."""
    return max(MIN_TIMESTAMP, min(int(timestamp), MAX_TIMESTAMP))


class KeyedContext:
    """Both Context and OnTimerContext of keyed process functions: it stands at one record or timer."""

    __slots__ = ("_backend", "_domain", "_timers", "element_timestamp")

    def __init__(self, backend: KeyedBackend, timers: KeyedTimerService) -> None:
        self._backend = backend
        self._timers = timers
        self._domain = TimeDomain.EVENT_TIME
        self.element_timestamp = NO_TIMESTAMP

    def at_timer(self, domain: TimeDomain, time: int) -> None:
        """Stand at a firing timer."""
        self._domain = domain
        self.element_timestamp = time

    def timestamp(self) -> int | None:
        return None if self.element_timestamp == NO_TIMESTAMP else self.element_timestamp

    def get_current_key(self) -> Any:
        return self._backend.key

    def timer_service(self) -> KeyedTimerService:
        return self._timers

    def time_domain(self) -> TimeDomain:
        return self._domain


class TimerMoment:
    """The moment of operators with timers; `element` knows the timestamp of the record, if they tell it."""

    __slots__ = ("_element", "_timers")

    def __init__(self, timers: KeyedTimerService, element: KeyedContext | None = None) -> None:
        self._timers = timers
        self._element = element

    def now(self) -> int:
        timers = self._timers
        return timers.watermark if timers.firing is None or timers.firing == NO_TIMESTAMP else timers.passed

    def stamp(self) -> int:
        timestamp = self._timers.firing
        if timestamp is None:
            timestamp = NO_TIMESTAMP if self._element is None else self._element.element_timestamp
        return self._timers.watermark if timestamp == NO_TIMESTAMP else timestamp


class TimedOperator(Operator):
    """An operator with timers per key; what happens at one is `fire`."""

    def open(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self.backend = ctx.backend
        self.timers = KeyedTimerService(ctx.backend, ctx.uid)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a keyed operator is always behind an exchange"
        raise AssertionError(msg)

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        """Called for each due timer; appends outputs to `rows` and returns their timestamp."""
        raise NotImplementedError

    def fire_until(self, watermark: int, run: Run, emissions: Emissions) -> None:
        """Fire all event timers that the watermark, on its way to `watermark`, reaches; each at its own advance."""
        event, timers = self.timers.event, self.timers
        reached = run.watermarks
        while event.due <= watermark:
            # A timer for a time already passed waits for the next advance, as in Flink.
            step = bisect_right(reached, max(timers.watermark, event.due - 1))
            if step == len(reached) or reached[step] > watermark:
                return
            timers.begin_advance(int(reached[step - 1]) if step else run.start, int(reached[step]))
            while (due := event.pop_due(timers.watermark)) is not None:
                self._fire_one(due, TimeDomain.EVENT_TIME, step, emissions)

    def _fire_one(self, due: tuple[Any, Any, int, int], domain: TimeDomain, step: int, emissions: Emissions) -> None:
        key, namespace, time, key_hash = due
        self.backend.key, self.timers.namespace = key, namespace
        rows = emissions.rows
        start = len(rows)
        self.timers.begin_timer(time if domain is TimeDomain.EVENT_TIME else NO_TIMESTAMP)
        timestamp = self.fire(key, namespace, time, domain, rows)
        self.timers.firing = None
        if len(rows) > start:
            emissions.end_timer(start, step, time, key_hash, timestamp)

    def on_processing_time(self, now: int, run: Run, out: Output) -> None:
        self.timers.now = now
        self.timers.watermark = run.start
        emissions = Emissions()
        # A timer fires once its millisecond is over, as in Flink: records of that millisecond still come before it.
        while (due := self.timers.processing.pop_due(now - 1)) is not None:
            self._fire_one(due, TimeDomain.PROCESSING_TIME, -1, emissions)
        if emissions.rows:
            emit_tagged(emissions.batch(run), out)


class KeyedProcessOperator(TimedOperator):
    """KeyedProcessFunction and KeyedCoProcessFunction; `methods` has one name per input."""

    def __init__(self, function: Function, methods: Sequence[str] = ("process_element",)) -> None:
        self.function = function
        self._methods = tuple(methods)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._element_ctx = KeyedContext(ctx.backend, self.timers)
        ctx.moment = TimerMoment(self.timers, self._element_ctx)
        _open_keyed(self.function, ctx)

    def close(self) -> None:
        self.function.close()

    def process_run(self, run: Run, out: Output) -> None:
        for piece in run.pieces(PIECE):
            self._process_piece(piece, out)

    def _process_piece(self, run: Run, out: Output) -> None:
        emissions = Emissions()
        self.timers.watermark, self.timers.now = run.start, run.now
        if run.inputs is None:
            self._process_one_input(run, emissions)
        else:
            self._process_inputs(run, run.inputs.tolist(), emissions)
        self.fire_until(run.end, run, emissions)
        if emissions.rows:
            emit_tagged(emissions.batch(run), out)

    def _process_one_input(self, run: Run, emissions: Emissions) -> None:
        """The hot loop: everything looked up once, one comparison and a few attribute stores per record."""
        batch, backend, timers, ctx = run.batch, self.backend, self.timers, self._element_ctx
        assert batch.keys is not None and batch.watermarks is not None
        function = getattr(self.function, self._methods[0])
        event, extend, end = timers.event, emissions.rows.extend, emissions.ends.append
        rows = emissions.rows
        keys, values = batch.keys.rows(), batch.values.rows()
        for key, value, timestamp, watermark in zip(
            keys, values, batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True
        ):
            if watermark > timers.watermark:
                if watermark >= event.due:
                    self.fire_until(watermark, run, emissions)
                timers.watermark = watermark
            backend.key = key
            ctx.element_timestamp = timestamp
            result = function(value, ctx)
            if result is not None:
                extend(result)
            end(len(rows))

    def _process_inputs(self, run: Run, inputs: list[int], emissions: Emissions) -> None:
        batch, ctx, rows = run.batch, self._element_ctx, emissions.rows
        assert batch.keys is not None and batch.watermarks is not None
        functions = [getattr(self.function, method) for method in self._methods]
        columns = zip(
            inputs,
            batch.keys.rows(),
            batch.values.rows(),
            batch.timestamps.tolist(),
            batch.watermarks.tolist(),
            strict=True,
        )
        for port, key, value, timestamp, watermark in columns:
            if watermark > self.timers.watermark:
                self.fire_until(watermark, run, emissions)
                self.timers.watermark = watermark
            self.backend.key, ctx.element_timestamp = key, timestamp
            result = functions[port](value, ctx)
            if result is not None:
                rows.extend(result)
            emissions.ends.append(len(rows))

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        self._element_ctx.at_timer(domain, time)
        result: Any = self.function.on_timer(time, self._element_ctx)  # type: ignore[attr-defined]
        if result is not None:
            rows.extend(result)
        return time if domain is TimeDomain.EVENT_TIME else NO_TIMESTAMP


def _open_keyed(function: Function, ctx: OperatorContext) -> None:
    function.open(OperatorRuntimeContext(ctx, keyed=True))


class KeyedFunctionOperator(FunctionOperator):
    """map, filter and flat_map on a keyed stream: as without keys, but the function may keep keyed state."""

    keyed = True

    def __init__(self, function: Function, method: str) -> None:
        super().__init__(function)
        self._method = method
        self._moment = RecordMoment()

    def open(self, ctx: OperatorContext) -> None:
        ctx.moment = self._moment
        super().open(ctx)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        assert batch.keys is not None
        function, backend, moment = callable_of(self.function, self._method), self.ctx.backend, self._moment
        results: list[Any] = []
        moment.batch = batch
        for moment.index, (key, value) in enumerate(zip(batch.keys.rows(), batch.values.rows(), strict=True)):
            backend.key = key
            result = function(value)
            results.append(list(result) if self._method == "flat_map" and result is not None else result)
        self._emit(batch, results, out)

    def _emit(self, batch: Batch, results: list[Any], out: Output) -> None:
        if self._method == "map":
            out.emit(batch.with_values(Values(results)))
        elif self._method == "filter":
            kept = [index for index, verdict in enumerate(results) if verdict]
            if kept:
                out.emit(batch.take(np.fromiter(kept, np.int64, len(kept))))
        else:
            rows = [row for result in results if result is not None for row in result]
            lengths = [0 if result is None else len(result) for result in results]
            out.emit(expand(batch, rows, np.cumsum(np.array(lengths, np.int64))))


class ReduceOperator(FunctionOperator):
    """Folds each record into its key's value and emits the new value, once per record.

    In batch mode only the last value of each key is emitted, at the end of the input, as in Flink.
    """

    keyed = True

    def __init__(self, function: Function, batch_mode: bool = False) -> None:
        super().__init__(function)
        self._batch_mode = batch_mode
        self._combine: Callable[[Any, Any], Any] = callable_of(function, "reduce")
        self._moment: RecordMoment | None = None

    def open(self, ctx: OperatorContext) -> None:
        if type(self.function).open is not Function.open:
            self._moment = ctx.moment = RecordMoment()
        super().open(ctx)
        self._table = ctx.backend.table(f"{ctx.uid}/reduced", lambda: Table("reduced"))

    def process(self, batch: Batch, port: int, out: Output) -> None:
        assert batch.keys is not None
        keys = batch.keys.rows()
        rows = self._fold(batch, keys) if self._moment is None else self._fold_at_each(self._moment, batch, keys)
        self._table.dirty.update(keys)
        if not self._batch_mode:
            out.emit(batch.with_values(Values(rows)))

    def _fold(self, batch: Batch, keys: list[Any]) -> list[Any]:
        data, combine = self._table.data, self._combine
        rows: list[Any] = []
        append = rows.append
        for key, value in zip(keys, batch.values.rows(), strict=True):
            held = data[key]
            if held is not None:
                value = combine(held, value)
            data[key] = value
            append(value)
        return rows

    def _fold_at_each(self, moment: RecordMoment, batch: Batch, keys: list[Any]) -> list[Any]:
        """The same for a function that has state of its own, and must stand at a key and a record."""
        data, combine, backend = self._table.data, self._combine, self.ctx.backend
        rows: list[Any] = []
        moment.batch = batch
        for moment.index, (key, value) in enumerate(zip(keys, batch.values.rows(), strict=True)):
            backend.key = key
            held = data[key]
            data[key] = value if held is None else combine(held, value)
            rows.append(data[key])
        return rows

    def process_run(self, run: Run, out: Output) -> None:
        for piece in run.pieces(PIECE):
            super().process_run(piece, out)
        if self._batch_mode and run.end == MAX_TIMESTAMP:
            self._emit_last(run, out)

    def _emit_last(self, run: Run, out: Output) -> None:
        entries = sorted(((order_of(key), value) for key, value in self._table.rows()), key=lambda entry: entry[0])
        count = len(entries)
        stamp = [np.full(count, column[-1]) for column in run.stamp]
        values = Values([value for _, value in entries])
        out.emit(Batch(values, np.full(count, MAX_TIMESTAMP), stamp, np.full(count, MAX_TIMESTAMP)))
