"""Programs whose state expires: a record's `v` says what to do with it, and its `n` with what number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
    session,
    tumbling,
)
from tests.spec.functions import show, show_time
from tests.spec.programs import program

Builder = StateTtlConfig.Builder


def ttl_config(
    ttl: str = "10s", clock: str = "event", update: str = "write", expired: bool = False, background: bool = True
) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(ttl)
    builder = builder.use_event_time() if clock == "event" else builder.use_processing_time()
    if update == "read":
        builder = builder.update_ttl_on_read_and_write()
    elif update == "never":
        builder = builder.set_update_type(StateTtlConfig.UpdateType.Disabled)
    if expired:
        builder = builder.return_expired_if_not_cleaned_up()
    if not background:
        builder = builder.disable_cleanup_in_background()
    return builder.build()


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Cupboard:
    """One state of some kind, used by verbs: `put`, `get`, `clear`, for maps also `remove`, `len` and `has`."""

    def __init__(self, kind: str, config: StateTtlConfig | None) -> None:
        self._kind, self._config = kind, config

    def open(self, ctx: Any) -> None:
        descriptor, getter = {
            "value": (ValueStateDescriptor("kept", int), "get_state"),
            "list": (ListStateDescriptor("kept", int), "get_list_state"),
            "map": (MapStateDescriptor("kept", int, int), "get_map_state"),
            "reducing": (ReducingStateDescriptor("kept", lambda a, b: a + b, int), "get_reducing_state"),
            "aggregating": (AggregatingStateDescriptor("kept", Total(), int), "get_aggregating_state"),
        }[self._kind]
        if self._config is not None:
            descriptor.enable_time_to_live(self._config)
        self._state = getattr(ctx, getter)(descriptor)

    def use(self, verb: str, n: Any) -> Iterable[Any]:
        state = self._state
        if verb == "clear":
            state.clear()
        elif verb == "get":
            yield self._shown()
        elif verb == "len":
            yield f"{len(state)}{' empty' if state.is_empty() else ''}"
        elif verb == "has":
            yield state.contains(n)
        elif verb == "remove":
            state.remove(n)
        elif verb == "set":
            state.update([n])
        elif self._kind == "value":
            state.update(n)
        elif self._kind == "map":
            state.put(n, n)
        else:
            state.add(n)

    def _shown(self) -> Any:
        if self._kind == "value":
            return self._state.value()
        found = self._state.items() if self._kind == "map" else self._state.get()
        return sorted(key for key, _ in found) if self._kind == "map" else found

    def held(self) -> str:
        found = self._shown()
        return "-" if found is None or found == [] else show(found)


class InProcess(KeyedProcessFunction):
    """In a process function; the verb `alarm` reads at a timer `n` s of event time later, `ring` writes 7 there."""

    def __init__(self, cupboard: Cupboard) -> None:
        self._cupboard = cupboard

    def open(self, runtime_context: Any) -> None:
        self._cupboard.open(runtime_context)
        self._ring = runtime_context.get_state(ValueStateDescriptor("ring"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        if value["v"] in ("alarm", "ring"):
            ctx.timer_service().register_event_time_timer(value["n"] * 1000)
            self._ring.update(1 if value["v"] == "ring" else None)
            return
        for found in self._cupboard.use(value["v"], value["n"]):
            shown = "-" if found is None or found == [] else found
            yield show(ctx.get_current_key(), value["v"], shown)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]:
        if self._ring.value():
            self._ring.clear()
            list(self._cupboard.use("put", 7))
        yield show(ctx.get_current_key(), "timer", show_time(timestamp), self._cupboard.held())


class InFlatMap(FlatMapFunction):
    def __init__(self, cupboard: Cupboard) -> None:
        self._cupboard = cupboard

    def open(self, runtime_context: Any) -> None:
        self._cupboard.open(runtime_context)

    def flat_map(self, value: Any) -> Iterable[str]:
        for found in self._cupboard.use(value["v"], value["n"]):
            yield show(value["key"], value["v"], "-" if found is None or found == [] else found)


class InWindow(ProcessWindowFunction):
    """Each window shows what the key's state holds and puts the number of its records into it."""

    def __init__(self, cupboard: Cupboard) -> None:
        self._cupboard = cupboard

    def open(self, runtime_context: Any) -> None:
        self._cupboard.open(runtime_context)

    def process(self, key: Any, context: Any, elements: Any) -> Iterable[str]:
        yield show(key, context.window(), self._cupboard.held())
        list(self._cupboard.use("put", len(list(elements))))


@program
def expiring(stream: DataStream, kind: str = "value", **config: Any) -> DataStream:
    return stream.key_by("key").process(InProcess(Cupboard(kind, ttl_config(**config)))).uid("kept")


@program
def expiring_in_flat_map(stream: DataStream, kind: str = "value", **config: Any) -> DataStream:
    return stream.key_by("key").flat_map(InFlatMap(Cupboard(kind, ttl_config(**config)))).uid("kept")


@program
def expiring_between_windows(stream: DataStream, sessions: bool = False, **config: Any) -> DataStream:
    function = InWindow(Cupboard("value", ttl_config(**config)))
    windows = stream.key_by("key").window(session("3s") if sessions else tumbling("5s"))
    return windows.process(function).uid("kept")
