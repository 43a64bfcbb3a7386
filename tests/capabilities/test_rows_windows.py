"""Rows 26, 33 to 35, 38 to 46 and 53 to 55: order by event time, late records, windows of every kind."""

from __future__ import annotations

import logging
import random
import runpy
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    AggregateFunction,
    CalendarWindows,
    CollectSink,
    CountEvictor,
    DeltaEvictor,
    EventTimeTrigger,
    Evictor,
    MergingWindowAssigner,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SessionWindowTimeGapExtractor,
    TimeEvictor,
    ValueStateDescriptor,
    Window,
    WindowAssigner,
    bounded,
    calendar,
    count,
    monotonous,
    session,
    sliding,
    sum_of,
    tumbling,
)
from flintstream.errors import DefinitionError, InvalidArgumentError
from flintstream.model.time import to_timestamp_ms
from tests.capabilities.support import Epochs, Lists, collect, run_with_stops

MINUTE = 60_000
LATE = OutputTag("late")
EXAMPLES = Path(__file__).parents[2] / "examples"


class Numbers(ProcessWindowFunction):
    """Emits key, window and records."""

    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, [element["n"] for element in elements]


class Values(ProcessWindowFunction):
    """Emits key and records, for windows without borders."""

    def process(self, key, context, elements):
        yield key, [element["n"] for element in elements]


class ValuesOfAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield [element["n"] for element in elements]


def of(*pairs: tuple[int, int], key: str = "a") -> list[dict[str, Any]]:
    """Return records of (timestamp, number)."""
    return [{"id": key, "ts": ts, "n": n} for ts, n in pairs]


def timed(env: Any, records: list[Any], bound: str = "0ms") -> Any:
    return env.from_source(Lists(records), watermark=bounded(bound, on="ts"))


def shuffled(seed: int = 3) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"id": rng.choice("abc"), "ts": at // 3 + rng.randrange(20), "n": at} for at in range(120)]


def by_time(records: list[Any]) -> list[int]:
    """Return the numbers in the order of time; those of one moment as they came."""
    return [record["n"] for record in sorted(records, key=lambda record: record["ts"])]


@pytest.mark.row(26)
def test_a_shuffled_input_is_sorted_per_key_across_restarts(new_env, tmp_path):
    def declare(env, sink):
        timed(env, shuffled(), "20ms").key_by("id").sort_by_event_time().uid("sort").sink_to(sink)

    def fresh():
        return new_env(max_records=50, checkpoint_dir=tmp_path)

    results = run_with_stops(fresh, declare, [1])
    assert len(results) == 120
    for key in "abc":
        assert [r["n"] for r in results if r["id"] == key] == by_time([r for r in shuffled() if r["id"] == key])


@pytest.mark.row(26)
def test_a_whole_stream_is_sorted_in_one_instance_and_nothing_passed_waits(new_env):
    env, main, late, epochs = new_env(max_records=40), CollectSink(), CollectSink(), Epochs()
    env.add_listener(epochs)
    stream = timed(env, shuffled(), "5ms").sort_by_event_time(late=LATE).uid("sort")
    stream.sink_to(main)
    stream.get_side_output(LATE).sink_to(late)
    env.execute()
    stamps = [record["ts"] for record in main.results]
    assert stamps == sorted(stamps)
    assert late.results and epochs.counts("sort", "late") == len(late.results)
    assert sorted(r["n"] for r in main.results + late.results) == list(range(120))
    # What an epoch leaves behind is later than its watermark.
    read: list[dict[str, Any]] = []
    for manifest in epochs.manifests:
        read = shuffled()[: sum(manifest.positions[uid][0] for uid in manifest.positions)]
        newest = max(record["ts"] for record in read)
        waiting = manifest.entries.get("sort", 0)
        later = sum(record["ts"] > newest - 6 for record in read)
        assert waiting == (0 if manifest.finished else later)


@pytest.mark.row(25, 26)
def test_the_films_come_in_the_order_of_their_story(env):
    films = collect(runpy.run_path(str(EXAMPLES / "star_wars.py"))["in_order"](env))
    assert [film["episode"] for film in films] == [1, 2, 3, 4, 5, 6, 7]


LATE_INPUT = of((1, 1), (12, 2), (25, 3), (11, 4), (3, 5), (26, 6))


def windows_of(env: Any, how: Any, columns: bool) -> Any:
    windows = timed(env, LATE_INPUT).key_by("id").window(tumbling("10ms")).late(how)
    return (windows.agg(n=count()) if columns else windows.process(Numbers())).uid("windows")


@pytest.mark.row(33)
@pytest.mark.parametrize("columns", [False, True])
def test_late_records_are_dropped_with_a_count(new_env, caplog, columns):
    env, epochs = new_env(max_records=2), Epochs()
    env.add_listener(epochs)
    sink = CollectSink()
    windows_of(env, "drop", columns).sink_to(sink)
    with caplog.at_level(logging.INFO, "flintstream"):
        result = env.execute()
    assert len(sink.results) == 3
    assert epochs.counts("windows", "late") == result.get_accumulator_result("windows")["late"] == 2
    assert "2 late records in 'windows'" in str(result)
    assert [r.getMessage().partition(" (")[0] for r in caplog.records] == ["'windows'"]
    assert caplog.records[0].getMessage().endswith("dropped 2 late records")


@pytest.mark.row(33)
@pytest.mark.parametrize("columns", [False, True])
def test_late_records_are_logged_with_key_stamp_watermark_and_window(new_env, caplog, columns):
    env = new_env(max_records=2)
    windows_of(env, "log", columns).sink_to(CollectSink())
    with caplog.at_level(logging.WARNING, "flintstream"):
        env.execute()
    told = [r.getMessage().partition("): ")[2] for r in caplog.records if r.getMessage().startswith("late record in")]
    assert told == [
        f"key 'a', timestamp {ts}, watermark 24, window TimeWindow(start={start}, end={start + 10}):"
        f" {{'id': 'a', 'ts': {ts}, 'n': {n}}}"
        for ts, n, start in ((11, 4, 10), (3, 5, 0))
    ]
    assert all("'windows' (test_rows_windows.py:" in record.getMessage() for record in caplog.records)


@pytest.mark.row(33)
def test_what_cannot_be_late_takes_no_word_about_it(env):
    keyed = timed(env, LATE_INPUT).key_by("id")
    with pytest.raises(DefinitionError, match=r"not of event time.*leave late\(\.\.\.\) out"):
        keyed.count_window(2).late("log")
    with pytest.raises(InvalidArgumentError, match=r'treated by .shout.; test_rows_windows\.py:\d+; use "drop", "log"'):
        keyed.window(tumbling("10ms")).late("shout")


@pytest.mark.row(34)
@pytest.mark.parametrize("columns", [False, True])
def test_on_time_and_late_together_are_the_input(new_env, columns):
    env, main, late = new_env(max_records=2), CollectSink(), CollectSink()
    windows = windows_of(env, LATE, columns)
    windows.sink_to(main)
    windows.get_side_output(LATE).sink_to(late)
    env.execute()
    assert late.results == of((11, 4), (3, 5))
    assert len(late.results) + sum(row.n if columns else len(row[3]) for row in main.results) == len(LATE_INPUT)


@pytest.mark.row(35)
def test_a_late_record_corrects_a_result_that_was_given_and_later_goes_to_the_side_output(new_env):
    records = of((1, 1), (2, 2), (3, 3), (15, 0), (4, 4), (40, 0), (5, 5))
    env, main, late = new_env(max_records=2), CollectSink(), CollectSink()
    windows = timed(env, records).key_by("id").window(tumbling("10ms")).allowed_lateness("10ms").late(LATE)
    sizes = windows.process(Numbers())
    sizes.sink_to(main)
    sizes.get_side_output(LATE).sink_to(late)
    env.execute()
    assert [len(numbers) for _, start, _, numbers in main.results if start == 0] == [3, 4]
    assert [record["n"] for record in late.results] == [5]


ROAD = of(*zip(range(0, 120_000, 15_000), [9, 6, 8, 4, 7, 3, 8, 4], strict=True))


def plus(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {**x, "n": x["n"] + y["n"]}


@pytest.mark.row(38)
def test_sums_of_tumbling_windows(env):
    windows = timed(env, ROAD).key_by("id").window(tumbling("1min"))
    assert [record["n"] for record in collect(windows.reduce(plus))] == [27, 22]


@pytest.mark.row(38)
@pytest.mark.parametrize(("offset", "expected"), [("15s", [9, 25, 15]), ("-15s", [23, 22, 4])])
def test_an_offset_shifts_the_windows(new_env, offset, expected):
    windows = timed(new_env(), ROAD).key_by("id").window(tumbling("1min", offset))
    assert [record["n"] for record in collect(windows.reduce(plus))] == expected


@pytest.mark.row(39)
def test_sums_of_sliding_windows(env):
    windows = timed(env, ROAD).key_by("id").window(sliding("1min", "30s"))
    assert [record["n"] for record in collect(windows.reduce(plus))] == [15, 27, 22, 22, 12]


def coloured() -> list[dict[str, Any]]:
    return [{"id": colour, "ts": n, "n": n} for n, colour in enumerate(["red", "red", "blue", "red", "blue", "red"])]


@pytest.mark.row(40)
def test_count_windows_fire_per_key_and_leave_no_contents_behind(new_env):
    env, epochs, sink = new_env(max_records=4), Epochs(), CollectSink()
    env.add_listener(epochs)
    timed(env, coloured()).key_by("id").count_window(2).process(Values()).uid("windows").sink_to(sink)
    env.execute()
    assert sorted(sink.results) == [("blue", [2, 4]), ("red", [0, 1]), ("red", [3, 5])]
    # The number of records of each key is all that stays.
    assert epochs.manifests[-1].entries["windows"] == 2


@pytest.mark.row(40)
def test_count_windows_of_the_whole_stream(new_env):
    numbers = timed(new_env(max_records=3), of(*((n, n) for n in range(8))))
    assert collect(numbers.count_window_all(4).process(ValuesOfAll())) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    numbers = timed(new_env(max_records=3), of(*((n, n) for n in range(8))))
    assert collect(numbers.count_window_all(4, 2).process(ValuesOfAll())) == [
        [0, 1, 2, 3],
        [2, 3, 4, 5],
        [4, 5, 6, 7],
    ]


@pytest.mark.row(41)
@pytest.mark.parametrize(
    ("slide", "expected"),
    [(2, [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]), (3, [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]])],
)
def test_sliding_count_windows_fire_on_the_right_elements(new_env, slide, expected):
    numbers = timed(new_env(max_records=4), of(*((n, n) for n in range(10)))).key_by("id")
    assert [values for _, values in collect(numbers.count_window(4, slide).process(Values()))] == expected


@pytest.mark.row(42)
def test_two_sessions_become_one_when_a_bridging_event_comes(new_env):
    apart = [("u", 0, 1), ("u", 6 * MINUTE, 2), ("v", 3 * MINUTE, 3)]
    for bridged in (False, True):
        events = [*apart, ("u", 3 * MINUTE, 4)] if bridged else apart
        stream = timed(new_env(max_records=2), [{"id": i, "ts": ts, "n": n} for i, ts, n in events], "10min")
        found = collect(stream.key_by("id").window(session("5min")).process(Numbers()))
        others = [("v", 3 * MINUTE, 8 * MINUTE, [3])]
        one = [("u", 0, 11 * MINUTE, [1, 2, 4])]
        two = [("u", 0, 5 * MINUTE, [1]), ("u", 6 * MINUTE, 11 * MINUTE, [2])]
        assert sorted(found) == [*(one if bridged else two), *others]


class GapOfRecord(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element["n"]


@pytest.mark.row(42)
@pytest.mark.parametrize("extractor", [GapOfRecord(), lambda record: record["n"]])
def test_a_session_may_wait_as_long_as_each_record_says(env, extractor):
    records = of((0, 10), (9, 2), (12, 3), (15, 1))
    found = collect(timed(env, records, "20ms").key_by("id").window(session(extractor)).process(Numbers()))
    assert found == [("a", 0, 11, [10, 2]), ("a", 12, 16, [3, 1])]


@pytest.mark.row(43)
def test_windows_of_all_and_windows_per_key_agree(new_env):
    def totals(windows: Any) -> list[int]:
        return sorted(record["n"] for record in collect(windows.reduce(plus)))

    whole = totals(timed(new_env(), shuffled(), "20ms").window_all(tumbling("20ms")))
    keyed = timed(new_env(), shuffled(), "20ms").key_by("id").window(tumbling("20ms"))
    by_window: Counter[int] = Counter()
    for key, start, _, numbers in collect(keyed.process(Numbers())):
        assert key in "abc"
        by_window[start] += sum(numbers)
    assert whole == sorted(by_window.values())
    assert len(whole) == 3


SPEEDS = [("car", 50), ("car", 58), ("bus", 30), ("car", 61), ("car", 70), ("bus", 41), ("car", 49)]


@pytest.mark.row(44)
def test_a_window_closes_when_a_value_has_changed_enough(new_env):
    env, epochs, sink = new_env(max_records=3), Epochs(), CollectSink()
    env.add_listener(epochs)
    records = [{"id": i, "ts": at, "n": speed} for at, (i, speed) in enumerate(SPEEDS)]
    timed(env, records).key_by("id").delta_window("n", 10).process(Values()).uid("windows").sink_to(sink)
    env.execute()
    assert [values for key, values in sink.results if key == "car"] == [[50, 58], [61, 70], [49]]
    assert [values for key, values in sink.results if key == "bus"] == [[30], [41]]
    assert epochs.manifests[-1].entries.get("windows", 0) == 0


@pytest.mark.row(44)
def test_a_window_closes_with_a_record_of_a_kind_and_is_gone(new_env):
    env, epochs, sink = new_env(max_records=3), Epochs(), CollectSink()
    env.add_listener(epochs)
    kinds = ["login", "view", "logout", "login", "logout"]
    visits = [{"id": "u", "ts": at, "n": kind} for at, kind in enumerate(kinds)]
    keyed = timed(env, visits).key_by("id")
    keyed.window_until(lambda r: r["n"] == "logout").process(Values()).uid("windows").sink_to(sink)
    env.execute()
    assert [values for _, values in sink.results] == [["login", "view", "logout"], ["login", "logout"]]
    assert [manifest.entries.get("windows", 0) > 0 for manifest in epochs.manifests] == [False, False]


class Evaluation(ProcessWindowFunction):
    """Emits all that a window function can know, and counts by window and by key."""

    def process(self, key, context, elements):
        window = context.window()
        fired = context.window_state().get_state(ValueStateDescriptor("fired"))
        fired.update((fired.value() or 0) + 1)
        total = context.global_state().get_state(ValueStateDescriptor("total"))
        total.update((total.value() or 0) + 1)
        numbers = [element["n"] if isinstance(element, dict) else element for element in elements]
        yield key, window.start, window.end, context.current_watermark(), numbers, fired.value(), total.value()

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("fired")).clear()


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value["n"], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


TO_EVALUATE = of((1, 10), (4, 20), (12, 30), (5, 60), (40, 0))


@pytest.mark.row(45)
def test_a_process_function_sees_key_window_watermark_elements_and_both_kinds_of_state(new_env):
    windows = timed(new_env(max_records=2), TO_EVALUATE).key_by("id").window(tumbling("10ms"))
    end = 2**63 - 1
    assert collect(windows.allowed_lateness("5ms").process(Evaluation())) == [
        ("a", 0, 10, 11, [10, 20], 1, 1),
        ("a", 0, 10, 11, [10, 20, 60], 2, 2),
        ("a", 10, 20, 39, [30], 1, 3),
        ("a", 40, 50, end, [0], 1, 4),
    ]


@pytest.mark.row(45)
def test_an_aggregate_and_a_process_function_work_together(env):
    windows = timed(env, TO_EVALUATE).key_by("id").window(tumbling("10ms"))
    found = collect(windows.aggregate(Mean(), Evaluation()))
    assert [(start, values) for _, start, _, _, values, _, _ in found] == [(0, [15.0]), (10, [30.0]), (40, [0.0])]


class Distinct(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return accumulator if value["user"] in accumulator else [*accumulator, value["user"]]

    def get_result(self, accumulator):
        return len(accumulator)

    def merge(self, acc_a, acc_b):
        return [*acc_a, *(user for user in acc_b if user not in acc_a)]


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, next(iter(elements))


@pytest.mark.row(46)
def test_distinct_users_per_country_and_hour(new_env):
    rng = random.Random(8)
    visits = [
        {"country": rng.choice(["de", "fr"]), "user": rng.randrange(9), "ts": rng.randrange(180 * MINUTE)}
        for _ in range(200)
    ]
    seen: dict[tuple[str, int], set[int]] = {}
    for visit in visits:
        seen.setdefault((visit["country"], visit["ts"] // 3_600_000 * 3_600_000), set()).add(visit["user"])
    stream = timed(new_env(max_records=60), visits, "3h").key_by("country").window(tumbling("1h"))
    found = collect(stream.aggregate(Distinct(), WithWindow()))
    assert sorted(found) == sorted((country, hour, len(users)) for (country, hour), users in seen.items())


def hourly(stream: Any, assigner: Any) -> Any:
    """The program of which only the windows change."""
    return stream.key_by("id").window(assigner).aggregate(Mean(), WithWindow())


@pytest.mark.row(53)
@pytest.mark.parametrize(("interval", "max_records"), [(None, 1), (20, 5), (100, 7), (1000, 0), (60_000, 0)])
def test_windows_do_not_depend_on_checkpoints_or_batches(make_env, interval, max_records):
    env = make_env("local", max_records=max_records)
    records = shuffled()[:12]
    if interval is not None:
        env.enable_checkpointing(interval)
    found = collect(hourly(timed(env, records, "20ms"), session("4ms")))
    assert sorted(found) == sorted(collect(hourly(timed(make_env("local"), records, "20ms"), session("4ms"))))


@pytest.mark.row(53)
@pytest.mark.spark
def test_windows_do_not_depend_on_checkpoints_or_batches_on_spark(make_env):
    expected = sorted(collect(hourly(timed(make_env("local"), shuffled(), "20ms"), tumbling("10ms"))))
    for interval, max_records in ((100, 50), (1000, 120)):
        env = make_env("spark", max_records=max_records)
        env.enable_checkpointing(interval)
        assert sorted(collect(hourly(timed(env, shuffled(), "20ms"), tumbling("10ms")))) == expected


@pytest.mark.row(54)
def test_other_windows_are_another_line(new_env):
    records = of((0, 1), (20 * MINUTE, 3), (40 * MINUTE, 5), (90 * MINUTE, 7))
    results = {}
    for name, assigner in {"1h": tumbling("1h"), "30min": tumbling("30min"), "sessions": session("25min")}.items():
        results[name] = collect(hourly(timed(new_env(), records), assigner))
    assert results == {
        "1h": [("a", 0, 3.0), ("a", 60 * MINUTE, 7.0)],
        "30min": [("a", 0, 2.0), ("a", 30 * MINUTE, 5.0), ("a", 90 * MINUTE, 7.0)],
        "sessions": [("a", 0, 3.0), ("a", 90 * MINUTE, 7.0)],
    }


@pytest.mark.row(55)
@pytest.mark.parametrize("max_records", [1, 13, 100_000])
def test_batching_is_a_knob_of_performance_only(make_env, max_records):
    expected = collect(hourly(timed(make_env("local"), shuffled(), "5ms"), sliding("20ms", "5ms")))
    found = collect(
        hourly(timed(make_env("local", max_records=max_records), shuffled(), "5ms"), sliding("20ms", "5ms"))
    )
    assert found == expected


@pytest.mark.row(55)
@pytest.mark.spark
def test_batching_is_a_knob_of_performance_only_on_spark(make_env):
    def program(env: Any) -> Any:
        return hourly(timed(env, shuffled(), "5ms"), sliding("20ms", "5ms"))

    expected = collect(program(make_env("local")))
    for max_records in (45, 100_000):
        assert collect(program(make_env("spark", max_records=max_records))) == expected


class KeepEven(Evictor):
    """Lets the function see even numbers only, and the window keep those below 10 only."""

    def evict_before(self, elements, size, window, evictor_context):
        elements[:] = [element for element in elements if element.get_value()["n"] % 2 == 0]

    def evict_after(self, elements, size, window, evictor_context):
        elements[:] = [element for element in elements if element.get_value()["n"] < 10]


EVICTORS = {
    "count": (CountEvictor.of(2), [[4, 12], [12, 3]]),
    "count after": (CountEvictor.of(1, do_evict_after=True), [[2, 4, 12], [12, 3]]),
    "time": (TimeEvictor.of("2ms"), [[4, 12], [12, 3]]),
    "delta": (DeltaEvictor.of(9, lambda old, new: abs(old["n"] - new["n"])), [[4, 12], [4, 3]]),
    "user": (KeepEven(), [[2, 4, 12], [2, 4]]),
}


@pytest.mark.row(45)
@pytest.mark.parametrize("name", EVICTORS)
def test_evictors_before_and_after_the_function(new_env, name):
    evictor, expected = EVICTORS[name]
    records = of((1, 2), (2, 4), (3, 12), (15, 0), (4, 3))
    windows = timed(new_env(max_records=2), records).key_by("id").window(tumbling("10ms")).allowed_lateness("20ms")
    found = collect(windows.evictor(evictor).process(Numbers()))
    assert [numbers for _, start, _, numbers in found if start == 0] == expected


@dataclass(frozen=True)
class Journey(Window):
    """A window of the user's own: the time from one station to another on one line."""

    line: str
    start: int
    end: int

    def max_timestamp(self) -> int:
        return self.end - 1


class Journeys(MergingWindowAssigner):
    """Merges journeys of one line that overlap."""

    def assign_windows(self, element, timestamp, context):
        return [Journey(element["line"], timestamp, timestamp + 10)]

    def merge_windows(self, windows, callback):
        for line in sorted({window.line for window in windows}):
            mine = sorted((window for window in windows if window.line == line), key=lambda window: window.start)
            group = mine[:1]
            for window in mine[1:]:
                if window.start > max(each.end for each in group):
                    self._report(group, callback)
                    group = []
                group.append(window)
            self._report(group, callback)

    @staticmethod
    def _report(group, callback):
        if len(group) > 1:
            first = group[0]
            callback.merge(group, Journey(first.line, first.start, max(window.end for window in group)))

    def get_default_trigger(self, env=None):
        return EventTimeTrigger()

    def is_event_time(self):
        return True


class ByParity(WindowAssigner):
    """Puts a record into a window of ten for its parity, and odd ones into none every other ten."""

    def assign_windows(self, element, timestamp, context):
        start = timestamp // 10 * 10
        if element["n"] % 2 and start % 20:
            return []
        return [Journey("odd" if element["n"] % 2 else "even", start, start + 10)]

    def get_default_trigger(self, env=None):
        return EventTimeTrigger()

    def is_event_time(self):
        return True


class Travelled(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield window.line, window.start, window.end, sorted(element["n"] for element in elements)


@pytest.mark.row(42)
def test_merging_windows_of_the_users_own(new_env):
    seen = [("u", 0, 1), ("s", 4, 2), ("u", 15, 3), ("u", 8, 4), ("s", 30, 5)]
    records = [{"id": "a", "line": line, "ts": ts, "n": n} for line, ts, n in seen]
    found = collect(timed(new_env(max_records=2), records, "10ms").key_by("id").window(Journeys()).process(Travelled()))
    assert sorted(found) == [("s", 4, 14, [2]), ("s", 30, 40, [5]), ("u", 0, 25, [1, 3, 4])]


@pytest.mark.row(43)
def test_windows_of_the_users_own_and_records_that_belong_to_none(new_env):
    env, epochs, sink = new_env(max_records=2), Epochs(), CollectSink()
    env.add_listener(epochs)
    records = of(*((n * 5, n) for n in range(8)))
    timed(env, records).key_by("id").window(ByParity()).process(Travelled()).uid("windows").sink_to(sink)
    env.execute()
    assert sorted(sink.results) == [
        ("even", 0, 10, [0]),
        ("even", 10, 20, [2]),
        ("even", 20, 30, [4]),
        ("even", 30, 40, [6]),
        ("odd", 0, 10, [1]),
        ("odd", 20, 30, [5]),
    ]
    assert epochs.counts("windows", "dropped") == 2
    assert epochs.counts("windows", "late") == 0


@pytest.mark.row(38)
def test_a_day_of_25_hours_is_one_window(new_env):
    midnight = to_timestamp_ms("2026-10-24T22:00Z")
    hours = of(*((midnight + hour * 60 * MINUTE, 1) for hour in range(-1, 27)))
    stream = new_env().from_source(Lists(hours), watermark=monotonous(on="ts"))
    days = collect(stream.key_by("id").window(calendar("day", "Europe/Berlin")).reduce(plus))
    assert [record["n"] for record in days] == [1, 25, 2]
    stream = new_env().from_source(Lists(hours), watermark=monotonous(on="ts"))
    weeks = stream.window_all(CalendarWindows.weeks("Europe/Berlin")).reduce(plus)
    assert [record["n"] for record in collect(weeks)] == [26, 2]


@pytest.mark.row(38)
def test_columns_give_the_sums_that_records_do(env):
    rows = collect(timed(env, ROAD).key_by("id").window(tumbling("1min")).agg(total=sum_of("n")))
    assert [row.total for row in rows] == [27, 22]
