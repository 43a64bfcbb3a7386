"""Operators that keep nothing from one record to the next: map, filter, flat_map, process, and their two-input kin.

The loop over records is the user's own function and C-level iteration around it; nothing of ours runs per record.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from flintstream.errors import DefinitionError, describe
from flintstream.model.functions import Function
from flintstream.ops.batch import Batch, Values, expand
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.tagging import emit_tagged

RowsFunction = Callable[[Any], Any]


class FunctionOperator(Operator):
    """An operator around a user's function object, opened and closed with it."""

    keyed = False

    def __init__(self, function: Function) -> None:
        self.function = function

    def open(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self.function.open(OperatorRuntimeContext(ctx, self.keyed))

    def close(self) -> None:
        self.function.close()


def callable_of(function: Any, method: str) -> Callable[..., Any]:
    """Return what to call per record: the user's own callable where there is one, else the bound method."""
    return getattr(function, "wrapped", None) or getattr(function, method)


class MapOperator(FunctionOperator):
    """One record out for each record in; `methods` has one name per input."""

    def __init__(self, function: Function, methods: Sequence[str] = ("map",)) -> None:
        super().__init__(function)
        self._methods = tuple(methods)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        function = callable_of(self.function, self._methods[port])
        out.emit(batch.with_values(Values(list(map(function, batch.values.rows())))))


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function is true."""

    def process(self, batch: Batch, port: int, out: Output) -> None:
        function = callable_of(self.function, "filter")
        kept = [index for index, verdict in enumerate(map(function, batch.values.rows())) if verdict]
        if len(kept) == len(batch):
            out.emit(batch)
        elif kept:
            out.emit(batch.take(np.fromiter(kept, np.int64, len(kept))))


class FlatMapOperator(FunctionOperator):
    """Any number of records out for each record in."""

    def __init__(self, function: Function, methods: Sequence[str] = ("flat_map",)) -> None:
        super().__init__(function)
        self._methods = tuple(methods)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        function = callable_of(self.function, self._methods[port])
        rows, ends = collect_all(function, batch.values.rows())
        out.emit(expand(batch, rows, ends))


class ProjectOperator(Operator):
    """Keeps some fields of tuples or rows, by position."""

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = tuple(positions)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        positions = self._positions
        rows = [type_of(row)(*(row[p] for p in positions)) for row in batch.values.rows()]
        out.emit(batch.with_values(Values(rows)))


def type_of(row: Any) -> Callable[..., Any]:
    """Return what rebuilds a row of the same type from fewer fields."""
    return (lambda *fields: tuple(fields)) if isinstance(row, tuple) else type(row)


class ElementContext:
    """The Context of a process function without keys; it stands at one record at a time."""

    __slots__ = ("_batch", "_now", "index")

    def __init__(self, now: int) -> None:
        self._batch: Batch | None = None
        self._now = now
        self.index = 0

    def at(self, batch: Batch) -> None:
        """Stand at a batch; `index` then moves through it."""
        self._batch = batch

    def timestamp(self) -> int | None:
        assert self._batch is not None
        timestamp = int(self._batch.timestamps[self.index])
        return None if timestamp == -(1 << 63) else timestamp

    def timer_service(self) -> Any:
        return self

    def current_processing_time(self) -> int:
        return self._now

    def current_watermark(self) -> int:
        assert self._batch is not None
        watermarks = self._batch.watermarks
        return -(1 << 63) if watermarks is None else int(watermarks[self.index])

    def _refuse_timer(self, timestamp: int) -> NoReturn:
        what = "a process function without keys cannot have timers"
        raise DefinitionError(describe(what, remedy="put key_by(...) before it and use a KeyedProcessFunction"))

    register_event_time_timer = register_processing_time_timer = _refuse_timer
    delete_event_time_timer = delete_processing_time_timer = _refuse_timer


class ProcessOperator(FunctionOperator):
    """A process function without keys: several outputs, no state, no timers."""

    def __init__(self, function: Function, methods: Sequence[str] = ("process_element",)) -> None:
        super().__init__(function)
        self._methods = tuple(methods)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        function = callable_of(self.function, self._methods[port])
        ctx = ElementContext(self.ctx.now)
        ctx.at(batch)

        def call(indexed: tuple[int, Any]) -> Any:
            ctx.index = indexed[0]
            return function(indexed[1], ctx)

        rows, ends = collect_all(call, enumerate(batch.values.rows()))
        emit_tagged(expand(batch, rows, ends), out)


def collect_all(function: Callable[[Any], Iterable[Any] | None], rows: Iterable[Any]) -> tuple[list[Any], Any]:
    """Call a function that yields any number of outputs; return them all and where each record's end."""
    collected: list[Any] = []
    ends: list[int] = []
    for row in rows:
        result = function(row)
        if result is not None:
            collected.extend(result)
        ends.append(len(collected))
    return collected, np.fromiter(ends, np.int64, len(ends))


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it always returns an iterator, so that None need not be looked for."""
    return inspect.isgeneratorfunction(function)


def chain_rows(batches: Iterable[Batch]) -> list[Any]:
    """Return the rows of several batches."""
    return list(itertools.chain.from_iterable(batch.values.rows() for batch in batches))
