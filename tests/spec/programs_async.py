"""Programs that wait: calls which find several records, one or none, hang, or fail at first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from flintstream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    OutputTag,
    ProcessFunction,
    tumbling,
)
from tests.spec.functions import evaluate, show, show_late, show_time
from tests.spec.programs import program


class Copies(AsyncFunction):
    """Finds as many records as `v` says, numbered; the later a record, the sooner its call ends."""

    async def async_invoke(self, value: Any) -> list[Any]:
        for _ in range(max(0, 50 - value["t"] // 1000)):
            await asyncio.sleep(0)
        return [{**value, "v": number} for number in range(value["v"])]


class Tell(ProcessFunction):
    """Says of each record its timestamp and the watermark before it."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        times = (ctx.timestamp(), ctx.timer_service().current_watermark())
        yield show(value["key"], value["v"], *map(show_time, times))


def wait(stream: DataStream, function: AsyncFunction, ordered: bool = True) -> DataStream:
    call = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    return call(stream, function, "1h", capacity=3).uid("calls")


@program
def async_copies(stream: DataStream, ordered: bool = True, keyed: bool = False) -> DataStream:
    found = wait(stream.key_by("key") if keyed else stream, Copies(), ordered)
    return found.key_by("key").map(lambda value: value).uid("by key").process(Tell()).uid("tell")


@program
def async_window(stream: DataStream, ordered: bool = True) -> dict[str, DataStream]:
    late = OutputTag("late")
    windows = wait(stream, Copies(), ordered).key_by("key").window(tumbling("10s")).side_output_late_data(late)
    results, shown = evaluate(windows, "list", False, None)
    return {"main": shown, "late": results.get_side_output(late).map(show_late).uid("late as text")}


class Hangs(AsyncFunction):
    """Never finds anything for a negative `v`; then its time is over."""

    async def async_invoke(self, value: Any) -> list[str]:
        if value["v"] < 0:
            await asyncio.Event().wait()
        return [show(value["key"], value["v"])]

    def timeout(self, value: Any) -> list[str]:
        return [show(value["key"], "gave up")]


@program
def async_timeout(stream: DataStream) -> DataStream:
    # Generous, since what is in time must not be late on a busy machine.
    return AsyncDataStream.unordered_wait(stream, Hangs(), "300ms").uid("calls")


class Fails(AsyncFunction):
    """Fails as often for a record as its `v` says, then tells how often it was tried."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, int], int] = {}

    async def async_invoke(self, value: Any) -> list[str]:
        record = value["key"], value["t"]
        self._attempts[record] = self._attempts.get(record, 0) + 1
        if self._attempts[record] <= value["v"]:
            raise ConnectionError
        return [show(value["key"], "after", self._attempts.pop(record))]


@program
def async_retry(stream: DataStream) -> DataStream:
    strategy = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ConnectionError))
    return AsyncDataStream.ordered_wait_with_retry(stream, Fails(), "1h", strategy).uid("calls")
