"""Operators with keys that go on when a user's function raises: what the failed call did to state is undone.

Apart from those without keys, which have nothing to undo. Beside the record at hand a timer's function may fail: then
its timer is gone, and there is a dead letter without a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flintstream.model.context import TimeDomain
from flintstream.model.dead_letters import DeadLetter, ErrorPolicy
from flintstream.model.functions import Function
from flintstream.model.tags import OutputTag
from flintstream.ops.batch import NO_TIMESTAMP, Batch, Values
from flintstream.ops.dead_letters import listed, undertaker_of
from flintstream.ops.keyed import KeyedFunctionOperator, KeyedProcessOperator, ReduceOperator
from flintstream.ops.moment import RecordMoment
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Emissions, Run
from flintstream.ops.stateless import callable_of
from flintstream.state.journal import Journal


class TryingKeyedProcess(KeyedProcessOperator):
    """`KeyedProcessOperator` that goes on."""

    def __init__(self, policy: ErrorPolicy, function: Function, methods: Sequence[str]) -> None:
        super().__init__(function, methods)
        self._policy = policy

    def open(self, ctx: OperatorContext) -> None:
        self._journal = ctx.backend.journal = Journal()
        super().open(ctx)
        self._graves = undertaker_of(self._policy, ctx)
        self._tag = None if self._graves.tag is None else OutputTag(self._graves.tag)

    def _process_one_input(self, run: Run, emissions: Emissions) -> None:
        self._process_inputs(run, [0] * len(run.batch), emissions)

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
            self._try(functions[port], (value, ctx), rows, (value, timestamp, key))
            emissions.ends.append(len(rows))

    def fire(self, key: Any, namespace: Any, time: int, domain: TimeDomain, rows: list[Any]) -> int:
        self._element_ctx.at_timer(domain, time)
        function: Any = self.function.on_timer  # type: ignore[attr-defined]
        self._try(function, (time, self._element_ctx), rows, (None, time, key))
        return time if domain is TimeDomain.EVENT_TIME else NO_TIMESTAMP

    def _try(self, function: Callable[..., Any], arguments: Any, rows: list[Any], record: tuple[Any, int, Any]) -> None:
        """Call a function, and add what it emits; if it fails, what is left of the call is its dead letter."""
        start = len(rows)
        self._journal.begin()
        try:
            result = function(*arguments)
            if result is not None:
                rows.extend(result)
        except self._graves.errors as error:
            self._journal.undo()
            del rows[start:]
            letter = self._graves.take(error, *record)
            if self._tag is not None:
                rows.append((self._tag, letter))
        finally:
            self._journal.end()


class TryingKeyedFunction(KeyedFunctionOperator):
    """`KeyedFunctionOperator` that goes on."""

    def __init__(self, policy: ErrorPolicy, function: Function, method: str) -> None:
        super().__init__(function, method)
        self._policy = policy

    def open(self, ctx: OperatorContext) -> None:
        self._journal = ctx.backend.journal = Journal()
        super().open(ctx)
        self._graves = undertaker_of(self._policy, ctx)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        assert batch.keys is not None
        function, is_flat = callable_of(self.function, self._method), self._method == "flat_map"
        results: list[Any] = []
        kept: list[int] = []
        failed: list[tuple[int, DeadLetter]] = []
        moment, backend = self._moment, self.ctx.backend
        moment.batch = batch
        for moment.index, (key, value) in enumerate(zip(batch.keys.rows(), batch.values.rows(), strict=True)):
            backend.key = key
            self._journal.begin()
            try:
                results.append(listed(function(value)) if is_flat else function(value))
                kept.append(moment.index)
            except self._graves.errors as error:
                self._journal.undo()
                timestamp = int(batch.timestamps[moment.index])
                failed.append((moment.index, self._graves.take(error, value, timestamp, key)))
            finally:
                self._journal.end()
        self._emit(batch.take(np.fromiter(kept, np.int64, len(kept))) if failed else batch, results, out)
        self._graves.emit(batch, failed, out)


class TryingReduce(ReduceOperator):
    """`ReduceOperator` that goes on: a value that cannot be folded leaves its key's as it was."""

    def __init__(self, policy: ErrorPolicy, function: Function, batch_mode: bool) -> None:
        super().__init__(function, batch_mode)
        self._policy = policy

    def open(self, ctx: OperatorContext) -> None:
        self._journal = ctx.backend.journal = Journal()
        super().open(ctx)
        self._graves = undertaker_of(self._policy, ctx)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        assert batch.keys is not None
        keys = batch.keys.rows()
        kept: list[int] = []
        failed: list[tuple[int, DeadLetter]] = []
        rows: list[Any] = []
        moment = self._moment or RecordMoment()
        moment.batch = batch
        for moment.index, (key, value) in enumerate(zip(keys, batch.values.rows(), strict=True)):
            self.ctx.backend.key = key
            self._journal.begin()
            try:
                rows.append(self._fold_one(key, value))
                kept.append(moment.index)
            except self._graves.errors as error:
                self._journal.undo()
                timestamp = int(batch.timestamps[moment.index])
                failed.append((moment.index, self._graves.take(error, value, timestamp, key)))
            finally:
                self._journal.end()
        self._emit_kept(batch, kept, rows, out)
        self._graves.emit(batch, failed, out)

    def _fold_one(self, key: Any, value: Any) -> Any:
        held = self._table.data[key]
        folded = value if held is None else self._combine(held, value)
        self._table.data[key] = folded
        self._table.dirty.add(key)
        return folded

    def _emit_kept(self, batch: Batch, kept: list[int], rows: list[Any], out: Output) -> None:
        if not self._batch_mode:
            out.emit(batch.take(np.fromiter(kept, np.int64, len(kept))).with_values(Values(rows)))
