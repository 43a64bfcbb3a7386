"""The exposition: read back by a strict parser of the text format, whatever names jobs, operators and metrics have."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import CollectSink, MapFunction
from flintstream.jobs.prometheus import STATUSES, exposition
from tests.metrics.prometheus_text import GRAFANA, asked_by_grafana, parsed, value
from tests.unit.values import law


class Measured(MapFunction):
    """Has a metric of every kind."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("shop")
        self.orders, self.rate = group.counter("orders"), group.meter("rate", time_span_in_seconds=60)
        self.prices, self.spread = group.distribution("prices"), group.histogram("spread")
        group.gauge("depth", lambda: 7)

    def map(self, value):
        self.orders.inc(2)
        self.rate.mark_event()
        self.prices.update(value)
        self.spread.update(value)
        return value


@pytest.fixture(scope="module")
def status():
    from flintstream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    stream = env.from_collection(list(range(-50, 951))).key_by(lambda n: n % 7).map(Measured()).uid("measured")
    stream.sink_to(CollectSink()).uid("sink")
    job = env.execute_async("job")
    job.get_job_execution_result().result()
    return job.metrics()


@pytest.mark.row(147)
def test_system_and_user_metrics_have_their_types_and_values(status):
    families = parsed(exposition([({"id": "ab12", "name": "shop", "status": "RUNNING"}, status)]))
    kinds = {name: family["kind"] for name, family in families.items()}
    mine = {"job_id": "ab12", "job_name": "shop", "operator": "measured"}
    assert value(families, "flintstream_operator_records_in_total", **mine) == 1001
    assert kinds["flintstream_operator_records_in_total"] == "counter"
    assert kinds["flintstream_operator_busy_ratio"] == "gauge"
    assert value(families, "flintstream_user_shop_orders", **mine) == 2002
    assert value(families, "flintstream_user_shop_rate_total", **mine) == 1001
    assert kinds["flintstream_user_shop_rate_total"] == "counter"
    assert value(families, "flintstream_user_shop_depth", **mine, subtask="1") == 7
    assert kinds["flintstream_user_shop_prices"] == "summary"
    assert value(families, "flintstream_user_shop_prices_sum", "flintstream_user_shop_prices") == sum(range(-50, 951))
    assert value(families, "flintstream_user_shop_prices_min") == -50
    latency = "flintstream_sink_latency_seconds"
    assert kinds[latency] == "summary"
    assert value(families, f"{latency}_count", latency, operator="sink") == 1001
    assert 0 < value(families, latency, latency, quantile="0.5") <= value(families, latency, latency, quantile="0.99")


def test_a_histogram_has_buckets_that_add_up(status):
    name = "flintstream_user_shop_spread"
    family = parsed(exposition([({"id": "a", "name": "b"}, status)]))[name]
    assert family["kind"] == "histogram"
    buckets = {
        float(dict(labels)["le"].replace("Inf", "inf")): count
        for (series, labels), count in family["series"].items()
        if series == f"{name}_bucket"
    }
    bounds = sorted(buckets)
    counts = [buckets[bound] for bound in bounds]
    assert counts == sorted(counts)
    assert buckets[float("inf")] == 1001
    assert buckets[0.0] == 51
    # A value is known up to one per cent.
    assert abs(buckets[100.0] - 151) <= 2
    assert abs(buckets[500.0] - 551) <= 6
    assert buckets[bounds[0]] <= 1


def test_the_status_is_one_of_all(status):
    families = parsed(exposition([({"id": "a", "name": "b", "status": "RESTARTING"}, {})]))
    series = families["flintstream_job_status"]["series"]
    assert len(series) == len(STATUSES)
    assert {dict(labels)["status"] for (_, labels), one in series.items() if one} == {"RESTARTING"}
    assert parsed(exposition([])) == {}


def test_a_driver_that_has_not_found_its_place_yet_does_not_set_totals_back(status):
    view = {"id": "a", "name": "b", "status": "RESTARTING", "restarts": 3}
    totals = "flintstream_job_records_in_total"
    assert value(parsed(exposition([(view, status)])), totals) == 1001
    began = {**status, "attempt": 2, "epoch": 0, "records_in": 0}
    families = parsed(exposition([(view, began)]))
    assert set(families) == {"flintstream_job_status", "flintstream_job_restarts_total"}
    assert value(families, "flintstream_job_restarts_total") == 3
    # The first driver of a job has nothing to find, and 0 is what it has read.
    assert value(parsed(exposition([(view, {**began, "attempt": 1})])), totals) == 0
    assert value(parsed(exposition([(view, {**began, "epoch": 7})])), totals) == 0


METRIC = st.one_of(
    st.integers(),
    st.floats(),
    st.integers(0, 100).map(lambda count: {"kind": "meter", "count": count, "rate": count / 60}),
    st.just({"kind": "distribution", "count": 1, "sum": 2, "min": 2, "max": 2, "mean": 2.0}),
    st.just({"kind": "histogram", "count": 2, "sum": 3.5, "buckets": [[1.0, 1], [2.0, 2]]}),
    st.dictionaries(st.sampled_from("0123"), st.floats()).map(lambda values: {"kind": "gauge", "values": values}),
)
OWN = st.dictionaries(st.text('ab.-_ü"\\\n', max_size=5), METRIC, max_size=5)
USERS = st.dictionaries(st.text(max_size=4), OWN, max_size=3)


@law
@given(st.lists(st.tuples(st.text(max_size=6), USERS), max_size=3))
def test_every_name_and_every_value_gives_a_valid_exposition(jobs):
    views = [({"id": str(n), "name": name}, {"metrics": users}) for n, (name, users) in enumerate(jobs)]
    parsed(exposition(views))


def test_names_that_would_meet_are_kept_apart():
    users = {
        "op": {
            "user.x": {"kind": "histogram", "count": 1, "sum": 1, "buckets": []},
            "user.x_sum": 5,
            "user-x": {"kind": "gauge", "values": {"0": 1}},
            "user_x": {"kind": "gauge", "values": {"0": 2}},
        }
    }
    families = parsed(exposition([({"id": "1", "name": "j"}, {"metrics": users})]))
    both = families["flintstream_user_x_gauge"]["series"]
    assert {dict(labels)["metric"]: found for (_, labels), found in both.items()} == {"user-x": 1, "user_x": 2}
    assert families["flintstream_user_x_sum_gauge"]["kind"] == "gauge"


def test_the_grafana_dashboard_asks_for_metrics_that_are_there(status):
    panels = json.loads(GRAFANA.read_text())["panels"]
    asked = asked_by_grafana()
    # Some metrics are there only where a job has a backlog or event time; their names are in the tables.
    sources = {"sources": {"s": {"lag_records": 1, "lag_ms": 1}}, "watermark_lag_ms": 1, "event_time_skew_ms": 1}
    operators = {"operators": {"o": {"watermark_lag_ms": 1}}}
    told = [({"id": "1", "name": "a", "restarts": 0}, status), ({"id": "2", "name": "b"}, {**sources, **operators})]
    assert asked - set(parsed(exposition(told))) == set()
    assert len(asked) > 15
    assert len({panel["id"] for panel in panels}) == len(panels)
