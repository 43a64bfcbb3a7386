"""Rows 61 and 107: patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pytest

from flintstream import CollectSink, OutputTag, RuntimeExecutionMode, bounded
from flintstream.cep import (
    CEP,
    AfterMatchSkipStrategy,
    IterativeCondition,
    Pattern,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    SimpleCondition,
    TimedOutPartialMatchHandler,
    WithinType,
)
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, UnknownTagError
from tests.capabilities.support import Epochs, Lists, StopAfter, StoppedOnPurpose, collect

MINUTE = 60_000
PREVIOUS = WithinType.PREVIOUS_AND_CURRENT
SIDE, LATE, MISSES = OutputTag("side"), OutputTag("late"), OutputTag("misses")


def readings(*rows: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"id": key, "ts": ts, "kind": kind} for key, ts, kind in rows]


def kind(wanted: str) -> Any:
    return lambda record: record["kind"] == wanted


def stream_of(env: Any, rows: list[Any], bound: int = 0) -> Any:
    return env.from_source(Lists(rows), bounded(bound, on="ts"))


def pair() -> Pattern:
    return Pattern.begin("a").where(kind("a")).followed_by("b").where(kind("b")).within("10ms")


def times(match: Any) -> list[int]:
    return [record["ts"] for records in match.values() for record in records]


FIRE = [
    ("hall", 0, "hot"),
    ("attic", 1 * MINUTE, "hot"),
    ("hall", 8 * MINUTE, "smoke"),
    ("attic", 11 * MINUTE, "smoke"),
    ("cellar", 12 * MINUTE, "smoke"),
]


@pytest.mark.row(61)
def test_smoke_within_ten_minutes_of_heat_is_an_alarm_and_leaves_no_state(new_env):
    env = new_env(max_records=2)
    pattern = Pattern.begin("hot").where(kind("hot")).followed_by("smoke").where(kind("smoke")).within("10min")
    alarms = CEP.pattern(stream_of(env, readings(*FIRE)).key_by("id"), pattern)
    alarms = alarms.select(lambda m: (m["hot"][0]["id"], m["smoke"][0]["ts"] // MINUTE)).uid("alarms")
    epochs = Epochs()
    env.add_listener(epochs)
    assert collect(alarms) == [("hall", 8)]
    entries = [manifest.entries.get("alarms", 0) for manifest in epochs.manifests]
    assert max(entries) > 0 and entries[-1] == 0


@pytest.mark.row(107)
def test_readings_that_differ_by_more_than_20_degrees_within_a_minute(new_env):
    rows = [("a", 0, 20), ("b", 5_000, 70), ("a", 30_000, 35), ("a", 59_999, 41), ("a", 70_000, 61), ("a", 131_000, 95)]
    records = [{"id": key, "ts": ts, "t": t} for key, ts, t in rows]

    def jumps(record, ctx):
        return abs(record["t"] - ctx.get_events_for_pattern("first")[0]["t"]) > 20

    pattern = Pattern.begin("first").followed_by("second").where(jumps).within("1min")
    matches = CEP.pattern(stream_of(new_env(max_records=2), records).key_by("id"), pattern)
    found = collect(matches.select(lambda m: (m["first"][0]["ts"], m["second"][0]["ts"])))
    assert found == [(0, 59_999), (30_000, 70_000)]


@pytest.mark.row(107)
def test_next_times_optional_and_not(new_env):
    rows = readings(*(("k", ts, letter) for ts, letter in enumerate("abbcabxcaac")))
    pattern = Pattern.begin("a").where(kind("a")).next("b").where(kind("b")).times(1, 2).optional()
    pattern = pattern.next("c").where(kind("c"))
    stream = stream_of(new_env(max_records=3), rows).key_by("id")
    assert collect(CEP.pattern(stream, pattern).select(times)) == [[0, 1, 2, 3], [9, 10]]
    pattern = (
        Pattern.begin("a").where(kind("a")).not_followed_by("x").where(kind("x")).followed_by("c").where(kind("c"))
    )
    stream = stream_of(new_env(max_records=3), rows).key_by("id")
    assert collect(CEP.pattern(stream, pattern).select(times)) == [[0, 3], [8, 10], [9, 10]]


class OneSelect(PatternSelectFunction):
    def select(self, match):
        return times(match)


class EachTime(PatternFlatSelectFunction):
    def flat_select(self, match):
        yield from times(match)


class OneTimeout(PatternTimeoutFunction):
    def timeout(self, match, timeout_timestamp):
        return times(match), timeout_timestamp


class EachTimeout(PatternFlatTimeoutFunction):
    def timeout(self, match, timeout_timestamp):
        return [timeout_timestamp] * 2


class Tell(PatternProcessFunction, TimedOutPartialMatchHandler):
    def open(self, runtime_context):
        self.word = f"of {runtime_context.get_task_name()}"

    def process_match(self, match, ctx):
        yield self.word, times(match), ctx.timestamp(), ctx.current_processing_time() > 0

    def process_timed_out_match(self, match, ctx):
        yield SIDE, (times(match), ctx.timestamp())


TIMED = readings(("k", 1, "a"), ("k", 4, "b"), ("k", 6, "a"), ("k", 30, "b"))


def with_side(env: Any, stream: Any) -> tuple[list[Any], list[Any]]:
    main, side = CollectSink(), CollectSink()
    stream.sink_to(main)
    stream.get_side_output(SIDE).sink_to(side)
    env.execute("patterns")
    return main.results, side.results


def test_select_and_what_timed_out(new_env):
    for function, timeout in [(OneSelect(), OneTimeout()), (times, lambda match, time: (times(match), time))]:
        env = new_env(max_records=1)
        matches = CEP.pattern(stream_of(env, TIMED).key_by("id"), pair())
        named = {"timed_out_partial_matches_tag": SIDE, "pattern_timeout_function": timeout}
        assert with_side(env, matches.select(function, **named)) == ([[1, 4]], [([6], 16)])


def test_flat_select_and_what_timed_out(new_env):
    for function, timeout in [(EachTime(), EachTimeout()), (times, lambda match, time: [time, time])]:
        env = new_env()
        matches = CEP.pattern(stream_of(env, TIMED).key_by("id"), pair())
        named = {"timed_out_partial_matches_tag": SIDE, "pattern_flat_timeout_function": timeout}
        assert with_side(env, matches.flat_select(function, **named)) == ([1, 4], [16, 16])


def test_a_process_function_gets_matches_and_what_timed_out(new_env):
    env = new_env(max_records=1)
    matches = CEP.pattern(stream_of(env, TIMED).key_by("id"), pair()).process(Tell())
    assert with_side(env, matches) == ([("of Pattern", [1, 4], 4, True)], [([6], 16)])


def test_records_are_taken_by_time_and_late_ones_go_aside(new_env):
    rows = readings(("k", 5, "b"), ("k", 1, "a"), ("k", 20, "x"), ("k", 3, "b"), ("k", 21, "x"))
    env = new_env(max_records=1)
    epochs = Epochs()
    env.add_listener(epochs)
    matches = CEP.pattern(stream_of(env, rows, bound=5).key_by("id"), pair()).side_output_late_data(SIDE)
    main, side = with_side(env, matches.select(times).uid("p"))
    assert (main, [record["ts"] for record in side]) == ([[1, 5]], [3])
    assert epochs.counts("p", "late") == 1


def test_near_misses_go_to_a_side_output(new_env):
    rows = readings(("k", 1, "a"), ("k", 2, "x"), ("k", 3, "a"), ("k", 4, "b"), ("k", 5, "a"))
    env = new_env(max_records=2)
    pattern = Pattern.begin("a").where(kind("a")).next("b").where(kind("b")).within("10ms")
    matches = CEP.pattern(stream_of(env, rows).key_by("id"), pattern).near_misses(SIDE)
    main, misses = with_side(env, matches.select(times))
    assert main == [[3, 4]]
    told = [(times(miss.match), miss.pattern, miss.reason, miss.event and miss.event["ts"]) for miss in misses]
    assert told == [([1], "b", "condition", 2), ([5], "b", "timeout", None)]


def test_without_keys_one_instance_sees_all(new_env):
    rows = readings(("x", 1, "a"), ("y", 2, "b"))
    assert collect(CEP.pattern(stream_of(new_env(), rows), pair()).select(times)) == [[1, 2]]


def test_by_the_clock_records_are_taken_as_they_come(new_env):
    rows = readings(("k", 5, "a"), ("k", 1, "b"), ("k", 9, "c"))
    pattern = Pattern.begin("a").where(kind("a")).next("b").where(kind("b")).within("1h")
    stream = new_env(max_records=1).from_collection(rows).key_by("id")
    assert collect(CEP.pattern(stream, pattern).in_processing_time().select(times)) == [[5, 1]]
    stream = stream_of(new_env(max_records=1), rows, bound=9).key_by("id")
    assert collect(CEP.pattern(stream, pattern).in_processing_time().in_event_time().select(times)) == []


@pytest.mark.parametrize("epochs", [1, 3, 5])
def test_partial_matches_survive_a_restart(new_env, tmp_path, epochs):
    rows = readings(*((key, ts, letter) for ts, letter in enumerate("aabbcc") for key in "xyz"))
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_to_next()).where(kind("a")).one_or_more()
    pattern = pattern.followed_by("b").where(kind("b")).followed_by("c").where(kind("c")).within("100ms")
    sink = CollectSink()
    for stop in (epochs, None):
        env = new_env(max_records=3, checkpoint_dir=tmp_path)
        matches = CEP.pattern(stream_of(env, rows).uid("s").key_by("id"), pattern)
        matches.select(lambda m: (m["a"][0]["id"], times(m))).uid("p").sink_to(sink)
        if stop is not None:
            env.add_listener(StopAfter(stop))
        try:
            env.execute("restarted")
        except StoppedOnPurpose:
            continue
    assert sorted(sink.results) == [(key, found) for key in "xyz" for found in ([0, 1, 2, 4], [1, 2, 4])]


@dataclass(frozen=True)
class Alarm:
    level: int


class Loud(SimpleCondition):
    def filter(self, value):
        return value.level > 5


class Louder(IterativeCondition):
    def open(self, runtime_context):
        self.by = 2

    def filter(self, value, ctx):
        return value.level >= ctx.get_events_for_pattern("loud")[-1].level + self.by and ctx.timestamp() > 0


def test_conditions_may_be_objects_and_ask_for_a_class(new_env):
    rows = [Alarm(7), "noise", Alarm(8), Alarm(9)]
    stream = new_env().from_collection(rows)
    pattern = Pattern.begin("loud").subtype(Alarm).where(Loud()).followed_by("louder").subtype(Alarm).where(Louder())
    found = (
        CEP.pattern(stream, pattern).in_processing_time().select(lambda m: (m["loud"][0].level, m["louder"][0].level))
    )
    assert collect(found) == [(7, 9)]
    either = Pattern.begin("any").where(lambda value: value == "noise").or_(lambda value: value == Alarm(9))
    stream = new_env().from_collection(rows)
    assert collect(CEP.pattern(stream, either).in_processing_time().select(lambda m: str(m["any"][0]))) == [
        "noise",
        "Alarm(level=9)",
    ]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Pattern.begin("a").next("a"), DefinitionError, "two stages are named 'a'"),
        (lambda: Pattern.begin("a").times(2).one_or_more(), DefinitionError, "repeated already"),
        (lambda: Pattern.begin("a").times(3, 2), InvalidArgumentError, "3 to 2 times"),
        (lambda: Pattern.begin("a").greedy(), DefinitionError, r"greedy\(\) is for"),
        (lambda: Pattern.begin("a").optional().not_next("b"), DefinitionError, "is optional"),
        (lambda: Pattern.begin("a").not_next("b").optional(), DefinitionError, "is not for not next 'b'"),
        (lambda: Pattern.begin("a").until(lambda v: True), DefinitionError, "this stage has an end"),
        (lambda: Pattern.begin("a").consecutive(), DefinitionError, "repeated stages"),
        (lambda: Pattern.begin("a").within(0), InvalidArgumentError, "0 ms"),
        (lambda: Pattern.begin(""), TypeMismatchError, "'' is not the name of a stage"),
        (lambda: Pattern.begin("a").subtype("b"), TypeMismatchError, "'b' is not a class"),
        (lambda: Pattern.begin("a").times(0), InvalidArgumentError, "0 to 0 times|0 times"),
        (lambda: Pattern.begin("a").optional().optional(), DefinitionError, "optional already"),
        (lambda: Pattern.begin("a").not_next("b").times(2), DefinitionError, "is not for not next 'b'"),
        (lambda: Pattern.begin(Pattern.begin("a")).where(len), DefinitionError, "not for groups"),
        (lambda: Pattern.begin(Pattern.begin("a")).one_or_more().greedy(), DefinitionError, "not for groups"),
        (lambda: Pattern.begin("a").one_or_more().until(len).until(len), DefinitionError, "an until condition already"),
        (lambda: Pattern.begin("a").times(2).consecutive().allow_combinations(), DefinitionError, "called before"),
        (lambda: Pattern.begin("a").one_or_more().allow_combinations().greedy(), DefinitionError, r"greedy\(\) is for"),
        (lambda: Pattern.begin("a").not_next(Pattern.begin("b")), DefinitionError, "a group cannot be forbidden"),
        (lambda: Pattern.begin("a").times(2).within(5, PREVIOUS), DefinitionError, "a stage of one record"),
        (lambda: Pattern.begin("a").where(3), TypeMismatchError, "3 is not a condition"),
        (lambda: Pattern.begin("a").one_or_more().greedy().next("b").optional(), DefinitionError, "greedy"),
        (lambda: Pattern.begin(Pattern.begin("a").not_next("b")), DefinitionError, "cannot end with"),
        (lambda: AfterMatchSkipStrategy.no_skip().throw_exception_on_miss(), DefinitionError, "skips to no stage"),
    ],
)
def test_a_pattern_that_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message) as raised:
        make()
    assert re.fullmatch(r"test_rows_patterns.py:\d+", raised.value.location or "")


def test_what_can_never_match_or_be_emitted_is_refused_with_the_line(make_env):
    stream = make_env("local").from_collection([1])
    with pytest.raises(DefinitionError, match=r"no time limit, so it never matches; test_rows_patterns.py:\d+; add"):
        CEP.pattern(stream, Pattern.begin("a").not_followed_by("b"))
    longer = Pattern.begin("a").next("b").within(9, PREVIOUS).next("c").within(5)
    with pytest.raises(DefinitionError, match=r"longer than that since the first one; test_rows_patterns.py:\d+"):
        CEP.pattern(stream, longer)
    with pytest.raises(InvalidArgumentError, match="no stage 'z'"):
        CEP.pattern(stream, Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("z")))
    with pytest.raises(TypeMismatchError, match="both a function and the tag"):
        CEP.pattern(stream, Pattern.begin("a")).select(times, timed_out_partial_matches_tag=SIDE)
    with pytest.raises(TypeMismatchError, match="is not a PatternProcessFunction"):
        CEP.pattern(stream, Pattern.begin("a")).process(times)
    with pytest.raises(UnknownTagError, match="never emits"):
        CEP.pattern(stream, Pattern.begin("a")).near_misses(MISSES).select(times).get_side_output(LATE)


def test_partial_matches_may_be_larger_than_memory(make_env, tmp_path):
    rows = readings(*((f"k{n % 40}", n, "aab"[n // 40 % 3]) for n in range(240)))
    pattern = Pattern.begin("a").where(kind("a")).times(2).followed_by("b").where(kind("b")).within("100ms")
    results = []
    for most in ("1000000", "5"):
        settings = {"flintstream.state.entries-in-memory": most}
        env = make_env("local", max_records=30, checkpoint_dir=tmp_path / most, settings=settings)
        matches = CEP.pattern(stream_of(env, rows).key_by("id"), pattern)
        results.append(sorted(collect(matches.select(times))))
    assert results[0] == results[1] == sorted([n + 120 * half, n + 120 * half + 40, n + 120 * half + 80]
                                              for n in range(40) for half in range(2))  # fmt: skip


def test_a_historic_table_gives_the_same_matches_in_batch(new_env):
    rows = readings(*((f"k{ts % 3}", ts, "abcab"[ts * 7 % 5]) for ts in range(60)))
    results = []
    for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        env = new_env(max_records=0 if mode is RuntimeExecutionMode.BATCH else 7)
        env.set_runtime_mode(mode)
        matches = CEP.pattern(stream_of(env, rows).key_by("id"), pair())
        results.append(sorted(collect(matches.select(times))))
    assert results[0] == results[1] != []


def test_a_table_of_sparks_gives_the_same_matches_in_batch(make_env, spark_session):
    rows = [(f"k{ts % 3}", ts, "abcab"[ts * 7 % 5]) for ts in range(60)]
    frame = spark_session.createDataFrame(rows, "id string, ts long, kind string").repartition(3)
    expected = sorted(
        collect(CEP.pattern(stream_of(make_env("local"), readings(*rows)).key_by("id"), pair()).select(times))
    )
    for pattern in (
        pair(),
        Pattern.begin("a").where(pc.field("kind") == "a").followed_by("b").where(pc.field("kind") == "b"),
    ):
        env = make_env("spark").set_runtime_mode(RuntimeExecutionMode.BATCH)
        stream = env.from_dataframe(frame, bounded(60, on="ts")).key_by("id")
        assert sorted(collect(CEP.pattern(stream, pattern.within("10ms")).select(times))) == expected != []


@pytest.mark.row(107)
def test_a_pattern_may_be_a_text(new_env):
    records = [{"id": "k", "ts": ts, "t": t} for ts, t in enumerate([20, 21, 25, 30, 18, 40])]
    text = """
        AFTER MATCH SKIP PAST LAST ROW
        PATTERN (low rise{2,} fall) WITHIN 10 seconds
        DEFINE low AS t < 22, rise AS t > LAST(rise.t, 1) OR LAST(rise.t, 1) IS NULL AND t > low.t, fall AS t < low.t
    """
    stream = stream_of(new_env(max_records=2), records).key_by("id")
    assert collect(CEP.pattern(stream, Pattern.parse(text)).select(times)) == [[0, 1, 2, 3, 4]]
