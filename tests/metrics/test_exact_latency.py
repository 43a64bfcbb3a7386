"""The latency of a sink, by a clock that only the test moves: what a function takes longer, the latency is longer."""

from __future__ import annotations

import pytest

from flintstream import (
    CollectSink,
    DataGeneratorSource,
    LogPart,
    LogSource,
    StreamExecutionEnvironment,
    TimedRecords,
)
from flintstream.engine.options import JobOptions
from tests.metrics.support import Clock, watched


def sleeping(seconds: float):
    def declare(env: StreamExecutionEnvironment, clock: Clock) -> None:
        def pause(value):
            clock.sleep(seconds)
            return value

        # One record, so that each run has one epoch with input, and they differ in nothing but the sleep.
        source = DataGeneratorSource(generator=str, count=1, rate=20, splits=1)
        env.from_source(source).map(pause).sink_to(CollectSink()).uid("sink")

    return declare


@pytest.mark.row(127)
def test_an_injected_sleep_of_200_ms_moves_the_latency_by_200_ms():
    plain, slow = watched(sleeping(0)), watched(sleeping(0.2))
    without, within = (each.epochs[0]["latency_ms"]["sink"] for each in (plain, slow))
    for name in ("p50", "p95", "p99", "max", "mean"):
        assert within[name] - without[name] == pytest.approx(200, abs=0.01)
    shown = [each.statuses[-1]["sinks"]["sink"]["latency_ms"] for each in (plain, slow)]
    assert shown[1]["max"] - shown[0]["max"] == pytest.approx(200, abs=0.01)
    assert shown[1]["p99"] - shown[0]["p99"] == pytest.approx(200, rel=0.02)


def test_a_latency_counts_from_when_a_record_is_due():
    def declare(env, clock):
        source = DataGeneratorSource(generator=str, count=50, rate=100, splits=1)
        env.from_source(source).sink_to(CollectSink()).uid("sink")

    lines = watched(declare).epochs
    assert sum(line["records_in"] for line in lines) == sum(line["records_out"] for line in lines) == 50
    counted = [line["latency_ms"]["sink"] for line in lines if line["latency_ms"]]
    assert sum(each["count"] for each in counted) == 50
    # Records are due every 10 ms, and the clock is read a few times in an epoch.
    assert all(0 < each["p50"] <= each["max"] < 60 for each in counted)


def test_a_sink_that_gets_nothing_in_an_epoch_has_no_latency_of_it():
    def declare(env, clock):
        numbers = env.from_collection(list(range(10)))
        numbers.filter(lambda n: n >= 8).sink_to(CollectSink()).uid("few")
        numbers.sink_to(CollectSink()).uid("all")

    lines = watched(declare, JobOptions(max_records=5)).epochs
    assert [sorted(line["latency_ms"]) for line in lines if line["records_in"]] == [["all"], ["all", "few"]]


def test_a_sink_counts_only_records_of_sources_that_reach_it():
    def declare(env, clock):
        env.from_collection([1, 2, 3]).uid("three").sink_to(CollectSink()).uid("a")
        env.from_collection([1, 2]).uid("two").sink_to(CollectSink()).uid("b")

    sinks = watched(declare).statuses[-1]["sinks"]
    assert {uid: sinks[uid]["total_ms"]["count"] for uid in ("a", "b")} == {"a": 3, "b": 2}


class OneRecord(LogSource):
    """A log with one record, which comes 100 ms after the driver's first look; each look takes half a second."""

    def __init__(self, clock: Clock, own_time: int | None) -> None:
        self._clock = clock
        self._own_time = own_time
        self._looks = 0
        self._came = 0

    @property
    def is_bounded(self) -> bool:
        return True

    def discover(self, known, is_first):
        return [] if known else [LogPart("part", 0, 1)]

    def available(self, names):
        self._looks += 1
        self._came = int(self._clock.ms) + 100
        self._clock.sleep(0.5)
        return {"part": 1 if self._looks > 1 else 0}

    def read_part(self, name, start, end):
        return TimedRecords(["record"], [self._came if self._own_time is None else self._own_time])


@pytest.mark.parametrize(
    ("own_time", "least", "most"),
    [
        pytest.param(None, 400, 430, id="its own time"),
        pytest.param(1, 500, 530, id="a time before the look without it"),
        pytest.param(1 << 60, 0, 30, id="a time that is still to come"),
    ],
)
def test_a_record_of_a_log_counts_from_the_time_that_the_log_keeps(own_time, least, most):
    def declare(env, clock):
        env.from_source(OneRecord(clock, own_time)).sink_to(CollectSink()).uid("sink")

    (line,) = [line for line in watched(declare).epochs if line["latency_ms"]]
    assert least < line["latency_ms"]["sink"]["max"] < most
