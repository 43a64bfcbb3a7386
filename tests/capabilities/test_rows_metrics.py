"""Metrics of the user's functions: at PyFlink's paths, over all subtasks, exactly once, in the job's result."""

from __future__ import annotations

import pytest

from flintstream import CollectSink, KeyedProcessFunction, MapFunction, ValueStateDescriptor
from flintstream.errors import UserFunctionError
from flintstream.metrics import DistributionResult, HistogramStatistics, MeterResult, MetricGroup
from tests.capabilities.support import Epochs, collect, run


class Measured(MapFunction):
    """Has a metric of every kind."""

    def open(self, runtime_context):
        group: MetricGroup = runtime_context.get_metrics_group().add_group("shop").add_group("region", "north")
        self.orders = group.counter("orders")
        self.rate = group.meter("rate", time_span_in_seconds=120)
        self.prices = group.distribution("prices")
        self.spread = group.histogram("spread")
        self.seen = 0
        group.gauge("seen", lambda: self.seen)

    def map(self, value):
        self.orders.inc(2)
        self.orders.dec()
        self.rate.mark_event()
        self.prices.update(value)
        self.spread.update(value)
        self.seen += 1
        return value


def declare(env, sink) -> None:
    env.from_collection(range(1, 1001)).key_by(lambda n: n).map(Measured()).uid("measured").sink_to(sink)


def check(found) -> None:
    north = {name.removeprefix("user.shop.region.north."): value for name, value in found.items()}
    assert (north["in"], north["out"]) == (1000, 1000)
    assert north["orders"] == 1000
    assert isinstance(north["rate"], MeterResult)
    assert north["rate"].count == 1000
    assert north["prices"] == DistributionResult(1000, 500_500, 1, 1000)
    assert isinstance(north["spread"], HistogramStatistics)
    assert (north["spread"].size(), north["spread"].get_min(), north["spread"].get_max()) == (1000, 1, 1000)
    for quantile in (0.01, 0.5, 0.99):
        assert abs(north["spread"].get_quantile(quantile) - 1000 * quantile) <= 10 * quantile


def test_every_kind_of_metric_is_in_the_result_over_all_subtasks(new_env):
    env = new_env(max_records=400)
    declare(env, CollectSink())
    found = env.execute().get_accumulator_result("measured")
    check(found)
    gauges = found["user.shop.region.north.seen"]
    assert set(gauges) == {0, 1}
    # Instances in other processes begin to count anew, so only so much is sure.
    assert all(0 <= seen <= 1000 for seen in gauges.values())


def test_a_job_that_is_stopped_goes_on_counting(new_env, tmp_path):
    env = new_env(max_records=300, checkpoint_dir=tmp_path)
    assert not run(env, CollectSink(), declare, stop_after=2)
    env = new_env(1, max_records=300, checkpoint_dir=tmp_path)
    epochs = Epochs()
    env.add_listener(epochs)
    declare(env, CollectSink())
    found = env.execute("job").get_accumulator_result("measured")
    check(found)
    assert set(found["user.shop.region.north.seen"]) == {0}  # the other subtask is gone
    assert epochs.manifests[0].metrics["measured"]["user.shop.region.north.prices"]["count"] == 900


class FailsOnce(Measured):
    """Dies at the last record of its epoch, once."""

    def __init__(self, burnt) -> None:
        self._burnt = burnt

    def map(self, value):
        value = super().map(value)
        if value == 600 and not self._burnt.exists():
            self._burnt.touch()
            raise ValueError(value)
        return value


def test_what_an_epoch_that_failed_has_counted_does_not_count(new_env, tmp_path):
    for attempt in range(2):
        env = new_env(max_records=300, checkpoint_dir=tmp_path / "checkpoint")
        numbers = env.from_collection(range(1, 1001)).key_by(lambda n: n)
        numbers.map(FailsOnce(tmp_path / "burnt")).uid("measured").sink_to(CollectSink())
        if attempt:
            check(env.execute("job").get_accumulator_result("measured"))
        else:
            with pytest.raises(UserFunctionError, match="600"):
                env.execute("job")


def test_metrics_grow_with_every_epoch_and_the_client_has_them(make_env):
    env = make_env("local", max_records=100)
    counts: list[int] = []

    def ask(manifest, reports, seconds) -> None:
        counts.append(manifest.counters["measured"]["user.shop.region.north.orders"])

    env.add_listener(ask)
    declare(env, CollectSink())
    client = env.execute_async("job")
    client.get_job_execution_result().result()
    assert counts[:3] == [100, 200, 300]
    check(client.get_accumulators().result()["measured"])


class Remembers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, ctx):
        self.state.update(value)
        yield value


def test_the_result_says_how_much_state_an_operator_has(env):
    env.from_collection(range(7)).key_by(lambda n: n).process(Remembers()).uid("remembers").sink_to(CollectSink())
    assert env.execute().get_accumulator_result("remembers") == {"in": 7, "out": 7, "state_entries": 7}


class BrokenGauge(MapFunction):
    def open(self, runtime_context):
        runtime_context.get_metrics_group().gauge("broken", lambda: 1 // 0)

    def map(self, value):
        return value


def test_a_gauge_that_fails_names_its_operator(make_env):
    stream = make_env("local").from_collection([1]).map(BrokenGauge()).uid("gauged")
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError.*uid 'gauged'"):
        collect(stream)
