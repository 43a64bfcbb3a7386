"""The async operator alone: how many calls overlap, what becomes of slow, failing and repeated ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from flintstream.errors import JobError
from flintstream.model.functions_async import (
    NO_RETRY_STRATEGY,
    AsyncCalls,
    AsyncFunction,
    AsyncRetryStrategy,
    empty_result_predicate,
    has_exception_predicate,
)
from flintstream.ops import async_io
from flintstream.ops.async_io import AsyncOperator
from flintstream.ops.batch import Batch, Values
from flintstream.ops.operator import MAIN, OperatorContext
from flintstream.state.backend import KeyedBackend

HOURS = 3_600_000


class Caught:
    """An output that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        assert tag == MAIN
        self.batches.append(batch)

    def rows(self) -> list[Any]:
        return [row for batch in self.batches for row in batch.values.rows()]


class Gated(AsyncFunction):
    """Each call waits until the test lets its record go; notes which have begun."""

    def __init__(self, *, let_go: bool = False) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.cancelled: list[Any] = []
        self.under_way = self.most = 0
        self._let_go = let_go
        self._news = threading.Condition()
        self._gates: dict[Any, asyncio.Event] = {}

    def open(self, runtime_context: Any) -> None:
        self._loop = asyncio.get_running_loop()

    async def async_invoke(self, value: Any) -> list[Any]:
        gate = self._gates.setdefault(value, asyncio.Event())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self._tell(self.begun, value)
        try:
            if not self._let_go:
                await gate.wait()
            else:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        finally:
            self.under_way -= 1
        self._tell(self.ended, value)
        return [value * 10]

    def _tell(self, what: list[Any], value: Any) -> None:
        with self._news:
            what.append(value)
            self._news.notify_all()

    def let(self, *values: Any) -> None:
        """Let calls end, begun or not."""
        for value in values:
            self._loop.call_soon_threadsafe(lambda value=value: self._gates.setdefault(value, asyncio.Event()).set())

    def settle(self) -> None:
        """Let everything happen that waits for nothing but its turn."""

        async def turns() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(turns(), self._loop).result(30)

    def wait_for(self, what: list[Any], count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(what) >= count, timeout=30)


def batch(*rows: Any, start: int = 0) -> Batch:
    numbers = np.arange(len(rows)) + start
    return Batch(Values(list(rows)), numbers + 100, [numbers], numbers - 5)


@contextmanager
def opened(function: AsyncFunction, **settings: Any) -> Iterator[AsyncOperator]:
    operator = AsyncOperator(AsyncCalls(function, **settings))
    operator.open(OperatorContext("uid", "calls", 0, 1, KeyedBackend(8, range(8))))
    try:
        yield operator
    finally:
        operator.close()


def results(function: AsyncFunction, *rows: Any, **settings: Any) -> list[Any]:
    out = Caught()
    with opened(function, **settings) as operator:
        operator.process(batch(*rows), 0, out)
        operator.flush(out)
    return out.rows()


class Times(AsyncFunction):
    """Returns the value as often as it says."""

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return [value] * value


def test_each_result_has_the_time_and_the_place_of_its_record():
    out = Caught()
    with opened(Times()) as operator:
        operator.process(batch(2, 0, 1), 0, out)
        operator.flush(out)
    (found,) = out.batches
    assert found.values.rows() == [2, 2, 1]
    assert found.timestamps.tolist() == [100, 100, 102]
    assert [column.tolist() for column in found.stamp] == [[0, 0, 2], [0, 1, 0]]
    assert found.watermarks is not None
    assert found.watermarks.tolist() == [-5, -5, -3]


def test_as_many_calls_are_under_way_as_there_is_capacity_and_never_more():
    function = Gated(let_go=True)
    assert results(function, *range(100), capacity=20) == [value * 10 for value in range(100)]
    assert function.most == 20


def test_calls_of_several_batches_overlap():
    function, out = Gated(), Caught()
    with opened(function, capacity=6) as operator:
        operator.process(batch(1, 2), 0, out)
        operator.process(batch(3, 4, start=2), 0, out)
        operator.process(batch(5, 6, start=4), 0, out)
        function.wait_for(function.begun, 6)
        assert sorted(function.begun) == [1, 2, 3, 4, 5, 6]
        assert out.batches == []
        function.let(6, 5, 4, 3, 2, 1)
        operator.flush(out)
    assert out.rows() == [10, 20, 30, 40, 50, 60]


def test_what_has_ended_leaves_before_the_end_of_the_epoch():
    function, out = Gated(), Caught()
    with opened(function, capacity=2) as operator:
        operator.process(batch(1, 2), 0, out)
        function.let(1, 2)
        function.wait_for(function.ended, 2)
        function.settle()
        operator.process(batch(3, start=2), 0, out)
        assert out.rows() == [10, 20]
        function.let(3)
        operator.flush(out)
    assert out.rows() == [10, 20, 30]


def _begun_while_the_first_hangs(ordered: bool) -> list[int]:
    """Return which calls begin with capacity 2 while that of the first record hangs, and all others end at once."""
    function, out = Gated(), Caught()
    with opened(function, capacity=2, ordered=ordered) as operator:
        engine = threading.Thread(target=operator.process, args=(batch(1, 2, 3, 4), 0, out))
        engine.start()
        function.wait_for(function.begun, 2)
        function.let(2, 3, 4)
        function.wait_for(function.ended, 1 if ordered else 3)
        function.settle()
        begun = sorted(function.begun)
        function.let(1)
        engine.join()
        operator.flush(out)
    assert out.rows() == [10, 20, 30, 40]
    return begun


def test_a_result_that_waits_for_its_turn_takes_room_if_ordered():
    assert _begun_while_the_first_hangs(ordered=True) == [1, 2]


def test_a_call_that_hangs_keeps_no_other_from_beginning_if_unordered():
    assert _begun_while_the_first_hangs(ordered=False) == [1, 2, 3, 4]


class Hanging(Gated):
    """Never ends; what is late becomes its negative."""

    def timeout(self, value: int) -> list[int]:
        return [-value]


def test_a_record_whose_time_is_over_becomes_what_the_function_says():
    function = Hanging()
    assert results(function, 1, 2, 3, capacity=1, timeout_ms=1) == [-1, -2, -3]
    assert function.cancelled == [1, 2, 3]


def test_a_timeout_may_be_waited_for_too():
    class Waits(Hanging):
        async def timeout(self, value: int) -> list[int]:  # pyright: ignore[reportIncompatibleMethodOverride]
            await asyncio.sleep(0)
            return [value, value]

    assert results(Waits(), 1, timeout_ms=1) == [1, 1]


def test_without_a_word_about_it_a_timeout_is_a_failure():
    with pytest.raises(TimeoutError, match="took too long for 7"):
        results(Gated(), 7, timeout_ms=1)


def test_a_call_that_ends_in_time_is_not_late():
    assert results(Gated(let_go=True), 1, 2, timeout_ms=HOURS) == [10, 20]


def test_a_function_that_will_not_be_cancelled_holds_nothing_up():
    release = threading.Event()

    class Stubborn(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            while not release.is_set():
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    continue
            return [value]

        def timeout(self, value: int) -> list[int]:
            return []

    out = Caught()
    with opened(Stubborn(), timeout_ms=1) as operator:
        operator.process(batch(1), 0, out)
        operator.flush(out)
        release.set()
    assert out.rows() == []


def test_what_a_call_raises_is_raised_and_all_others_are_cancelled():
    class Fails(Gated):
        async def async_invoke(self, value: int) -> list[int]:
            if value == 3:
                msg = "no 3"
                raise ValueError(msg)
            return await super().async_invoke(value)

    function, out = Fails(), Caught()
    with opened(function, capacity=10) as operator:
        with pytest.raises(ValueError, match="no 3"):
            operator.process(batch(1, 2, 3, 4), 0, out)
            operator.flush(out)
        with pytest.raises(ValueError, match="no 3"):
            operator.process(batch(5), 0, out)
    assert out.batches == []
    assert sorted(function.cancelled) == sorted(function.begun)


def test_closing_cancels_what_is_under_way():
    function = Gated()
    with opened(function) as operator:
        operator.process(batch(1, 2), 0, Caught())
        function.wait_for(function.begun, 2)
    assert sorted(function.cancelled) == [1, 2]
    assert not [thread for thread in threading.enumerate() if thread.name == "async calls of calls"]


def test_a_call_that_blocks_the_loop_does_not_keep_the_task_from_ending(monkeypatch):
    monkeypatch.setattr(async_io, "_PATIENCE", 0.05)
    begun, release = threading.Event(), threading.Event()

    class Blocks(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            begun.set()
            release.wait()
            return [value]

    with opened(Blocks()) as operator:
        operator.process(batch(1), 0, Caught())
        assert begun.wait(30)
    (left,) = [thread for thread in threading.enumerate() if thread.name == "async calls of calls"]
    release.set()
    left.join(30)
    assert not left.is_alive()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_call_that_asks_its_process_to_end_is_a_failure(kind):
    class Leaves(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            raise kind

    with pytest.raises(JobError, match=f"asked its process to end: {kind.__name__}"):
        results(Leaves(), 1)


def test_a_call_that_cancels_itself_is_a_failure():
    class Gives(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            raise asyncio.CancelledError

    with pytest.raises(JobError, match="cancelled by its own function"):
        results(Gives(), 1)


@pytest.mark.parametrize("wrong", [None, 5, "text", b"bytes", {"a": 1}], ids=repr)
def test_a_result_that_is_no_list_is_refused(wrong):
    class Wrong(AsyncFunction):
        async def async_invoke(self, value: int) -> Any:
            return wrong

    with pytest.raises(TypeError, match=r"async_invoke returned .*, which is no list; return a list"):
        results(Wrong(), 1)


class Flaky(AsyncFunction):
    """Fails, or finds nothing, so many times before it gives a result; counts its attempts."""

    def __init__(self, times: int, *, raises: bool = True) -> None:
        self.attempts: dict[int, int] = {}
        self._times = times
        self._raises = raises

    async def async_invoke(self, value: int) -> list[int]:
        self.attempts[value] = self.attempts.get(value, 0) + 1
        if self.attempts[value] > self._times:
            return [value]
        if self._raises:
            msg = f"attempt {self.attempts[value]}"
            raise OSError(msg)
        return []


def retry(attempts: int, result: Any = None, error: Any = None) -> AsyncRetryStrategy:
    return AsyncRetryStrategy.fixed_delay(attempts, 1, result, error)


def test_what_fails_is_tried_again_as_often_as_the_strategy_says():
    strategy = retry(3, error=has_exception_predicate)
    function = Flaky(3)
    assert results(function, 1, 2, timeout_ms=HOURS, retry=strategy) == [1, 2]
    assert function.attempts == {1: 4, 2: 4}
    with pytest.raises(OSError, match="attempt 4"):
        results(Flaky(4), 1, timeout_ms=HOURS, retry=strategy)


def test_what_finds_nothing_is_tried_again_and_in_the_end_taken_as_it_is():
    strategy = retry(2, result=empty_result_predicate)
    assert results(Flaky(2, raises=False), 1, timeout_ms=HOURS, retry=strategy) == [1]
    function = Flaky(3, raises=False)
    assert results(function, 1, timeout_ms=HOURS, retry=strategy) == []
    assert function.attempts == {1: 3}


def test_only_what_the_predicates_say_is_tried_again():
    function = Flaky(1)
    with pytest.raises(OSError, match="attempt 1"):
        results(function, 1, timeout_ms=HOURS, retry=retry(5, error=lambda error: isinstance(error, ValueError)))
    with pytest.raises(OSError, match="attempt 1"):
        results(Flaky(1), 1, timeout_ms=HOURS, retry=NO_RETRY_STRATEGY)


def test_the_time_limit_is_for_all_attempts_together():
    class Never(Flaky):
        def timeout(self, value: int) -> list[int]:
            return [-value]

    strategy = retry(10**9, error=has_exception_predicate)
    assert results(Never(10**9), 1, timeout_ms=20, retry=strategy) == [-1]


def test_open_and_close_run_on_the_loop_and_may_be_waited_for():
    seen: list[Any] = []

    class Client(AsyncFunction):
        async def open(self, runtime_context: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            await asyncio.sleep(0)
            seen.append((runtime_context.get_task_name(), asyncio.get_running_loop()))

        async def async_invoke(self, value: int) -> list[int]:
            seen.append(("call", asyncio.get_running_loop()))
            return [value]

        async def close(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            seen.append(("close", asyncio.get_running_loop()))

    assert results(Client(), 1) == [1]
    assert [name for name, _ in seen] == ["calls", "call", "close"]
    assert len({loop for _, loop in seen}) == 1


def test_keyed_state_is_refused():
    class Wants(AsyncFunction):
        def open(self, runtime_context: Any) -> None:
            from flintstream import ValueStateDescriptor

            runtime_context.get_state(ValueStateDescriptor("x"))

        async def async_invoke(self, value: int) -> list[int]:
            return [value]

    with pytest.raises(ValueError, match="asked for on a stream without keys"), opened(Wants()):
        pass
