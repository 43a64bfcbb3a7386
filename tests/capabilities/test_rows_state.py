"""Rows 56 to 58 and 60: keyed state, its kinds, its isolation and its size."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CollectSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.state.local_folder import job_folder
from tests.capabilities.support import Lists, bytes_under, collect, run, run_with_stops

KEYS = 300


class Ledger(KeyedProcessFunction):
    """Keeps each key's number of records, its last three values and how often it saw each remainder."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent"))
        self.remainders = runtime_context.get_map_state(MapStateDescriptor("remainders"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.recent.update([*self.recent.get(), value][-3:])
        self.remainders.put(value % 7, (self.remainders.get(value % 7) or 0) + 1)
        yield ctx.get_current_key(), self.count.value(), self.recent.get(), sorted(self.remainders.items())


def ledger_of(new_env: Any, entries: int) -> tuple[list[Any], bool]:
    """Return what the job emits, and whether it kept state on the local disk, with so many entries in memory."""
    env = new_env(max_records=500, settings={"flintstream.state.entries-in-memory": str(entries)})
    on_disk: list[bool] = []
    env.add_listener(lambda manifest, reports, seconds: on_disk.append(job_folder(manifest.incarnation).exists()))
    results = collect(env.from_source(Lists(range(1500))).key_by(lambda n: n % KEYS).process(Ledger()))
    return results, any(on_disk)


@pytest.mark.row(56)
def test_state_in_memory_and_on_disk_gives_the_same_results(new_env):
    in_memory, used_disk = ledger_of(new_env, 10_000_000)
    assert not used_disk
    assert len(in_memory) == 1500
    assert in_memory[-1] == (299, 5, [899, 1199, 1499], [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)])
    on_disk, used_disk = ledger_of(new_env, 20)
    assert used_disk
    assert on_disk == in_memory


class OwnState(KeyedProcessFunction):
    """Adds up per key, and tells what it finds in its state before."""

    def open(self, runtime_context):
        self.values = runtime_context.get_list_state(ListStateDescriptor("values"))

    def process_element(self, record, ctx):
        yield ctx.get_current_key(), list(self.values.get())
        self.values.add(record)


@pytest.mark.row(57)
def test_a_function_sees_the_state_of_its_key_alone(new_env):
    records = [(key, n) for n in range(4) for key in ("a", "b", "c", "d", "e")]
    seen = collect(new_env(max_records=7).from_collection(records).key_by(0).process(OwnState()))
    assert len(seen) == 20
    for key, values in seen:
        assert all(owner == key for owner, _ in values)
    assert [len(values) for key, values in seen if key == "c"] == [0, 1, 2, 3]


class Exclusive(MapFunction):
    """Fails if two tasks are at work on one key at the same time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, runtime_context):
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value):
        lock = self._folder / str(value)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        self._count.update((self._count.value() or 0) + 1)
        lock.unlink()
        return value, self._count.value()


@pytest.mark.row(57)
def test_two_tasks_never_update_one_key_at_once(env, tmp_path):
    sources = [env.from_collection([n % 10 for n in range(300)]) for _ in range(2)]
    counted = collect(sources[0].union(sources[1]).key_by(lambda n: n).map(Exclusive(tmp_path)))
    assert {key: max(count for k, count in counted if k == key) for key in range(10)} == dict.fromkeys(range(10), 60)
    assert len(set(counted)) == 600


@dataclasses.dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float | None


class Opaque:
    """An object with no fields that anyone could look into."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other._content == self._content

    def __hash__(self) -> int:
        return hash(self._content)


VALUES = [None, Reading("s1", None), Opaque("x"), 2**100, -(2**63) - 1, {"a": [1, None]}, ("t", 1.5), b"\0", "text"]


class Collected(AggregateFunction):
    def create_accumulator(self):
        return ()

    def add(self, value, accumulator):
        return (*accumulator, value)

    def get_result(self, accumulator):
        return {"n": len(accumulator), "all": list(accumulator)}

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class AllStates(KeyedProcessFunction):
    """Keeps the values of a key in state of every kind, and tells all of it before it takes the next."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))
        joined = ReducingStateDescriptor("reducing", lambda old, new: [*old, *new])
        self.reducing = runtime_context.get_reducing_state(joined)
        self.aggregating = runtime_context.get_aggregating_state(AggregatingStateDescriptor("aggregating", Collected()))

    def process_element(self, number, ctx):
        yield (
            number,
            self.value.value(),
            list(self.list.get()),
            dict(self.map.items()),
            self.reducing.get(),
            self.aggregating.get(),
        )
        if number == len(VALUES) + 1:
            for state in (self.value, self.list, self.map, self.reducing, self.aggregating):
                state.clear()
        elif number < len(VALUES):
            value = VALUES[number]
            self.value.update(value)
            self.list.add(value)
            self.map.put(("key", number), value)
            self.reducing.add([value])
            self.aggregating.add(value)


@pytest.mark.row(58)
def test_every_kind_of_state_keeps_any_object_over_epochs_and_restarts(new_env, tmp_path):
    def declare(env, sink):
        env.from_source(Lists(range(len(VALUES) + 3))).key_by(lambda n: "only").process(AllStates()).sink_to(sink)

    told = run_with_stops(lambda: new_env(max_records=5, checkpoint_dir=tmp_path), declare, [1, 1])
    assert [number for number, *_ in told] == list(range(len(VALUES) + 3))
    for number, value, listed, mapped, reduced, aggregated in told[: len(VALUES) + 1]:
        before = VALUES[:number]
        assert value == (before[-1] if before else None)
        assert listed == before
        assert mapped == {("key", n): each for n, each in enumerate(before)}
        assert reduced == (before or None)
        assert aggregated == ({"n": len(before), "all": before} if before else None)
    assert told[-1][1:] == (None, [], {}, None, None)


MANY = 1_000_000


class Visits(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count > 1:
            yield value, count


class Sizes:
    """A listener that notes how many bytes every epoch added to the checkpoint directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[str] = set()
        self.added: list[int] = []

    def __call__(self, manifest: Any, reports: Any, seconds: float) -> None:
        files = bytes_under(self._folder)
        self.added.append(sum(size for name, size in files.items() if name not in self._known))
        self._known = set(files)


@pytest.mark.row(60)
def test_a_million_keys_and_checkpoints_of_what_changed(new_env, tmp_path):
    """The first epoch brings a million keys; the next touch 1,000, 1,000 and 4,000 of them again."""
    records = [*range(MANY), *range(1000), *range(500, 1500), *range(4000)]
    sink, sizes = CollectSink(), Sizes(tmp_path)

    def declare(env, sink):
        env.add_listener(sizes)
        env.from_source(Lists(records)).key_by(lambda n: n).process(Visits()).sink_to(sink)

    for max_records, epochs in ((MANY, 1), (1000, 2), (4000, None)):
        run(new_env(max_records=max_records, checkpoint_dir=tmp_path), sink, declare, epochs)
    assert len(sink.results) == 6000
    assert dict(sink.results) == {n: 2 + (n < 1000) + (500 <= n < 1500) for n in range(4000)}
    first, second, third, fourth = sizes.added
    assert second < first / 10
    assert third < first / 10
    assert 2 * third < fourth < first / 5
