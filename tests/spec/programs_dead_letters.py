"""Programs of the transcripts about records on which a function raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream import (
    DataStream,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from tests.spec.functions import show, show_time
from tests.spec.programs import program

BAD = OutputTag("bad")


def letter_line(letter: Any) -> str:
    """Show a dead letter: its key, where it has none that of the record, then its time, value and error."""
    key = letter.key if letter.record is None or letter.key is not None else letter.record["key"]
    value = "timer" if letter.record is None else letter.record["v"]
    return show(key, show_time(letter.timestamp), value, letter.error)


def with_letters(stream: DataStream) -> dict[str, DataStream]:
    return {"main": stream, "bad": stream.get_side_output(BAD).map(letter_line).uid("letters")}


def checked(value: Any) -> str:
    return show(value["key"], 12 // value["v"])


@program
def bad_map(stream: DataStream) -> dict[str, DataStream]:
    return with_letters(stream.map(checked).uid("checked").on_error(BAD))


@program
def skipping_map(stream: DataStream) -> DataStream:
    return stream.map(checked).uid("checked").on_error("skip")


def ratio(one: Any, other: Any) -> Any:
    return {**other, "v": one["v"] // other["v"]}


@program
def bad_reduce(stream: DataStream) -> dict[str, DataStream]:
    reduced = stream.key_by("key").reduce(ratio).uid("ratio").on_error(BAD)
    found = with_letters(reduced)
    return {**found, "main": reduced.map(lambda row: show(row["key"], row["v"])).uid("shown")}


class Account(KeyedProcessFunction):
    """Adds up; a sum below zero is refused behind everything that the call has done. A timer 10 s later closes it.

    A timer finds fault with a sum of 13.
    """

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int))
        self.moves = runtime_context.get_list_state(ListStateDescriptor("moves", int))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        total = (self.total.value() or 0) + value["v"]
        self.total.update(total)
        self.moves.add(value["v"])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)
        yield show(value["key"], total, *self.moves.get())
        if total < 0:
            raise ValueError("overdrawn")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        total = self.total.value()
        self.total.clear()
        self.moves.clear()
        yield show(ctx.get_current_key(), "closed with", total)
        if total == 13:
            raise RuntimeError("unlucky")


@program
def bad_account(stream: DataStream) -> dict[str, DataStream]:
    return with_letters(stream.key_by("key").process(Account()).uid("account").on_error(BAD))
