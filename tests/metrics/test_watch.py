"""What a running job tells of itself: where its time goes, what passes, how far event time is, and which is slowest."""

from __future__ import annotations

import threading
import time

import pytest

from flintstream import CollectSink, DataGeneratorSource, MapFunction, Sink, SinkWriter, bounded, count, tumbling
from flintstream.connectors.discard import DiscardingSink
from flintstream.engine.measures import NOBODY, Meters
from flintstream.engine.options import JobOptions
from flintstream.engine.report_numbers import feeding
from flintstream.engine.report_status import slowest_of
from flintstream.model.job import JobStatus
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.ops.batch import MixedValues, Values
from flintstream.ops.sizes import size_of
from tests.capabilities.support import Epochs, Lists
from tests.metrics.support import watched
from tests.unit.graphs import Sketch, by_key


def spin(seconds: float) -> None:
    """Work for so long, by the processor's own clock."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Slow(MapFunction):
    """Takes its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def map(self, value):
        spin(self._seconds)
        return value


def test_time_is_the_operators_own_without_those_it_calls(new_env):
    env, epochs = new_env(1, max_records=50), Epochs()
    env.add_listener(epochs)
    numbers = env.from_collection(list(range(100)))
    first = numbers.map(lambda n: n).uid("fast").map(Slow(0.001)).uid("slow")
    first.key_by(lambda n: n).map(Slow(0.0005)).uid("behind").sink_to(CollectSink()).uid("sink")
    job = env.execute_async()
    job.get_job_execution_result().result()
    status = job.metrics()
    spent = {uid: each["busy_seconds"] for uid, each in status["operators"].items()}
    assert spent["slow"] >= 0.1
    assert spent["behind"] >= 0.05
    # Whoever calls a slow operator is not slow itself; what else it does is next to nothing.
    assert spent["fast"] < spent["slow"] / 4
    assert all(0 <= each["busy"] <= 1 for each in status["operators"].values())
    tasks = [report for reports in epochs.reports for report in reports]
    for report in tasks:
        assert sum(measure.busy for measure in report.measures.values()) <= report.busy_seconds


def test_the_meters_give_each_moment_to_one_operator(monkeypatch):
    moments = iter(range(100))
    monkeypatch.setattr("flintstream.engine.measures.time.perf_counter", lambda: float(next(moments)))
    meters = Meters()
    meters.begin(True)  # 0
    assert meters.turn_to(1) == NOBODY  # 1: one second was nobody's
    assert meters.turn_to(2) == 1  # 2
    assert meters.turn_to(1) == 2  # 3
    meters.turn_to(NOBODY)  # 4
    assert {node: measure.busy for node, measure in meters.told().items()} == {1: 2.0, 2: 1.0}
    meters.begin(False)
    meters.turn_to(1)
    assert meters.told() == {}


def test_nothing_is_measured_where_metrics_are_off(make_env):
    env, epochs = make_env("local", settings={"flintstream.metrics": "false"}), Epochs()
    env.add_listener(epochs)
    env.from_collection([1, 2, 3]).map(lambda n: n).uid("map").sink_to(CollectSink())
    job = env.execute_async()
    job.get_job_execution_result().result()
    status = job.metrics()
    assert status["operators"]["map"]["records_in"] == 3
    assert status["operators"]["map"]["busy_seconds"] == 0
    assert all(report.measures == {} for reports in epochs.reports for report in reports)


def test_records_and_bytes_in_and_out(new_env):
    env = new_env(2, max_records=30)
    words = env.from_collection(["four"] * 100).uid("words").flat_map(lambda word: [word, word]).uid("twice")
    words.key_by(lambda word: word).map(lambda word: word).uid("same").sink_to(CollectSink()).uid("sink")
    job = env.execute_async()
    job.get_job_execution_result().result()
    status = job.metrics()
    shown = status["operators"]
    assert [(shown[uid]["records_in"], shown[uid]["records_out"]) for uid in ("words", "twice", "same", "sink")] == [
        (100, 100),
        (100, 200),
        (200, 200),
        (200, 0),
    ]
    # A word has four bytes; as a column each has an offset besides, over an exchange there is more around them.
    assert 400 <= shown["twice"]["bytes_in"] <= 1200
    assert 800 <= shown["twice"]["bytes_out"] <= 2400
    assert shown["same"]["bytes_in"] >= 800
    assert shown["sink"]["bytes_in"] >= 800
    assert (status["records_in"], status["records_out"]) == (100, 200)
    edges = {(edge["from"], edge["to"]): (edge["sent"], edge["received"]) for edge in status["ledger"]["edges"]}
    assert edges == {("twice", "same"): (200, 200)}


@pytest.mark.parametrize(
    ("value", "size"),
    [("abc", 3), (b"ab", 2), (7, 8), (None, 8), (("ab", 1), 10), (["ab", "c"], 3), ({"k": 1.5}, 9), ((), 0)],
)
def test_the_size_of_a_value_is_that_of_its_data(value, size):
    assert size_of(value) == size
    assert Values([value] * 10).size() == 10 * size


def test_the_size_of_an_object_is_that_of_its_attributes():
    class Reading:
        def __init__(self) -> None:
            self.sensor, self.value = "s1", 1.5

    assert size_of(Reading()) == 10


def test_values_of_several_kinds_have_the_size_of_their_columns():
    import numpy as np

    numbers, words = Values([1, 2, 3, 4]), Values(["a", "b"])
    for column in (numbers, words):
        column.column()
    both = MixedValues([numbers, words], np.array([0, 0, 1]), np.array([0, 1, 0]))
    assert both.size() == (numbers.size() + words.size()) * 3 // 6
    assert Values([]).size() == 0


def test_state_entries_and_bytes_are_those_of_the_operator(new_env, tmp_path):
    env = new_env(2, checkpoint_dir=tmp_path)
    numbers = env.from_collection(list(range(1000)))
    numbers.key_by(lambda n: n % 10).reduce(max).uid("few").sink_to(DiscardingSink())
    numbers.key_by(lambda n: n % 90).reduce(max).uid("many").sink_to(DiscardingSink())
    job = env.execute_async()
    job.get_job_execution_result().result()
    shown = job.metrics()["operators"]
    assert [shown[uid]["state_entries"] for uid in ("few", "many")] == [10, 90]
    assert 0 < shown["few"]["state_bytes"] < shown["many"]["state_bytes"]
    total = job.metrics()["checkpoint"]["total_bytes"]
    assert total - 2 <= shown["few"]["state_bytes"] + shown["many"]["state_bytes"] <= total


def test_event_time_its_lag_its_skew_and_late_records():
    base = 1_699_999_990_000

    def declare(env, clock):
        one = [("a", base + 1000), ("a", base + 9000), ("a", base + 9500)]
        two = [("b", base + 2000), ("b", base + 3000), ("b", base + 10)]
        timed = env.from_source(Lists(one, two)).uid("rows").assign_timestamps_and_watermarks(bounded("0s", on=1))
        timed.uid("times").key_by(0).window(tumbling("1s")).agg(n=count()).uid("window").sink_to(CollectSink())

    first, *_, last = watched(declare, JobOptions(max_records=4)).statuses
    assert first["event_time_skew_ms"] == 6000
    # A watermark is one less than the greatest timestamp; that of the job is that of the split which is behind.
    assert first["watermark"] == base + 2999
    assert first["watermark_lag_ms"] == first["updated_ms"] - first["watermark"]
    assert [first["operators"][uid]["watermark"] for uid in ("rows", "times", "window")] == [
        None,
        base + 2999,
        base + 2999,
    ]
    assert (last["watermark"], last["watermark_lag_ms"], last["event_time_skew_ms"]) == (MAX_TIMESTAMP, None, None)
    assert last["late"] == last["operators"]["window"]["late"] == 1


def test_the_slowest_operator_is_marked_by_a_rule():
    assert slowest_of({}, is_behind=True) is None
    assert slowest_of({"a": 0.1, "b": 0.75}, is_behind=False) == "b"
    assert slowest_of({"a": 0.1, "b": 0.6}, is_behind=False) is None
    assert slowest_of({"a": 0.1, "b": 0.6}, is_behind=True) == "b"
    assert slowest_of({"a": 0.1, "b": 0.15}, is_behind=True) is None


def test_a_sink_is_fed_by_all_sources_before_it():
    sketch = Sketch()
    one, two = sketch.source(), sketch.source()
    first = sketch.sink(sketch.function([one, by_key(two)]))
    second = sketch.sink(two)
    plan = sketch.plan()
    uids = {op.id: op.uid for op in plan.operators}
    assert feeding(plan) == {uids[first]: [one, two], uids[second]: [two]}


def test_a_job_that_is_restarted_says_so_and_goes_on_counting(make_env, tmp_path):
    settings = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    env = make_env("local", 1, max_records=10, checkpoint_dir=tmp_path, settings=settings)
    burnt: list[int] = []

    def burst(n):
        if n == 25 and not burnt:
            burnt.append(n)
            raise ValueError(n)
        return n

    env.from_collection(list(range(40))).uid("numbers").map(burst).sink_to(CollectSink()).uid("sink")
    job = env.execute_async()
    job.get_job_execution_result().result()
    status = job.metrics()
    assert (status["status"], status["restarts"]) == (JobStatus.FINISHED.name, 1)
    assert (status["records_in"], status["records_out"]) == (40, 40)
    assert status["sinks"]["sink"]["total_ms"]["count"] == 40


class SleepyWriter(SinkWriter):
    """Sleeps for each record."""

    def __init__(self, inner: SinkWriter, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    def write(self, values, timestamps) -> None:
        time.sleep(self._seconds * len(values))
        self._inner.write(values, timestamps)

    def prepare_commit(self):
        return self._inner.prepare_commit()


class SleepySink(Sink):
    """A sink that takes its time for each record."""

    def __init__(self, inner: CollectSink, seconds: float) -> None:
        self.inner = inner
        self._seconds = seconds

    def create_writer(self, context):
        return SleepyWriter(self.inner.create_writer(context), self._seconds)

    def create_committer(self):
        return self.inner.create_committer()


@pytest.mark.row(129)
@pytest.mark.row(130)
def test_a_slow_sink_slows_the_source_shows_as_the_bottleneck_and_loses_nothing(new_env, runtime):
    env = new_env(1)
    rate, pause, wanted = 20_000, 0.001, 4
    seen: list[tuple[int, dict]] = []
    enough = threading.Event()
    sink = CollectSink()
    source = DataGeneratorSource(generator=int, rate=rate, splits=1)
    env.from_source(source).uid("source").map(lambda n: n).uid("map").sink_to(SleepySink(sink, pause)).uid("sink")
    started: list = []

    def look(manifest, reports, seconds):
        read = sum(report.counters.get(1, {}).get("out", 0) for report in reports)
        if read and started:
            seen.append((read, started[0].metrics()))
            if len(seen) >= wanted:
                enough.set()

    env.add_listener(look)
    started.append(env.execute_async())
    assert enough.wait(120)
    started[0].cancel().result()
    sizes, statuses = [size for size, _ in seen], [status for _, status in seen]
    last = statuses[-1]
    # The source could give 20,000 a second; what an epoch takes stays what the sink can do in some seconds.
    assert max(sizes) * pause < 10
    behind = [status["sources"]["source"]["lag_records"] for status in statuses]
    assert behind == sorted(behind)
    assert behind[-1] > 10 * sizes[-1]
    assert last["sources"]["source"]["lag_ms"] > 0
    assert [uid for uid, each in last["operators"].items() if each["slowest"]] == ["sink"]
    assert last["operators"]["sink"]["busy"] > 0.2
    assert last["sinks"]["sink"]["latency_ms"]["max"] > statuses[0]["sinks"]["sink"]["latency_ms"]["max"]
    memory = [status["memory"]["driver_bytes"] for status in statuses]
    assert memory[-1] < memory[0] + (64 << 20)
    assert sink.results == list(range(len(sink.results)))
    assert len(sink.results) >= sum(sizes[:wanted])


@pytest.mark.spark
def test_what_spark_reads_counts_from_when_its_batch_begins_and_has_no_backlog_that_we_know(make_env, spark_session):
    env = make_env("spark", 1)
    rows = env.from_dataframe(spark_session.range(500)).uid("rows")
    rows.map(lambda row: row[0]).sink_to(CollectSink()).uid("sink")
    job = env.execute_async()
    job.get_job_execution_result().result()
    status = job.metrics()
    assert status["sources"]["rows"]["lag_records"] is None
    assert "Spark" in status["sources"]["rows"]["backlog_text"]
    assert status["sinks"]["sink"]["total_ms"]["count"] == 500
    assert 0 < status["sinks"]["sink"]["total_ms"]["max"] <= status["updated_ms"] - status["started_ms"]
    assert status["memory"]["jvm_bytes"] > 0
    assert status["memory"]["workers_bytes"] > 0
