"""Operators that go on when a user's function raises: the record is skipped, or becomes a dead letter.

Each is the operator it is named after, with a try around every call; they are classes of their own so that operators
which fail with their function keep their loops as they are. What a failed call has emitted is dropped, and what it did
to keyed state and timers is undone. Errors that Flintstream raises on purpose are never a record's fault: they fail the
job.

Flink: it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flintstream.errors import FlintstreamError, UserFunctionError
from flintstream.model.dead_letters import DEAD_LETTERS, DeadLetter, ErrorPolicy, text_of
from flintstream.model.functions import MapFunction
from flintstream.ops.batch import NO_TIMESTAMP, Batch, Values, expand
from flintstream.ops.operator import MAIN, Operator, OperatorContext, Output
from flintstream.ops.stateless import (
    ElementContext,
    FilterOperator,
    FlatMapOperator,
    FunctionOperator,
    MapOperator,
    ProcessOperator,
    callable_of,
)
from flintstream.ops.tagging import emit_tagged
from flintstream.ops.vectorised import VectorisedOperator
from flintstream.state.pickles import dumps

_TAIL = 4000
"""How many characters of a traceback are kept, from its end."""


class Undertaker:
    """Takes the records of one operator that could not be processed."""

    def __init__(self, policy: ErrorPolicy, uid: str, name: str, count: Callable[[str], None]) -> None:
        self.errors = policy.errors
        self.tag = policy.tag
        self._uid, self._name = uid, name
        self._count = count

    def take(
        self, error: Exception, record: Any, timestamp: int = NO_TIMESTAMP, key: Any = None, **where: Any
    ) -> DeadLetter:
        """Return the dead letter of a record, counted; raise the error if it is not the record's fault."""
        if isinstance(error, FlintstreamError | MemoryError):
            raise error
        self._count(DEAD_LETTERS)
        told = UserFunctionError.from_exception(error, operator=self._name, uid=self._uid)
        return DeadLetter(
            _sendable(record),
            told.error_type,
            told.error_message,
            told.user_traceback[-_TAIL:],
            self._uid,
            None if timestamp == NO_TIMESTAMP else timestamp,
            _sendable(key),
            **where,
        )

    def emit(self, batch: Batch, failed: Sequence[tuple[int, DeadLetter]], out: Output) -> None:
        """Send away the letters of a batch's records, each with its record's index."""
        if failed and self.tag is not None:
            indices = np.fromiter((index for index, _ in failed), np.int64, len(failed))
            out.emit(batch.take(indices).with_values(Values([letter for _, letter in failed])), self.tag)


def undertaker_of(policy: ErrorPolicy, ctx: OperatorContext) -> Undertaker:
    """Return the one of an opened operator."""
    return Undertaker(policy, ctx.uid, ctx.name, ctx.count)


def _sendable(value: Any) -> Any:
    """Return a value, or its text if it could not travel: a dead letter must not be what fails the job."""
    try:
        dumps(value)
    except Exception:  # a `__reduce__` of the user may raise anything
        return text_of(value)
    return value


class Trial:
    """The outcome of calling a function for each record of a batch."""

    def __init__(self, batch: Batch, calls: Iterable[Any], call: Callable[[Any], Any], graves: Undertaker) -> None:
        self.batch = batch
        self.kept: list[int] = []
        self.results: list[Any] = []
        self.failed: list[tuple[int, DeadLetter]] = []
        timestamps = batch.timestamps
        for index, argument in enumerate(calls):
            try:
                self.results.append(call(argument))
            except graves.errors as error:
                record = batch.values.rows()[index]
                self.failed.append((index, graves.take(error, record, int(timestamps[index]))))
            else:
                self.kept.append(index)

    @property
    def survivors(self) -> Batch:
        """The records for which the function did not raise."""
        return self.batch.take(_indices(self.kept)) if self.failed else self.batch

    def expanded(self) -> Batch:
        """Return what was emitted, if each result is a list."""
        ends = np.cumsum(np.fromiter(map(len, self.results), np.int64, len(self.results)))
        return expand(self.survivors, [row for rows in self.results for row in rows], ends)


def _indices(numbers: Sequence[int]) -> Any:
    return np.fromiter(numbers, np.int64, len(numbers))


def listed(result: Iterable[Any] | None) -> list[Any]:
    """Return all that a function yields, so that what it raises on the way is raised now."""
    return [] if result is None else list(result)


class Trying(FunctionOperator):
    """What all operators that go on share: the policy, and where the letters go."""

    def __init__(self, policy: ErrorPolicy, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._policy = policy

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._graves = undertaker_of(self._policy, ctx)


class TryingMap(Trying, MapOperator):
    """`MapOperator` that goes on."""

    def process(self, batch: Batch, port: int, out: Output) -> None:
        trial = Trial(batch, batch.values.rows(), callable_of(self.function, self._methods[port]), self._graves)
        out.emit(trial.survivors.with_values(Values(trial.results)))
        self._graves.emit(batch, trial.failed, out)


class TryingFilter(Trying, FilterOperator):
    """`FilterOperator` that goes on."""

    def process(self, batch: Batch, port: int, out: Output) -> None:
        filter_function = callable_of(self.function, "filter")
        # The verdict's own truth may raise as well.
        trial = Trial(batch, batch.values.rows(), lambda row: bool(filter_function(row)), self._graves)
        verdicts = zip(trial.kept, trial.results, strict=True)
        out.emit(batch.take(_indices([index for index, verdict in verdicts if verdict])))
        self._graves.emit(batch, trial.failed, out)


class TryingFlatMap(Trying, FlatMapOperator):
    """`FlatMapOperator` that goes on."""

    def process(self, batch: Batch, port: int, out: Output) -> None:
        function = callable_of(self.function, self._methods[port])
        trial = Trial(batch, batch.values.rows(), lambda row: listed(function(row)), self._graves)
        out.emit(trial.expanded())
        self._graves.emit(batch, trial.failed, out)


class TryingProcess(Trying, ProcessOperator):
    """`ProcessOperator` that goes on."""

    def process(self, batch: Batch, port: int, out: Output) -> None:
        function = callable_of(self.function, self._methods[port])
        ctx = ElementContext(self.ctx.now)
        ctx.at(batch)

        def call(indexed: tuple[int, Any]) -> list[Any]:
            ctx.index = indexed[0]
            return listed(function(indexed[1], ctx))

        trial = Trial(batch, enumerate(batch.values.rows()), call, self._graves)
        emit_tagged(trial.expanded(), out)
        self._graves.emit(batch, trial.failed, out)


class TryingVectorised(Operator):
    """A vectorised operator that goes on: a batch on which it fails is tried in halves, down to the record at fault."""

    def __init__(self, policy: ErrorPolicy, inner: VectorisedOperator) -> None:
        self._policy = policy
        self._inner = inner

    def open(self, ctx: OperatorContext) -> None:
        self._inner.open(ctx)
        self._graves = undertaker_of(self._policy, ctx)

    def close(self) -> None:
        self._inner.close()

    def process(self, batch: Batch, port: int, out: Output) -> None:
        if not len(batch):
            return
        held = _Held()
        try:
            self._inner.process(batch, port, held)
        except self._graves.errors as error:
            if len(batch) > 1 and not isinstance(error, FlintstreamError):
                half = len(batch) // 2
                self.process(batch.slice(0, half), port, out)
                self.process(batch.slice(half, len(batch)), port, out)
                return
            letter = self._graves.take(error, batch.values.rows()[0], int(batch.timestamps[0]))
            self._graves.emit(batch, [(0, letter)], out)
            return
        for emitted in held.batches:
            out.emit(emitted)


class _Held:
    """What a call emits, until it is known that it did not fail."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        self.batches.append(batch)


class AsText(MapFunction):
    """Turns dead letters into what any sink can write."""

    def map(self, value: DeadLetter) -> Any:
        return value.as_text()
