"""Calls of the user's `async def` function: many at a time, on one event loop, in a thread of the operator's own.

The engine's thread hands over the records of a batch and waits until the last of them has begun, not until it has
ended: so calls of one batch overlap with those of the next, and never more than `capacity` are under way. What has
ended leaves in the order of the input, each result with the timestamp and the stamp of its record; an epoch (level 0:
a stretch of a split) ends when all its calls have.

Flink: AsyncWaitOperator. Its unordered mode lets results overtake each other between two watermarks. Here that mode
lets *calls* do so: one that hangs does not keep others from beginning. In ordered mode a result that waits for its turn
takes room, as in Flink.

Differs from Flink: nothing that is under way is ever part of a checkpoint. A crash repeats the calls of the epoch that
was not committed. Results of the unordered mode stand in the order of the input too, so they do not depend on luck.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.functions_async import AsyncCalls
from flintstream.model.row import Row
from flintstream.ops.batch import Batch, expand
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.operator import Operator, OperatorContext, Output

_PATIENCE = 5.0
"""Seconds that calls are given to end after they were cancelled."""


class _Sent:
    """A batch that was handed over; `results` has a list for each record whose call has ended."""

    __slots__ = ("batch", "left", "results")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.results: list[Any] = [None] * len(batch)
        self.left = len(batch)


class _Call:
    """One record on its way; only the loop's thread looks at it."""

    __slots__ = ("has_ended", "index", "sent", "task", "timer", "value")

    def __init__(self, sent: _Sent, index: int, value: Any) -> None:
        self.sent = sent
        self.index = index
        self.value = value
        self.task: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.has_ended = False


class AsyncOperator(Operator):
    """Calls an AsyncFunction for each record, without keys and without state."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._settings = calls
        self._queue: deque[_Sent] = deque()
        self._runner: _Runner | None = None

    def open(self, ctx: OperatorContext) -> None:
        self._runner = _Runner(self._settings, ctx.name)
        self._runner.call(self._settings.function.open, OperatorRuntimeContext(ctx, keyed=False))

    def process(self, batch: Batch, port: int, out: Output) -> None:
        assert self._runner is not None
        sent = _Sent(batch)
        self._queue.append(sent)
        self._runner.send(sent, batch.values.rows())
        self._emit(out)

    def flush(self, out: Output) -> None:
        if self._queue:
            assert self._runner is not None
            self._runner.wait_for_all()
            self._emit(out)

    def _emit(self, out: Output) -> None:
        """Let go what has ended, as far as everything before it has."""
        while self._queue and not self._queue[0].left:
            sent = self._queue.popleft()
            rows = [row for results in sent.results for row in results]
            ends = np.cumsum(np.fromiter(map(len, sent.results), np.int64, len(sent.results)))
            out.emit(expand(sent.batch, rows, ends))

    def close(self) -> None:
        self._queue.clear()
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.stop(self._settings.function.close)


class _Runner:
    """The event loop in its thread, and the calls on it. Public methods are the engine's thread's, all others its own.

    What both threads see is written by the loop's alone, and told by `_news` where the other one may wait for it.
    """

    def __init__(self, settings: AsyncCalls, name: str) -> None:
        self._function = settings.function
        self._capacity = settings.capacity
        self._timeout = settings.timeout_ms / 1000
        self._ordered = settings.ordered
        self._retry = settings.retry
        predicate = settings.retry.get_retry_predicate()
        self._again_on_result = predicate.result_predicate()
        self._again_on_error = predicate.exception_predicate()
        self._waiting: deque[_Call] = deque()
        self._order: deque[_Call] = deque()
        self._running: set[_Call] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._error: BaseException | None = None
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"async calls of {name}", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the loop, an `async def` one too, and return its result."""

        async def run() -> Any:
            result = function(*arguments)
            return await result if inspect.isawaitable(result) else result

        return self._wait(run())

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def send(self, sent: _Sent, values: Iterable[Any]) -> None:
        """Hand over the records of a batch; return when all their calls have begun, or raise what one has raised."""
        calls = [_Call(sent, index, value) for index, value in enumerate(values)]
        taken = threading.Event()
        self._loop.call_soon_threadsafe(self._take, calls, taken)
        self._wait_until(lambda: taken.is_set() and not self._waiting)

    def wait_for_all(self) -> None:
        """Return when all calls have ended, or raise what one has raised."""
        self._wait_until(lambda: not self._waiting and not self._running)

    def _wait_until(self, reached: Callable[[], bool]) -> None:
        with self._news:
            self._news.wait_for(lambda: self._error is not None or reached())
        if self._error is not None:
            raise self._error

    def stop(self, close: Callable[[], Any]) -> None:
        """Cancel what is under way, close the function, and end the loop.

        A call that blocks the loop cannot be cancelled: then the thread is left to itself, and ends with the process.
        """
        cancelling = asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        finished, _ = concurrent.futures.wait([cancelling], timeout=2 * _PATIENCE)
        try:
            if finished:
                self.call(close)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE)
            if not self._thread.is_alive():
                self._loop.close()

    async def _cancel_all(self) -> None:
        self._waiting.clear()
        tasks = [*self._abandoned, *(call.task for call in self._running if call.task is not None)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_PATIENCE)

    def _take(self, calls: list[_Call], taken: threading.Event) -> None:
        if self._error is None:
            self._waiting.extend(calls)
        taken.set()
        self._begin_calls()

    def _begin_calls(self) -> None:
        """Begin as many calls as there is room for."""
        busy: Any = self._order if self._ordered else self._running
        while self._waiting and len(busy) < self._capacity:
            call = self._waiting.popleft()
            self._order.append(call)
            self._running.add(call)
            self._begin(call, self._attempts(call.value))
            if self._timeout > 0:
                call.timer = self._loop.call_later(self._timeout, self._give_up, call)
        if not self._waiting:
            self._tell()

    def _begin(self, call: _Call, coroutine: Coroutine[Any, Any, Any]) -> None:
        call.task = self._loop.create_task(coroutine)
        call.task.add_done_callback(partial(self._end, call))

    async def _attempts(self, value: Any) -> list[Any]:
        """Call the function, again and again if the strategy wants it."""
        attempts = 1
        while True:
            try:
                result = _as_list(await self._function.async_invoke(value), "async_invoke")
                again = self._again_on_result is not None and self._again_on_result(result)
                if not again or not self._retry.can_retry(attempts):
                    return result
            except (SystemExit, KeyboardInterrupt) as error:
                # These would end the event loop, and nobody would hear of it.
                what = f"the function asked its process to end: {type(error).__name__}"
                raise JobError(describe(what, None, "raise another exception")) from error
            except Exception as error:
                again = self._again_on_error is not None and self._again_on_error(error)
                if not again or not self._retry.can_retry(attempts):
                    raise
            await asyncio.sleep(self._retry.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    def _give_up(self, call: _Call) -> None:
        """Let the function say what becomes of a record whose time is over; its call counts no more."""
        call.timer = None
        given_up = call.task
        assert given_up is not None
        self._abandoned.add(given_up)
        self._begin(call, self._late_result(call.value))
        given_up.cancel()

    async def _late_result(self, value: Any) -> list[Any]:
        result = self._function.timeout(value)
        return _as_list(await result if inspect.isawaitable(result) else result, "timeout")

    def _end(self, call: _Call, task: asyncio.Task[Any]) -> None:
        error = asyncio.CancelledError("the call cancelled itself") if task.cancelled() else task.exception()
        if task is not call.task:
            self._abandoned.discard(task)
            return
        if call.timer is not None:
            call.timer.cancel()
        self._running.discard(call)
        if error is not None:
            self._fail(error)
            return
        call.sent.results[call.index] = task.result()
        call.sent.left -= 1
        call.has_ended = True
        while self._order and self._order[0].has_ended:
            self._order.popleft()
        if self._waiting:
            self._begin_calls()
        elif not self._running:
            self._tell()

    def _fail(self, error: BaseException) -> None:
        """Keep the first failure, and let nothing more begin; what runs is cancelled, and raises something else."""
        if self._error is not None:
            return
        # A cancellation would be taken for the task's own end by everyone above.
        is_cancelled = isinstance(error, asyncio.CancelledError)
        self._error = JobError(describe("a call was cancelled by its own function")) if is_cancelled else error
        self._waiting.clear()
        for call in self._running:
            if call.timer is not None:
                call.timer.cancel()
            if call.task is not None:
                call.task.cancel()
        self._tell()

    def _tell(self) -> None:
        with self._news:
            self._news.notify_all()


def _as_list(result: Any, method: str) -> list[Any]:
    """Return what a function returned as a list; a single record in place of one is a common mistake."""
    if isinstance(result, Iterable) and not isinstance(result, str | bytes | dict | Row):
        return list(result)
    what = f"{method} returned {result!r:.200}, which is no list"
    raise TypeError(describe(what, None, "return a list of records, or use map_async(...) for one"))
