"""State that expires by event time against a model of it, however the run is cut, spread, interrupted or spilled.

The model knows nothing of deadlines or clean-up: it has what was written and when, and a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    Configuration,
    DataStream,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.laws.runs import Input, run
from tests.laws.test_batching_law import LONG_SPLIT, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)
TTL = 9


def verb_of(n: int) -> str:
    return ("write", "write", "timer", "read", "past", "write", "read", "clear")[n % 8]


class Expiring(KeyedProcessFunction):
    """Writes, reads and clears a value, a list and a map of the same numbers, at records and at timers."""

    def __init__(self, on_read: bool, lazily: bool) -> None:
        builder = StateTtlConfig.new_builder(TTL).use_event_time()
        if on_read:
            builder = builder.update_ttl_on_read_and_write()
        if lazily:
            builder = builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background()
        self._config = builder.build()

    def open(self, runtime_context: Any) -> None:
        value, several, by_n = ValueStateDescriptor("value"), ListStateDescriptor("list"), MapStateDescriptor("map")
        for descriptor in (value, several, by_n):
            descriptor.enable_time_to_live(self._config)
        self._value = runtime_context.get_state(value)
        self._list = runtime_context.get_list_state(several)
        self._map = runtime_context.get_map_state(by_n)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        n, verb = value["n"], verb_of(value["n"])
        if verb == "write":
            self._value.update(n)
            self._list.add(n)
            self._map.put(n % 3, n)
        elif verb == "clear":
            self._value.clear()
            self._list.clear()
            self._map.clear()
        elif verb == "read":
            yield self._found(n, ctx)
        else:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + (7 if verb == "timer" else -20))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield self._found(f"timer {timestamp}", ctx)

    def _found(self, where: Any, ctx: Any) -> Any:
        return ctx.get_current_key(), where, self._value.value(), self._list.get(), sorted(self._map.items())


class Model:
    """What one key has, as pairs `(value, stamp)`."""

    def __init__(self, on_read: bool, lazily: bool) -> None:
        self._on_read, self._lazily = on_read, lazily
        self._value: list[Any] = []
        self._list: list[Any] = []
        self._map: dict[Any, Any] = {}

    def write(self, n: int, stamp: int, now: int) -> None:
        def renewed(old: Any) -> tuple[int, int]:
            is_live = old is not None and old[1] + TTL > now
            return n, max(stamp, old[1]) if is_live else stamp

        self._value = [renewed(self._value[0] if self._value else None)]
        self._list.append((n, stamp))
        self._map[n % 3] = renewed(self._map.get(n % 3))

    def clear(self) -> None:
        self.__init__(self._on_read, self._lazily)

    def read(self, stamp: int, now: int) -> tuple[Any, list[Any], list[Any]]:
        self._value, value = self._read_all(self._value, stamp, now)
        self._list, several = self._read_all(self._list, stamp, now)
        entries = {key: self._read_all([held], stamp, now) for key, held in self._map.items()}
        self._map = {key: kept[0] for key, (kept, _) in entries.items() if kept}
        pairs = sorted((key, one) for key, (_, seen) in entries.items() for one in seen)
        return (value[0] if value else None), several, pairs

    def _read_all(self, held: list[Any], stamp: int, now: int) -> tuple[list[Any], list[Any]]:
        """Return what is left after reading, and what was seen."""
        live = [each for each in held if each[1] + TTL > now]
        kept = [(value, max(stamp, old)) for value, old in live] if self._on_read else live
        return kept, [value for value, _ in (held if self._lazily else live)]


def expected(records: list[Any], bound: int, on_read: bool, lazily: bool) -> dict[str, list[Any]]:
    """Return what each key emits: one record after the other, then the timers that the watermark's advance reaches."""
    models: dict[str, Model] = {}
    timers: dict[str, set[int]] = {}
    emitted: dict[str, list[Any]] = {}
    watermark = MIN_TIMESTAMP

    def advance(reached: int) -> None:
        for key, times in timers.items():
            for time in sorted(time for time in times if time <= reached):
                now = max(watermark, time)
                emitted.setdefault(key, []).append((key, f"timer {time}", *models[key].read(time, now)))
                times.discard(time)

    for record in records:
        key, ts, n = record["key"], record["ts"], record["n"]
        model, verb = models.setdefault(key, Model(on_read, lazily)), verb_of(n)
        if verb == "write":
            model.write(n, ts, watermark)
        elif verb == "clear":
            model.clear()
        elif verb == "read":
            emitted.setdefault(key, []).append((key, n, *model.read(ts, watermark)))
        else:
            timers.setdefault(key, set()).add(ts + (7 if verb == "timer" else -20))
        reached = max(watermark, ts - bound - 1)
        if reached > watermark:
            advance(reached)
            watermark = reached
    advance(MAX_TIMESTAMP)
    return emitted


def spilling_env(parallelism: int, *, max_records: int, checkpoint_dir: Any) -> StreamExecutionEnvironment:
    settings = {"flintstream.epoch.max-records": str(max_records), "flintstream.state.entries-in-memory": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings), runtime="local")
    return env.set_parallelism(parallelism).set_checkpoint_dir(str(checkpoint_dir))


@law(30)
@given(
    split=LONG_SPLIT,
    bound=st.integers(0, 12),
    way=ways(),
    on_read=st.booleans(),
    lazily=st.booleans(),
    spills=st.booleans(),
)
def test_state_expires_as_the_model_says(split, bound, way, on_read, lazily, spills):
    def expiring(left: DataStream, right: DataStream) -> dict[str, DataStream]:
        return {"main": left.key_by(lambda r: r["key"]).process(Expiring(on_read, lazily)).uid("expiring")}

    (records,) = numbered([split])
    found: dict[str, list[Any]] = {}
    results = run(expiring, Input([records], bound=bound), way, spilling_env if spills else local_env)
    for result in results["expiring main"]:
        found.setdefault(result[0], []).append(result)
    assert found == expected(records, bound, on_read, lazily)
