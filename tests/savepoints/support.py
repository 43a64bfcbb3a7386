"""Programs whose savepoints are taken and restored, and jobs that run until a test has seen enough of them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintstream import (
    BroadcastProcessFunction,
    CollectSink,
    Configuration,
    JobClient,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SplitSource,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    bounded,
    count,
    sum_of,
    tumbling,
)
from tests.capabilities.support import Lists


class Account(KeyedProcessFunction):
    """A value, a list, a map and a timer for each key; tells of every record what it finds."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last"))
        self.by_kind = runtime_context.get_map_state(MapStateDescriptor("by kind"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        key, kind, amount, ts = value
        self.total.update((self.total.value() or 0) + amount)
        self.last.update([*list(self.last.get())[-2:], amount])
        self.by_kind.put(kind, (self.by_kind.get(kind) or 0) + 1)
        ctx.timer_service().register_event_time_timer(ts // 50 * 50 + 50)
        yield key, self.total.value(), tuple(self.last.get()), tuple(sorted(self.by_kind.items()))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "at", timestamp, self.total.value()


class Priced(BroadcastProcessFunction):
    """Multiplies records by what the broadcast side said last."""

    PRICES = MapStateDescriptor("prices", Types.STRING(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[0], value[2] * (ctx.get_broadcast_state(self.PRICES).get(value[1]) or 1)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.PRICES).put(value[0], value[1])
        return ()


KINDS = ("tea", "coffee", "cake")
PRICES = [("tea", 3), ("coffee", 4)]


def purchases(number: int) -> list[tuple[str, str, int, int]]:
    """Return so many records (key, kind, amount, timestamp)."""
    return [(f"k{i * 7 % 11}", KINDS[i % 3], i % 5 + 1, i * 3) for i in range(number)]


def declare(env: StreamExecutionEnvironment, source: SplitSource, sinks: dict[str, CollectSink]) -> None:
    """Declare a program with state of many kinds: keyed state, timers, windows by columns and records, broadcast."""
    stream = (
        env.from_source(source).uid("purchases").assign_timestamps_and_watermarks(bounded("10ms", on=3)).uid("times")
    )
    keyed = stream.key_by(lambda value: value[0])
    keyed.process(Account()).uid("accounts").sink_to(sinks.setdefault("accounts", CollectSink()))
    (
        stream.map(lambda value: {"key": value[0], "amount": value[2]})
        .key_by("key")
        .window(tumbling("100ms"))
        .agg(total=sum_of("amount"), number=count())
        .uid("sums")
        .map(tuple)
        .sink_to(sinks.setdefault("sums", CollectSink()))
    )
    (
        keyed.window(tumbling("70ms"))
        .reduce(lambda a, b: (a[0], a[1], a[2] + b[2], a[3]))
        .uid("reduced")
        .sink_to(sinks.setdefault("reduced", CollectSink()))
    )
    prices = env.from_collection(PRICES).uid("prices")
    (
        stream.connect(prices.broadcast(Priced.PRICES))
        .process(Priced())
        .uid("priced")
        .sink_to(sinks.setdefault("priced", CollectSink()))
    )


def local_env(
    parallelism: int = 2,
    checkpoint_dir: Path | None = None,
    max_records: int = 20,
    settings: dict[str, str] | None = None,
) -> StreamExecutionEnvironment:
    """Return an environment of the in-process runtime with small epochs."""
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": str(max_records), **(settings or {})})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")
    if checkpoint_dir is not None:
        env.set_checkpoint_dir(str(checkpoint_dir))
    return env.set_parallelism(parallelism)


class Gate:
    """A listener that lets a test wait until a job has read so much, and holds the job there until the test goes on."""

    def __init__(self, uid: str, position: int) -> None:
        self._uid = uid
        self._position = position
        self._reached = threading.Event()
        self._go_on = threading.Event()
        self._given_up = False
        self.epochs = 0

    def __call__(self, manifest: Any, reports: Any, seconds: float) -> None:
        self.epochs = manifest.epoch
        if sum(manifest.positions.get(self._uid, {}).values()) >= self._position and not self._reached.is_set():
            self._reached.set()
            assert self._go_on.wait(60)

    def wait(self) -> bool:
        """Wait until the job is there; return False if it has ended before."""
        assert self._reached.wait(60)
        return not self._given_up

    def give_up(self) -> None:
        """The job has ended: nobody needs to wait for it any more."""
        self._given_up = not self._reached.is_set()
        self._reached.set()

    def go_on(self) -> None:
        """Let the job go on."""
        self._go_on.set()


@contextmanager
def held_at(env: StreamExecutionEnvironment, uid: str, position: int) -> Generator[tuple[JobClient, Gate]]:
    """Run a program until a source was read up to a position; it goes on at the end at the latest."""
    gate = Gate(uid, position)
    env.add_listener(gate)
    client = env.execute_async("job")
    client.get_job_execution_result().add_done_callback(lambda _: gate.give_up())
    try:
        if not gate.wait():
            client.get_job_execution_result().result(60)
        yield client, gate
    finally:
        gate.go_on()


def results(sinks: dict[str, CollectSink]) -> dict[str, list[Any]]:
    """Return what came out, in an order of its own."""
    return {name: sorted(sink.results, key=repr) for name, sink in sinks.items()}


def savepoint_after(
    env: StreamExecutionEnvironment, records: list[Any], until: int, directory: Path, sinks: dict[str, CollectSink]
) -> str:
    """Run the program up to a position, and stop it with a savepoint; return its path."""
    declare(env, Lists(records), sinks)
    with held_at(env, "purchases", until) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(directory))
        gate.go_on()
        return stopped.result(60)


def finish(env: StreamExecutionEnvironment, records: list[Any], sinks: dict[str, CollectSink]) -> None:
    """Run the program on the records to their end."""
    declare(env, Lists(records), sinks)
    env.execute("job")
