"""A job in three versions: what it counts, what a bug makes of it, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintstream import (
    KeyedProcessFunction,
    Sink,
    ValueStateDescriptor,
    bounded,
    count,
    tumbling,
)
from tests.timetravel.log import FileLog

WAIT = 120


class Totals(KeyedProcessFunction):
    """Adds up what each customer has paid; a version with the bug counts refunds as payments."""

    def __init__(self, is_right: bool) -> None:
        self.is_right = is_right

    def open(self, runtime_context: Any) -> None:
        self._paid = runtime_context.get_state(ValueStateDescriptor("paid", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        amount = value[1] if self.is_right else abs(value[1])
        self._paid.update((self._paid.value() or 0) + amount)
        yield value[0], self._paid.value()


def timed(env: Any, log: Path) -> Any:
    """Return the orders, with the log's own time."""
    return env.from_source(FileLog(log)).uid("orders").assign_timestamps_and_watermarks(bounded(0)).uid("timed")


def totals(log: Path, sink: Sink, is_right: bool = True) -> Callable[[Any], None]:
    """Return the program that keeps the total of each customer."""

    def declare(env: Any) -> None:
        orders = timed(env, log)
        paid = orders.key_by(lambda order: order[0]).process(Totals(is_right)).uid("totals")
        paid.map(lambda row: {"customer": row[0], "paid": row[1]}).uid("rows").sink_to(sink).uid("out")

    return declare


def windows(log: Path, sink: Sink, size: str = "10s", least: int = 0) -> Callable[[Any], None]:
    """Return the program that counts the orders of each customer in windows; smaller ones than `least` are left out."""

    def declare(env: Any) -> None:
        orders = timed(env, log)
        found = orders.key_by(lambda order: order[0]).window(tumbling(size)).agg(n=count()).uid("windows")
        kept = found.filter(lambda row: row.n > least).uid("kept")
        kept.map(lambda row: {"customer": row.key, "start": row.window_start, "n": row.n}).uid("rows").sink_to(
            sink
        ).uid("out")

    return declare


def orders(*amounts: int, start: int = 0, step: int = 1000) -> list[tuple[int, Any]]:
    """Return orders of two customers in turn, a second apart."""
    return [(start + step * n, ["ann" if n % 2 else "bob", amount]) for n, amount in enumerate(amounts)]


def produced(env: Any, program: Callable[[Any], None], target: Path) -> str:
    """Run production until it has read all there is, stop it, and return the savepoint that it leaves."""
    program(env)
    client = env.execute_async("production")
    client.caught_up().result(WAIT)
    return client.stop_with_savepoint(False, str(target)).result(WAIT)
