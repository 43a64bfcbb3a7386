"""Programs whose state is looked at, and ways to leave some behind: in a checkpoint directory, or in a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintstream import (
    BroadcastProcessFunction,
    CollectSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flintstream.engine.manifest import newest
from flintstream.engine.savepoint_format import savepoint_storage
from flintstream.engine.savepoint_take import Notes, write_savepoint
from flintstream.state.storage import LocalStorage
from tests.capabilities.support import Lists, StopAfter, StoppedOnPurpose

NewEnv = Callable[..., StreamExecutionEnvironment]


@dataclass
class Account:
    """A value with fields."""

    balance: int
    owner: str = ""


def expiring(name: str, kind: Any = ValueStateDescriptor) -> Any:
    descriptor = kind(name)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).use_event_time().build())
    return descriptor


class Everything(KeyedProcessFunction):
    """Keeps what it gets, `(key, number, timestamp)`, in state of every kind, and sets a timer for each record."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))
        self.account = runtime_context.get_state(ValueStateDescriptor("account"))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers"))
        self.by_number = runtime_context.get_map_state(MapStateDescriptor("by-number"))
        self.fresh = runtime_context.get_state(expiring("fresh"))

    def process_element(self, value, ctx):
        key, number, time = value
        self.count.update((self.count.value() or 0) + 1)
        held = self.account.value() or Account(0, key)
        self.account.update(Account(held.balance + number, held.owner))
        self.numbers.add(number)
        self.by_number.put(number, f"{key}{number}")
        self.fresh.update(number)
        ctx.timer_service().register_event_time_timer(time + 1000)
        yield key, self.count.value(), self.account.value().balance

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "timer", timestamp


RECORDS = [("a", 1, 0), ("b", 2, 10), ("a", 3, 20), ("c", 4, 30), ("b", 5, 40), ("a", 6, 50)]


def declare(env: StreamExecutionEnvironment, sink: CollectSink, records: Sequence[Any] = RECORDS) -> None:
    """Declare a program that keeps everything."""
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[2])
    stream = env.from_source(Lists(records), watermark=watermarks).uid("records")
    stream.key_by(0).process(Everything()).uid("all").sink_to(sink)


def stopped(new_env: NewEnv, folder: Path, program: Any = declare, epochs: int = 1, records: int = 4) -> Path:
    """Run a program until it has committed some epochs of so many records; return its checkpoint directory."""
    env = new_env(max_records=records, checkpoint_dir=folder)
    program(env, CollectSink())
    env.add_listener(StopAfter(epochs))
    try:
        env.execute("job")
    except StoppedOnPurpose:
        return folder
    raise AssertionError


def savepoint_of(folder: Path, target: Path) -> str:
    """Make a savepoint of the newest checkpoint in a directory, and return its path."""
    storage = LocalStorage(str(folder))
    manifest = newest(storage)
    assert manifest is not None
    write_savepoint(storage, manifest, savepoint_storage(str(target)), Notes())
    return str(target)


class Rules(BroadcastProcessFunction):
    """Keeps rules, in the order in which they came."""

    descriptor = MapStateDescriptor("rules")

    def process_element(self, value, ctx):
        yield value, dict(ctx.get_broadcast_state(self.descriptor).items())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.descriptor).put(*value)
