"""Broadcast state obeys the batching law, and is what Flink's rules, written down record by record, say it is.

Rules come as records: one sets the pair `key -> n`, but every fourth removes it. What is emitted tells all pairs in
their order, so a rule that is lost, doubled, out of place or seen too late by any instance shows.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    BroadcastProcessFunction,
    Configuration,
    DataStream,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    OutputTag,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flintstream.engine import task as tasks
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.state.keygroups import hash_key
from flintstream.state.timers import order_of
from tests.laws.programs import Outputs
from tests.laws.runs import Input, Life, Way, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, SPLITS, law, local_env, numbered, some_splits, ways

pytestmark = pytest.mark.timeout(900)
RULES = MapStateDescriptor("rules")
SEEN = ValueStateDescriptor("seen")
SIDE = OutputTag("side")


def is_rule(record: dict[str, Any]) -> bool:
    return record["n"] % 2 == 1


def apply_rule(value: Any, rules: Any) -> None:
    if value["n"] % 4 == 3:
        rules.remove(value["key"])
    else:
        rules.put(value["key"], value["n"])


class Enrich(BroadcastProcessFunction):
    def open(self, runtime_context):
        self.is_first = runtime_context.get_index_of_this_subtask() == 0

    def process_element(self, value, ctx):
        pairs = list(ctx.get_broadcast_state(RULES).items())
        yield value["n"], pairs, ctx.timestamp(), ctx.current_watermark()
        if value["n"] % 3 == 0:
            yield SIDE, (value["n"], len(pairs))

    def process_broadcast_element(self, value, ctx):
        apply_rule(value, ctx.get_broadcast_state(RULES))
        if self.is_first:
            yield "rule", value["n"], ctx.get_broadcast_state(RULES).keys(), ctx.timestamp(), ctx.current_watermark()


class Watch(KeyedBroadcastProcessFunction):
    """Says at every record, every rule and every timer what the keys have seen and what the rules are."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(SEEN)

    def process_element(self, value, ctx):
        self.seen.update((self.seen.value() or 0) + value["n"])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)
        rules = list(ctx.get_broadcast_state(RULES).items())
        yield "event", ctx.get_current_key(), self.seen.value(), rules, ctx.current_watermark()

    def process_broadcast_element(self, value, ctx):
        apply_rule(value, ctx.get_broadcast_state(RULES))
        found = []

        def visit(key, state):
            found.append(("rule", key, value["n"], state.value()))
            if value["n"] % 5 == 0:
                state.clear()

        ctx.apply_to_keyed_state(SEEN, visit)
        yield from found

    def on_timer(self, timestamp, ctx):
        rules = list(ctx.get_broadcast_state(RULES).keys())
        yield "timer", ctx.get_current_key(), timestamp, self.seen.value(), rules, ctx.current_watermark()


def enrich(left: DataStream, right: DataStream) -> Outputs:
    main = left.connect(right.broadcast(RULES)).process(Enrich()).uid("enrich")
    return {"main": main, "side": main.get_side_output(SIDE)}


def enrich_behind_an_exchange(left: DataStream, right: DataStream) -> Outputs:
    """The stream stays where it is, and must be put in order with the rules all the same."""
    moved = left.key_by("key").map(lambda r: r).uid("moved")
    main = moved.connect(right.broadcast(RULES)).process(Enrich()).uid("enrich")
    return {"main": main.key_by(lambda r: 0).map(lambda r: r).uid("gathered")}


def watch(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.key_by("key").connect(right.broadcast(RULES)).process(Watch()).uid("watch")}


PROGRAMS = [enrich, enrich_behind_an_exchange, watch]


@pytest.mark.parametrize("program", PROGRAMS)
@law(8)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_one_split_has_one_result(program, split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(program, records, way, local_env) == run(program, records, PLAIN, local_env)


@pytest.mark.parametrize("program", PROGRAMS)
@law(6)
@given(left=SPLITS, right=SPLITS, bound=st.integers(0, 12), way=ways(deterministic=True))
def test_deterministic_order_has_one_result(program, left, right, bound, way):
    records = Input(numbered(left), numbered(right, 100), bound)
    assert run(program, records, way, local_env) == run(program, records, Way(deterministic=True), local_env)


def spilling_env(parallelism: int, **named: Any) -> StreamExecutionEnvironment:
    env = local_env(parallelism, **named)
    env.configure(Configuration.from_dict({"flintstream.state.entries-in-memory": "1"}))
    return env


@law(8)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_it_is_the_same_while_the_state_of_keys_is_on_disk(split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(watch, records, way, spilling_env) == run(watch, records, PLAIN, local_env)


@law(25)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_enrichment_is_what_flink_says_it_is(split, bound, way):
    (records,) = numbered([split])
    rules: dict[str, int] = {}
    wanted: list[Any] = []
    side: list[Any] = []
    watermark = MIN_TIMESTAMP
    for record in records:
        wanted.append((record["n"], list(rules.items()), record["ts"], watermark))
        if record["n"] % 3 == 0:
            side.append((record["n"], len(rules)))
        if is_rule(record):
            apply_rule(record, Dict(rules))
            wanted.append(("rule", record["n"], list(rules), record["ts"], watermark))
        watermark = max(watermark, record["ts"] - bound - 1)
    assert run(enrich, Input([records], bound=bound), way, local_env) == {"enrich main": wanted, "enrich side": side}


@law(25)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_a_keyed_function_is_what_flink_says_it_is(split, bound, way):
    (records,) = numbered([split])
    found = run(watch, Input([records], bound=bound), way, local_env)
    assert found == {"watch main": flinks_watch(records, bound)}


class Dict:
    """A dict with the methods of broadcast state."""

    def __init__(self, data: dict[Any, Any]) -> None:
        self._data = data

    def put(self, key: Any, value: Any) -> None:
        self._data[key] = value

    def remove(self, key: Any) -> None:
        self._data.pop(key, None)


def flinks_watch(records: list[Any], bound: int) -> list[Any]:
    rules: dict[str, int] = {}
    seen: dict[str, int] = {}
    timers: set[tuple[int, int, str]] = set()
    out: list[Any] = []
    watermark = MIN_TIMESTAMP
    for record in [*records, None]:
        if record is not None:
            key = record["key"]
            seen[key] = seen.get(key, 0) + record["n"]
            timers.add((record["ts"] + 5, order_of(key), key))
            out.append(("event", key, seen[key], list(rules.items()), watermark))
            if is_rule(record):
                apply_rule(record, Dict(rules))
                keys = sorted(seen, key=lambda key: (hash_key(key) % 128, order_of(key)))
                out += [("rule", key, record["n"], seen[key]) for key in keys]
                if record["n"] % 5 == 0:
                    seen.clear()
        reached = MAX_TIMESTAMP if record is None else record["ts"] - bound - 1
        if reached > watermark:
            watermark = reached
            due = sorted(timer for timer in timers if timer[0] <= watermark)
            timers.difference_update(due)
            out += [("timer", key, time, seen.get(key), list(rules), watermark) for time, _, key in due]
    return out


@pytest.mark.spark
def test_all_of_them_on_spark(make_env):
    """As one job, cut, spread, killed between epochs and within one, against one epoch in-process."""
    records = Input(numbered(some_splits(random.Random(7), 1)), bound=4)
    way = Way([Life(5, 2, stop_after=2), Life(6, 3, fuse=14), Life(4, 1, stop_after=1), Life(5, 2)])
    programs = [enrich, watch]
    spark = run(programs, records, way, lambda *args, **named: make_env("spark", *args, **named))
    assert spark == run(programs, records, PLAIN, local_env)


class Processes:
    """A listener that has every partition of every epoch run in one of three processes, as it happens on a cluster.

    Each process has kept what it had when it last ran that partition, some epochs ago.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Any], Any] = {}

    def __call__(self, manifest: Any, reports: Any, seconds: float) -> None:
        opened: dict[Any, Any] = tasks._OPENED
        for key in [key for key in opened if key[0] == manifest.incarnation]:
            self._kept[self._process(manifest.epoch, key[2]), key] = opened.pop(key)
        following = [key for key in self._kept if key[0] == self._process(manifest.epoch + 1, key[1][2])]
        for process, key in following:
            opened[key] = self._kept.pop((process, key))

    @staticmethod
    def _process(epoch: int, partition: int) -> int:
        return (epoch * epoch + epoch // 2 + partition) % 3


@pytest.mark.parametrize("program", [enrich, watch])
@law(10)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), cut=st.integers(1, 3), parallelism=st.integers(1, 3))
def test_a_process_that_was_away_for_some_epochs_catches_up(program, split, bound, cut, parallelism):
    def scattered(*arguments: Any, **named: Any) -> StreamExecutionEnvironment:
        env = local_env(*arguments, **named)
        env.add_listener(Processes())
        return env

    records = Input(numbered([split]), bound=bound)
    way = Way([Life(cut, parallelism)])
    assert run(program, records, way, scattered) == run(program, records, PLAIN, local_env)
