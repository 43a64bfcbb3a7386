"""Rows 10, 11, 14, 16 and 17: user functions, with several inputs and outputs, state and timers."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from pathlib import Path

import pytest

from flintstream import (
    CollectSink,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    TimeDomain,
    ValueStateDescriptor,
    bounded,
)
from tests.capabilities.support import Lists, collect


@pytest.mark.row(10)
def test_lambdas_turn_drop_and_multiply_events(env):
    stream = env.from_collection(["to be", "or", "not to be"]).flat_map(lambda line: line.split())
    assert collect(stream.filter(lambda word: word != "or").map(str.upper)) == ["TO", "BE", "NOT", "TO", "BE"]


class Logged:
    """Writes each call of open and close as a file, which survives whatever process it happened in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self, event: str) -> None:
        (self._folder / f"{event}-{self._task}-{os.getpid()}-{uuid.uuid4().hex}").touch()

    def open(self, runtime_context) -> None:
        self._task = runtime_context.get_index_of_this_subtask()
        self.log("open")

    def close(self) -> None:
        self.log("close")


class LoggedMap(Logged, MapFunction):
    def map(self, value):
        return value + 1


class LoggedFlatMap(Logged, FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield -value


class LoggedFilter(Logged, FilterFunction):
    def filter(self, value):
        return value > 0


def log_of(folder: Path) -> list[tuple[str, str, str]]:
    return [tuple(path.name.split("-")[:3]) for path in folder.iterdir()]  # type: ignore[misc]


@pytest.mark.row(10)
def test_classes_are_opened_once_per_task_and_closed(env, tmp_path):
    folders = [tmp_path / name for name in ("map", "flat_map", "filter")]
    for folder in folders:
        folder.mkdir()
    stream = env.from_source(NumberSequenceSource(1, 1000)).map(LoggedMap(folders[0]))
    stream = stream.flat_map(LoggedFlatMap(folders[1])).filter(LoggedFilter(folders[2]))
    assert sorted(collect(stream)) == list(range(2, 1002))
    for folder in folders:
        events = sorted((event, task) for event, task, _ in log_of(folder))
        assert events == [("close", "0"), ("close", "1"), ("open", "0"), ("open", "1")]


@pytest.mark.row(10)
def test_a_task_is_not_opened_again_for_every_epoch(new_env, tmp_path):
    env = new_env(max_records=5)
    assert len(collect(env.from_collection(range(15)).key_by(lambda n: n).map(LoggedMap(tmp_path)))) == 15
    opened = [(task, process) for event, task, process in log_of(tmp_path) if event == "open"]
    # Spark may run a task in another worker process, which then opens it once, too.
    assert len(set(opened)) == len(opened)
    assert {task for task, _ in opened} == {"0", "1"}


@pytest.mark.row(10)
def test_whatever_was_opened_is_closed_when_the_job_ends(new_env, tmp_path):
    """Many epochs, so that Spark gives a task to one worker process and then to another: each has opened it."""
    env = new_env(max_records=5)
    assert len(collect(env.from_collection(range(60)).key_by(lambda n: n).map(LoggedMap(tmp_path)))) == 60
    calls = Counter(event for event, _, _ in log_of(tmp_path))
    assert calls["open"] >= 2
    assert calls["open"] == calls["close"]


class LoggedReads(Lists):
    """A source that leaves a file for every range that is read."""

    def __init__(self, folder: Path, *splits) -> None:
        super().__init__(*splits)
        self._folder = folder

    def read(self, split: int, start: int, end: int) -> list:
        (self._folder / f"{split}-{start}-{end}-{uuid.uuid4().hex}").touch()
        return super().read(split, start, end)


@pytest.mark.row(11)
def test_one_pass_over_the_source_feeds_two_sinks(env, tmp_path):
    evens, odds = CollectSink(), CollectSink()
    numbers = env.from_source(LoggedReads(tmp_path, range(10)))
    numbers.filter(lambda n: n % 2 == 0).sink_to(evens)
    numbers.key_by(lambda n: n % 3).filter(lambda n: n % 2 == 1).sink_to(odds)
    env.execute()
    assert (evens.results, odds.results) == ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    assert [path.name.split("-")[:3] for path in tmp_path.iterdir()] == [["0", "0", "10"]]


@pytest.mark.row(11)
def test_a_union_keeps_the_records_of_all_three_streams(env):
    first, second, third = (env.from_collection(range(n, 30, 3)) for n in range(3))
    assert sorted(collect(first.union(second, third).map(lambda n: n))) == list(range(30))


class ByKind(ProcessFunction):
    def process_element(self, value, ctx):
        if isinstance(value, str):
            yield OutputTag("words"), value
        else:
            yield value


class Tell(CoMapFunction):
    def map1(self, value):
        return f"number {value}"

    def map2(self, value):
        return f"word {value}"


@pytest.mark.row(11)
def test_a_stream_is_split_in_two_and_merged_again(env):
    numbers = env.from_collection([1, "a", 2, "b"]).process(ByKind())
    words = numbers.get_side_output(OutputTag("words"))
    assert sorted(collect(numbers.connect(words).map(Tell()))) == ["number 1", "number 2", "word a", "word b"]


class Deadline(KeyedProcessFunction):
    """Sums per key, and emits the sum 10 ms of event time after a key's first record."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        if self.total.value() is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        self.total.update((self.total.value() or 0) + value["n"])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.total.value(), ctx.time_domain()
        self.total.clear()


@pytest.mark.row(14)
def test_an_event_time_timer_emits_what_the_state_held_then(new_env):
    records = [("a", 0, 1), ("b", 3, 10), ("a", 9, 2), ("a", 12, 4), ("b", 13, 20), ("b", 14, 40), ("a", 40, 8)]
    env = new_env(max_records=2)
    stream = env.from_source(
        Lists([{"key": key, "ts": ts, "n": n} for key, ts, n in records]), watermark=bounded("1ms", on="ts")
    )
    fired = collect(stream.key_by("key").process(Deadline()))
    event = TimeDomain.EVENT_TIME
    # The watermark reaches 10 with the record at 12, and 13 only at 40.
    assert fired == [("a", 10, 7, event), ("b", 13, 70, event), ("a", 50, 8, event)]


class WakeUp(KeyedProcessFunction):
    """Emits what it has seen when processing time has come to where it set its alarm."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value, ctx):
        if self.seen.value() is None:
            alarm = ctx.timer_service().current_processing_time() + 20
            self.seen.update((alarm, value))
            ctx.timer_service().register_processing_time_timer(alarm)

    def on_timer(self, timestamp, ctx):
        alarm, first = self.seen.value()
        late = ctx.timer_service().current_processing_time() - alarm
        yield ctx.get_current_key(), first, timestamp == alarm, late >= 0, ctx.time_domain()


@pytest.mark.row(14, 22)
def test_a_processing_time_timer_fires_once_the_clock_is_there(new_env):
    alarms = new_env().generate(generator=lambda i: i, rate=200, splits=1).key_by(lambda n: n % 2).process(WakeUp())
    processing = TimeDomain.PROCESSING_TIME
    fired = alarms.execute_and_collect(limit=2)
    assert sorted(fired) == [(0, 0, True, True, processing), (1, 1, True, True, processing)]


@pytest.mark.row(16)
def test_map_with_state_counts_per_key(env):
    def add(record, total):
        total = (total or 0) + record[1]
        return (record[0], total), total

    records = [("b", 2), ("b", 3), ("c", 1), ("a", 2), ("a", 2), ("c", 2)]
    results = collect(env.from_collection(records).key_by(0).map_with_state(add))
    assert results == [("b", 2), ("b", 5), ("c", 1), ("a", 2), ("a", 4), ("c", 3)]
    assert dict(results) == {"a": 4, "b": 5, "c": 3}


@pytest.mark.row(16)
def test_a_state_of_none_is_forgotten(env):
    def pairs(value, waiting):
        return (value, waiting), value if waiting is None else None

    results = collect(env.from_collection([1, 2, 3, 4]).key_by(lambda n: 0).map_with_state(pairs))
    assert results == [(1, None), (2, 1), (3, None), (4, 3)]


ROLLING = {
    "min": [("a", 5, "w"), ("a", 3, "w"), ("a", 3, "w"), ("a", 2, "w")],
    "max": [("a", 5, "w"), ("a", 5, "w"), ("a", 7, "w"), ("a", 7, "w")],
    "sum": [("a", 5, "w"), ("a", 8, "w"), ("a", 15, "w"), ("a", 17, "w")],
    "min_by": [("a", 5, "w"), ("a", 3, "x"), ("a", 3, "x"), ("a", 2, "z")],
    "max_by": [("a", 5, "w"), ("a", 5, "w"), ("a", 7, "y"), ("a", 7, "y")],
}


@pytest.mark.row(17)
def test_rolling_aggregates_emit_for_every_event(new_env):
    """All of them in one job, over several epochs, so that none may wait for the end of a batch."""
    env = new_env(max_records=3)
    stream = env.from_collection([("a", 5, "w"), ("a", 3, "x"), ("a", 7, "y"), ("a", 2, "z")]).key_by(0)
    sinks = {kind: CollectSink() for kind in (*ROLLING, "reduce")}
    for kind in ROLLING:
        getattr(stream, kind)(1).sink_to(sinks[kind])
    stream.reduce(lambda x, y: (x[0], x[1] * 10 + y[1], y[2])).sink_to(sinks["reduce"])
    env.execute()
    assert {kind: sinks[kind].results for kind in ROLLING} == ROLLING
    assert sinks["reduce"].results == [("a", 5, "w"), ("a", 53, "x"), ("a", 537, "y"), ("a", 5372, "z")]


@pytest.mark.row(17)
def test_rolling_minimum_of_plain_numbers_per_key(env):
    numbers = [("a", 5), ("b", 9), ("a", 3), ("a", 7), ("b", 1), ("a", 2)]
    assert collect(env.from_collection(numbers).key_by(0).min(1)) == [
        ("a", 5),
        ("b", 9),
        ("a", 3),
        ("a", 3),
        ("b", 1),
        ("a", 2),
    ]
