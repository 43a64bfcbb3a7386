"""Rows 23 to 25, 30 to 32, 36 and 97: ingestion time, generators, learned bounds, skew, idleness, ranges of a log."""

from __future__ import annotations

import importlib.util
import random
import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from flintstream import (
    CollectSink,
    FileSource,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ValueStateDescriptor,
    Watermark,
    WatermarkGenerator,
    WatermarkStrategy,
    count,
    sum_of,
    tumbling,
)
from flintstream.errors import DefinitionError, UnserialisableFunctionError, UserFunctionError
from tests.capabilities.support import Epochs, Lists, collect, run, run_with_stops

LATE = OutputTag("late")
MAX_TIMESTAMP = (1 << 63) - 1


class Contents(ProcessWindowFunction):
    """Emits a window's records in their order, and the watermark at which it fired."""

    def process(self, key, context, elements):
        yield key, context.window().start, [element["n"] for element in elements], context.current_watermark()


def windows_of(stream: Any, size: str = "10ms") -> Any:
    return stream.key_by("k").window(tumbling(size)).process(Contents())


def shuffled(size: int = 40, seed: int = 3) -> list[dict]:
    rng = random.Random(seed)
    return [{"k": "ab"[n % 2], "ts": 2 * n + rng.randrange(8), "n": n} for n in range(size)]


class EveryThird(WatermarkGenerator):
    """Periodic: remembers the greatest timestamp, and at every third record says how far it has got."""

    def __init__(self):
        self.greatest = 0
        self.seen = 0

    def on_event(self, event, timestamp, output):
        self.greatest = max(self.greatest, timestamp)
        self.seen += 1

    def on_periodic_emit(self, output):
        if self.seen % 3 == 0:
            output.emit_watermark(Watermark(self.greatest - 8))


class Punctuated(WatermarkGenerator):
    """A record that says so ends its time."""

    def on_event(self, event, timestamp, output):
        if event["n"] == "end":
            output.emit_watermark(timestamp)


def expected_of(generator: EveryThird, records: list[dict]) -> list[int]:
    """Return the watermarks that a generator makes of records, one at a time."""

    class Output:
        level = -(1 << 63)

        def emit_watermark(self, watermark):
            self.level = max(self.level, watermark.timestamp)

    output: Any = Output()
    levels = []
    for record in records:
        generator.on_event(record, record["ts"], output)
        generator.on_periodic_emit(output)
        levels.append(output.level)
    return levels


def reaching(levels: list[int], end: int) -> int:
    """Return the first watermark that reaches `end`, if only that of the input's end."""
    return next((level for level in levels if level >= end), MAX_TIMESTAMP)


@pytest.mark.row(30)
def test_a_generator_of_the_users_is_called_for_every_record(new_env):
    records = shuffled()
    strategy = WatermarkStrategy.for_generator(EveryThird).with_timestamp_column("ts")
    fired = collect(windows_of(new_env(max_records=7).from_source(Lists(records), strategy)))
    levels = expected_of(EveryThird(), records)
    assert len(fired) > 10
    assert [watermark for *_, watermark in fired] == [reaching(levels, start + 9) for _, start, *_ in fired]
    assert sum(watermark < 100 for *_, watermark in fired) > 10


@pytest.mark.row(30)
def test_a_generator_goes_on_where_it_was_through_epochs_and_restarts(new_env, tmp_path):
    def declare(env, sink):
        strategy = WatermarkStrategy.for_generator(EveryThird).with_timestamp_column("ts")
        windows_of(env.from_source(Lists(shuffled()), strategy)).sink_to(sink)

    whole = CollectSink()
    env = new_env()
    declare(env, whole)
    env.execute()
    cut = run_with_stops(lambda: new_env(max_records=5, checkpoint_dir=tmp_path), declare, [1, 2, 1])
    assert sorted(cut) == sorted(whole.results)


@pytest.mark.row(30)
def test_a_punctuated_generator_advances_with_the_record_that_says_so(new_env):
    records = [{"k": "a", "ts": ts, "n": n} for ts, n in [(1, 1), (15, "x"), (9, "end"), (2, "late"), (30, 3)]]
    strategy = WatermarkStrategy.for_generator(lambda: Punctuated()).with_timestamp_column("ts")
    stream = new_env(max_records=2).from_source(Lists(records), strategy)
    fired = collect(windows_of(stream))
    assert fired == [("a", 0, [1, "end"], 9), ("a", 10, ["x"], MAX_TIMESTAMP), ("a", 30, [3], MAX_TIMESTAMP)]


@pytest.mark.row(30)
def test_a_generator_sees_the_records_of_files_in_their_order(new_env, tmp_path):
    """Spark reads files in many pieces at once; the generator still gets one sequence."""
    for number in range(3):
        lines = [f"{record['ts']}" for record in shuffled()[number * 12 : number * 12 + 12]]
        tmp_path.joinpath(f"part-{number}").write_text("\n".join(lines))
    strategy = WatermarkStrategy.for_generator(EveryThird).with_timestamp_assigner(lambda record, _: record["ts"])
    lines = new_env().from_source(FileSource.text(tmp_path))
    stream = lines.map(lambda line: {"k": "a", "ts": int(line), "n": int(line)})
    fired = collect(windows_of(stream.assign_timestamps_and_watermarks(strategy)))
    levels = expected_of(EveryThird(), shuffled()[:36])
    assert len(fired) == 8
    assert [watermark for *_, watermark in fired] == [reaching(levels, start + 9) for _, start, *_ in fired]
    assert sum(watermark < 100 for *_, watermark in fired) > 5


class Failing(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        raise RuntimeError("no such time")


class Unkeepable(WatermarkGenerator):
    def __init__(self):
        self.lines = (line for line in ["a generator cannot be pickled"])

    def on_event(self, event, timestamp, output):
        pass


@pytest.mark.row(30)
def test_a_generator_that_raises_names_its_line(new_env):
    strategy = WatermarkStrategy.for_generator(Failing).with_timestamp_column("ts")
    with pytest.raises(UserFunctionError, match="no such time") as caught:
        collect(new_env().from_source(Lists(shuffled()), strategy))
    assert caught.value.location is not None and "test_rows_watermarks" in caught.value.location


@pytest.mark.row(30)
def test_a_generator_whose_memory_cannot_be_kept_is_refused(new_env):
    strategy = WatermarkStrategy.for_generator(Unkeepable).with_timestamp_column("ts")
    with pytest.raises(UnserialisableFunctionError, match="Unkeepable"):
        collect(new_env().from_source(Lists(shuffled()), strategy))


class IdleAtZero(WatermarkGenerator):
    """Follows the timestamps; a negative number says that nothing comes for long."""

    def on_event(self, event, timestamp, output):
        if event["n"] < 0:
            output.mark_idle()
        else:
            output.emit_watermark(timestamp)


@pytest.mark.row(36)
def test_a_split_that_its_generator_marks_idle_does_not_hold_back_the_others(new_env):
    moving = [{"k": "a", "ts": n, "n": n} for n in range(0, 100, 5)]
    stopped = [{"k": "b", "ts": 3, "n": 3}, {"k": "b", "ts": 4, "n": -1}, *[{"k": "b", "ts": 4, "n": -1}] * 30]
    strategy = WatermarkStrategy.for_generator(IdleAtZero).with_timestamp_column("ts")
    fired = collect(windows_of(new_env(max_records=4).from_source(Lists(moving, stopped), strategy)))
    in_time = [(key, start) for key, start, _, watermark in fired if watermark < 100]
    assert ("b", 0) in in_time
    assert [start for key, start in in_time if key == "a"] == list(range(0, 90, 10))


@pytest.mark.row(36)
def test_deterministic_order_refuses_a_split_that_is_marked_idle(make_env):
    strategy = WatermarkStrategy.for_generator(IdleAtZero).with_timestamp_column("ts")
    env = make_env("local", max_records=1)
    env.deterministic_order()
    with pytest.raises(DefinitionError, match="marked its split idle"):
        collect(env.from_source(Lists([{"k": "b", "ts": 4, "n": -1}] * 3), strategy))


class Stamps(ProcessFunction):
    """Emits a record's number, its timestamp, and the watermark it sees."""

    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


@pytest.mark.row(23)
def test_ingestion_time_stamps_are_monotone_and_the_watermark_follows(new_env):
    before = int(time.time() * 1000)
    env = new_env(max_records=6)
    stream = env.from_source(Lists(list(range(20)), list(range(100, 120))), WatermarkStrategy.for_ingestion_time())
    seen = collect(stream.process(Stamps()))
    after = int(time.time() * 1000)
    assert sorted(number for number, *_ in seen) == [*range(20), *range(100, 120)]
    for split in (range(20), range(100, 120)):
        stamps = [(number, stamp, watermark) for number, stamp, watermark in sorted(seen) if number in split]
        times = [stamp for _, stamp, _ in stamps]
        assert times == sorted(times) and before <= times[0] and times[-1] <= after
        assert all(watermark < stamp for _, stamp, watermark in stamps)
        assert all(watermark >= before - 1 for _, _, watermark in stamps)


@pytest.mark.row(23)
def test_ingestion_time_goes_on_through_a_restart_with_a_clock_set_back(make_env, tmp_path, monkeypatch):
    def declare(env, sink):
        stream = env.from_source(Lists(list(range(20))), WatermarkStrategy.for_ingestion_time())
        stream.process(Stamps()).sink_to(sink)

    def new_env():
        return make_env("local", max_records=5, checkpoint_dir=tmp_path)

    sink = CollectSink()
    assert not run(new_env(), sink, declare, stop_after=2)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert run(new_env(), sink, declare)
    stamps = [stamp for _, stamp, _ in sorted(sink.results)]
    assert len(stamps) == 20
    assert stamps == sorted(stamps)


@pytest.mark.row(23)
def test_windows_of_ingestion_time_close_by_themselves(new_env):
    """Nothing comes any more, but the source goes on: the clock alone lets the window fire."""
    numbers = new_env().generate(
        generator=lambda i: i, rate=50, splits=1, watermark=WatermarkStrategy.for_ingestion_time()
    )
    few = numbers.filter(lambda i: i < 3).key_by(lambda i: 0).window(tumbling("100ms"))
    fired = few.reduce(lambda a, b: a + b).execute_and_collect(limit=1)
    assert fired[0] in (0, 1, 3)


class Alert(KeyedProcessFunction):
    """Says by the clock that a key was seen, once."""

    def open(self, runtime_context):
        self.told = runtime_context.get_state(ValueStateDescriptor("told"))

    def process_element(self, value, ctx):
        if self.told.value() is None:
            self.told.update(True)
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + 1)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


HOUR = 3_600_000


@pytest.mark.row(24)
def test_one_job_counts_by_event_time_and_alerts_by_processing_time(new_env):
    before = int(time.time() * 1000)
    env, counts, alerts = new_env(max_records=30), CollectSink(), CollectSink()
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: i * HOUR // 10)
    numbers = env.generate(generator=lambda i: i, count=100, rate=500, splits=1, watermark=stamped)
    by_kind = numbers.map(lambda i: {"kind": i % 2, "n": i}).key_by("kind")
    by_kind.window(tumbling("1h")).agg(n=count()).sink_to(counts)
    by_kind.process(Alert()).sink_to(alerts)
    env.execute()
    after = int(time.time() * 1000)
    assert sorted((row.kind, row.window_start, row.n) for row in counts.results) == [
        (kind, hour * HOUR, 5) for kind in (0, 1) for hour in range(10)
    ]
    assert sorted(kind for kind, _ in alerts.results) == [0, 1]
    assert all(before <= at <= after + 1 for _, at in alerts.results)


EPISODES = [("IV", 1977), ("V", 1980), ("VI", 1983), ("I", 1999), ("II", 2002), ("III", 2005), ("VII", 2015)]
STORY = {name: number for number, name in enumerate(["I", "II", "III", "IV", "V", "VI", "VII"], 1)}


@pytest.mark.row(25)
def test_out_of_order_events_are_sorted_and_their_skew_is_shown(new_env):
    """The films came out in another order than their story is told in."""
    env, epochs, sink = new_env(max_records=2), Epochs(), CollectSink()
    env.add_listener(epochs)
    films = [{"k": "saga", "ts": STORY[name] * 1000, "n": name} for name, _ in EPISODES]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("6s").with_timestamp_column("ts")
    stream = env.from_source(Lists(films)).assign_timestamps_and_watermarks(strategy).uid("story")
    stream.key_by("k").window(tumbling("1s")).process(Contents()).sink_to(sink)
    env.execute()
    assert [values for _, _, values, _ in sink.results] == [["I"], ["II"], ["III"], ["IV"], ["V"], ["VI"], ["VII"]]
    assert epochs.counts("story", "event_time_skew_ms") == (STORY["VI"] - STORY["I"]) * 1000
    assert [time.skew for time in epochs.manifests[-1].lanes.values() if time.skew] == [5000]


def spread(sizes: list[int], seed: int = 9) -> list[dict]:
    """Records that come late by up to `sizes[i]` ms in the i-th part of the stream."""
    rng = random.Random(seed)
    return [
        {"k": "a", "ts": 10 * (part * 4000 + n) - rng.randrange(size), "n": 1}
        for part, size in enumerate(sizes)
        for n in range(4000)
    ]


class Believed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window().start, len(list(elements)), context.completeness(), context.current_watermark()


LEARNED = WatermarkStrategy.learned(0.99, half_life=500).with_timestamp_column("ts")


@pytest.mark.row(30)
def test_a_learned_bound_adapts_when_lateness_doubles(new_env):
    env, epochs, late = new_env(max_records=1111), Epochs(), CollectSink()
    env.add_listener(epochs)
    records = spread([1000, 2000])
    stream = env.from_source(Lists(records)).assign_timestamps_and_watermarks(LEARNED)
    windows = stream.key_by("k").window(tumbling("100ms")).side_output_late_data(LATE).process(Believed())
    sink = CollectSink()
    windows.sink_to(sink)
    windows.get_side_output(LATE).sink_to(late)
    env.execute()
    share = len(late.results) / len(records)
    assert 0 < share < 0.02
    # How far the watermark is behind the window's end when it fires tells the bound; the last ones fire at the end.
    delays = {start: watermark - start for start, _, _, watermark in sink.results if watermark < MAX_TIMESTAMP}
    lags = epochs.manifests
    first = [time.top - time.watermark for m in lags[1:3] for time in m.lanes.values() if time.memory]
    last = [time.top - time.watermark for time in lags[-2].lanes.values() if time.memory]
    assert all(900 <= lag <= 1100 for lag in first), first
    assert all(1800 <= lag <= 2200 for lag in last), last
    assert all(0.985 <= believed <= 1 for _, _, believed, watermark in sink.results if watermark < MAX_TIMESTAMP)
    assert {believed for *_, believed, watermark in sink.results if watermark == MAX_TIMESTAMP} == {1.0}
    assert len(delays) > 500


@pytest.mark.row(30)
def test_a_bound_that_may_not_grow_says_how_incomplete_results_are(new_env):
    strategy = WatermarkStrategy.learned(0.999, max_out_of_orderness=100).with_timestamp_column("ts")
    stream = new_env().from_source(Lists(spread([1000])), strategy)
    rows = collect(stream.key_by("k").window(tumbling("100ms")).process(Believed()))
    on_time = sum(size for _, size, *_ in rows) / 4000
    believed = [share for _, _, share, watermark in rows if watermark < MAX_TIMESTAMP]
    assert 0.1 < on_time < 0.4
    assert all(abs(share - on_time) < 0.15 for share in believed)


@pytest.mark.row(30)
def test_what_was_learned_does_not_depend_on_cuts_and_restarts(new_env, tmp_path):
    def declare(env, sink):
        stream = env.from_source(Lists(spread([300, 900])), LEARNED)
        stream.key_by("k").window(tumbling("100ms")).process(Believed()).sink_to(sink)

    whole = CollectSink()
    assert run(new_env(), whole, declare)
    cut = run_with_stops(lambda: new_env(max_records=977, checkpoint_dir=tmp_path), declare, [2, 1])
    assert sorted(cut) == sorted(whole.results)


@pytest.mark.row(97)
def test_between_reads_only_that_range_of_the_log(new_env):
    log = [{"k": "a", "ts": ts, "n": ts} for ts in range(0, 1000)]
    env, epochs, sink = new_env(max_records=50), Epochs(), CollectSink()
    env.add_listener(epochs)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5ms").with_timestamp_column("ts").between(100, 205)
    stream = env.from_source(Lists(log)).uid("log").assign_timestamps_and_watermarks(strategy).uid("range")
    windows_of(stream, "100ms").sink_to(sink)
    env.execute()
    assert [(start, values) for _, start, values, _ in sink.results] == [
        (100, list(range(100, 200))),
        (200, list(range(200, 205))),
    ]
    assert epochs.counts("log", "out") == 250
    assert epochs.counts("range", "outside") == 250 - 105


@pytest.mark.row(97)
def test_an_endless_source_ends_with_the_range(new_env):
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: i * 1000)
    numbers = new_env().generate(
        generator=lambda i: i, splits=2, watermark=stamped.between("1970-01-01T00:00:05", 9000)
    )
    assert sorted(collect(numbers)) == [5, 6, 7, 8]


@pytest.mark.row(97)
def test_the_end_of_a_range_does_not_depend_on_cuts_and_restarts(new_env, tmp_path):
    """Records that come after the watermark has passed the end are left out, whatever batch brings them."""
    rng = random.Random(4)
    log = [{"k": "a", "ts": 2 * n + rng.randrange(20), "n": n} for n in range(200)]

    def declare(env, sink):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness("6ms").with_timestamp_column("ts").between(50, 250)
        windows_of(env.from_source(Lists(log), strategy)).sink_to(sink)

    whole = CollectSink()
    assert run(new_env(), whole, declare)
    cut = run_with_stops(lambda: new_env(max_records=7, checkpoint_dir=tmp_path), declare, [9, 8])
    assert sorted(cut) == sorted(whole.results)


@pytest.mark.row(32)
@pytest.mark.parametrize("bound", ["20ms", "60ms", "500ms"])
def test_neither_speed_nor_batches_nor_parallelism_nor_a_later_watermark_change_results(new_env, bound):
    records = shuffled(120)
    outputs = set()
    for max_records, parallelism in [(0, 1), (7, 2), (40, 3)]:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound).with_timestamp_column("ts")
        stream = new_env(parallelism, max_records=max_records).from_source(Lists(records[::2], records[1::2]), strategy)
        results = collect(stream.key_by("k").window(tumbling("20ms")).agg(n=count(), total=sum_of("n")))
        outputs.add(str(sorted(tuple(row) for row in results)))
    expected = {}
    for record in records:
        key = record["k"], record["ts"] // 20 * 20
        n, total = expected.get(key, (0, 0))
        expected[key] = n + 1, total + record["n"]
    assert outputs == {str(sorted((k, start, start + 20, n, s) for (k, start), (n, s) in expected.items()))}


@pytest.mark.row(32)
def test_the_same_input_at_one_ten_and_a_hundred_times_the_speed(new_env):
    outputs = set()
    for rate in (200, 2000, 20_000):
        stamped = WatermarkStrategy.for_bounded_out_of_orderness("50ms").with_timestamp_assigner(
            lambda i, _: i * 10 - i * 7 % 5 * 10
        )
        numbers = new_env().generate(generator=lambda i: i, count=200, rate=rate, splits=2, watermark=stamped)
        results = collect(numbers.key_by(lambda i: i % 3).window(tumbling("100ms")).reduce(lambda a, b: a + b))
        outputs.add(str(sorted(results)))
    assert len(outputs) == 1


def timed_lists(*lengths: int) -> list[list[dict]]:
    """Splits with a record every 10 ms, over the same time but in different numbers of records."""
    return [[{"k": "ab"[number], "ts": n * 10, "n": n} for n in range(size)] for number, size in enumerate(lengths)]


ALIGNED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")


class Drift:
    """A listener that keeps how far apart the watermarks of two strategies are after each epoch."""

    def __init__(self) -> None:
        self.apart: list[int] = []

    def __call__(self, manifest: Any, reports: Any, seconds: float) -> None:
        tops = [time.top for time in manifest.lanes.values() if time.top > -(1 << 62) and not time.finished]
        if len(tops) == 2:
            self.apart.append(abs(tops[0] - tops[1]))


def two_sources(env: Any, strategy: WatermarkStrategy, fast: list[dict], slow: list[dict]) -> Any:
    left = env.from_source(Lists(fast)).assign_timestamps_and_watermarks(strategy)
    right = env.from_source(Lists(slow)).assign_timestamps_and_watermarks(strategy)
    return left.union(right)


@pytest.mark.row(36)
@pytest.mark.parametrize("aligned", [True, False])
def test_a_fast_source_waits_for_the_slow_one_of_its_group(new_env, aligned):
    """The slow source brings a record for each ms, the fast one for each 100 ms, and both as many per epoch."""
    fast = [{"k": "a", "ts": n * 100, "n": n} for n in range(50)]
    slow = [{"k": "b", "ts": n, "n": n} for n in range(400)]
    strategy = ALIGNED.with_watermark_alignment("g", "300ms") if aligned else ALIGNED
    env, drift = new_env(max_records=10), Drift()
    env.add_listener(drift)
    fired = collect(windows_of(two_sources(env, strategy, fast, slow), "1s"))
    assert sum(len(values) for _, _, values, _ in fired) == 450
    # An epoch brings five records: the fast source is at most that much beyond the drift.
    assert (max(drift.apart) <= 300 + 500 + 1) is aligned


@pytest.mark.row(36)
def test_alignment_does_not_wait_for_a_split_that_has_ended_or_is_idle(new_env):
    fast, none = timed_lists(200, 0)
    strategy = ALIGNED.with_watermark_alignment("g", "10ms").with_idleness("50ms")
    fired = collect(windows_of(two_sources(new_env(max_records=20), strategy, fast, none), "1s"))
    assert sum(len(values) for _, _, values, _ in fired) == 200


@pytest.mark.row(36)
def test_alignment_behind_an_exchange_is_refused(make_env):
    stream = make_env("local").from_source(Lists(*timed_lists(3))).rebalance()
    with pytest.raises(DefinitionError, match="cannot be aligned"):
        collect(stream.assign_timestamps_and_watermarks(ALIGNED.with_watermark_alignment("g", "1s")))


def test_timestamps_by_an_arrow_expression(new_env):
    records = [{"k": "a", "seconds": n, "more": n * 2, "n": n} for n in range(5)]
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    computed = strategy.with_timestamp_expression(pc.field("seconds") * 1000 + pc.field("more"))
    stream = new_env(max_records=2).from_source(Lists(records), computed)
    assert sorted((value["n"], at) for value, at, _ in collect(stream.process(Stamps()))) == [
        (n, n * 1002) for n in range(5)
    ]


def test_an_arrow_expression_over_a_missing_field_is_refused(new_env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_expression(pc.field("second") * 1000)
    with pytest.raises(DefinitionError, match=r"second.*test_rows_watermarks"):
        collect(new_env().from_source(Lists([{"seconds": 1}]), strategy))


def test_a_record_keeps_the_stamp_it_has(new_env):
    """A second strategy without an assigner goes on with the timestamps of the first."""
    first = WatermarkStrategy.no_watermarks().with_timestamp_column("ts")
    stream = new_env().from_source(Lists(timed_lists(3)[0]), first)
    later = stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    assert [(at, watermark) for _, at, watermark in collect(later.process(Stamps()))] == [
        (0, -(1 << 63)),
        (10, -1),
        (20, 9),
    ]


def example(name: str) -> Any:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.row(31)
def test_a_later_watermark_loses_less_and_takes_longer(new_env):
    eagerness = example("watermark_eagerness")
    measured = [eagerness.measure(new_env(), seconds) for seconds in eagerness.BOUNDS]
    shares, waits = zip(*measured, strict=True)
    assert shares[0] > 0.2 > shares[1] > 0.01 > shares[2] == 0
    assert [round(wait) for wait in waits] == [0, 5, 60]
