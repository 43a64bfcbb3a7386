"""The window join and co_group: records of two streams in one window, told apart by which stream they are of.

Any window operator does the work. This one stands around it: it tags the records of both inputs on their way in, so
that they are one stream, and takes the tags off what comes too late on its way out.

Flink: CoGroupedStreams and JoinedStreams, a union of tagged streams before a window. Differs from Flink: late records
can go to side outputs, and a join can be an outer one, for which Flink has co_group only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from flintstream.model.functions import entry_point
from flintstream.model.functions_join import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    JoinKind,
    TaggedUnion,
)
from flintstream.model.functions_window import WindowFunction
from flintstream.ops.batch import Batch, Values
from flintstream.ops.operator import MAIN, Operator, OperatorContext, Output
from flintstream.ops.run import Run

LATE = "#late"
"""The inner window's side output for late records of both streams."""


class JoinWindowOperator(Operator):
    """A window of two inputs; `late_tags` are the side outputs for what comes too late by either."""

    def __init__(self, window: Operator, late_tags: tuple[str | None, str | None]) -> None:
        self._window = window
        self._late_tags = late_tags

    def open(self, ctx: OperatorContext) -> None:
        self._window.open(ctx)

    def close(self) -> None:
        self._window.close()

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "a window is always behind an exchange"
        raise AssertionError(msg)

    def process_run(self, run: Run, out: Output) -> None:
        ports = [0] * len(run.batch) if run.inputs is None else run.inputs.tolist()
        rows = [TaggedUnion(value, port == 1) for value, port in zip(run.batch.values.rows(), ports, strict=True)]
        batch = run.batch.with_values(Values(rows))
        tagged = Run(batch, run.watermarks, run.insertion, run.stamp, run.start, run.now)
        self._window.process_run(tagged, _Untagged(out, self._late_tags))

    def on_processing_time(self, now: int, run: Run, out: Output) -> None:
        self._window.on_processing_time(now, run, _Untagged(out, self._late_tags))


class _Untagged(Output):
    """Passes results on, and late records as they came, each to its side's output."""

    def __init__(self, out: Output, late_tags: tuple[str | None, str | None]) -> None:
        self._out = out
        self._late_tags = late_tags

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        if tag != LATE:
            self._out.emit(batch, tag)
            return
        rows: list[TaggedUnion] = batch.values.rows()
        plain = batch.with_values(Values([row.value for row in rows]))
        for target in sorted({target for target in self._late_tags if target is not None}):
            chosen = [index for index, row in enumerate(rows) if self._late_tags[row.second] == target]
            if chosen:
                self._out.emit(plain.take(np.array(chosen, np.int64)), target)


class CoGroupWindow(WindowFunction[Any, Any, Any, Any]):
    """A function of the records of both streams as a window function of tagged records."""

    def __init__(self, function: CoGroupFunction) -> None:
        self.function = function

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        first, second = _apart(inputs)
        results: Iterable[Any] | None = entry_point(self.function, "co_group")(first, second)
        return () if results is None else results


class JoinWindow(WindowFunction[Any, Any, Any, Any]):
    """A function of pairs as a window function of tagged records; pairs come in the order of arrival, left first."""

    def __init__(self, function: JoinFunction | FlatJoinFunction, how: JoinKind) -> None:
        self.function = function
        self._keeps = (how in ("left", "full"), how in ("right", "full"))

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        first, second = _apart(inputs)
        if not first and self._keeps[1]:
            first = [None]
        if not second and self._keeps[0]:
            second = [None]
        join = entry_point(self.function, "join")
        if isinstance(self.function, JoinFunction):
            return [join(left, right) for left in first for right in second]
        found = (join(left, right) for left in first for right in second)
        return [result for results in found if results is not None for result in results]


def _apart(inputs: Iterable[TaggedUnion]) -> tuple[list[Any], list[Any]]:
    first: list[Any] = []
    second: list[Any] = []
    for each in inputs:
        (second if each.second else first).append(each.value)
    return first, second
