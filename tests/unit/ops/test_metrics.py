"""Metrics: what an epoch reports, how reports become totals, and that these depend on nothing but what was noted."""

from __future__ import annotations

import json
import math
import statistics
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import DistributionResult, MeterResult
from flintstream.errors import DefinitionError, InvalidArgumentError
from flintstream.ops.metric_totals import MOST_BUCKETS, fold, histogram_of, result_of, statistics_of
from flintstream.ops.metrics import OperatorMetrics
from flintstream.ops.operator import OperatorContext
from flintstream.state.backend import KeyedBackend

VALUES = st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=60)


@pytest.fixture
def ctx() -> OperatorContext:
    return OperatorContext("op", "op", 1, 2, KeyedBackend(128, range(128)))


@pytest.fixture
def group(ctx: OperatorContext) -> OperatorMetrics:
    return OperatorMetrics(ctx)


def drained(ctx: OperatorContext) -> dict[str, Any]:
    """Return what an epoch reports, as the manifest has it."""
    return {name: json.loads(json.dumps(metric.drain())) for name, metric in ctx.metrics.items()}


def test_a_counter_is_among_the_operators_counters(ctx, group):
    counter = group.add_group("a").add_group("b", "c").counter("n")
    counter.inc()
    counter.inc(np.int64(5))
    counter.dec(2)
    assert ctx.counters == {"user.a.b.c.n": 4}
    assert type(ctx.counters["user.a.b.c.n"]) is int
    ctx.counters.clear()
    counter.dec()
    assert (ctx.counters, counter.get_count()) == ({"user.a.b.c.n": -1}, 3)
    with pytest.raises(TypeError):
        counter.inc(1.5)


def test_a_name_is_one_metric_of_one_kind(group):
    group.counter("n").inc()
    group.counter("n").inc()
    assert group.counter("n").get_count() == 2
    with pytest.raises(DefinitionError, match=r"'user\.n' is registered as two kinds"):
        group.meter("n")
    group.histogram("h")
    with pytest.raises(DefinitionError, match="two kinds"):
        group.distribution("h")
    with pytest.raises(DefinitionError, match=r"relative error of 0\.01 and one of 0\.1"):
        group.histogram("h", 0.1)
    group.meter("m", 10)
    with pytest.raises(DefinitionError, match="time span of 10 and one of 60"):
        group.meter("m")


def test_settings_that_make_no_sense_are_refused(group):
    for make in (lambda: group.meter("m", 0), lambda: group.histogram("h", 0.0), lambda: group.histogram("h", 1.0)):
        with pytest.raises(InvalidArgumentError):
            make()
    with pytest.raises(InvalidArgumentError, match="gauge 'g' got 5"):
        group.gauge("g", 5)
    for value in (math.nan, math.inf):
        with pytest.raises(InvalidArgumentError, match="finite"):
            group.distribution("d").update(value)


def test_what_an_attempt_left_is_forgotten_when_an_epoch_begins(ctx, group):
    group.distribution("d").update(1)
    group.meter("m").mark_event()
    asked = []
    group.gauge("g", lambda: asked.append(1) or len(asked))
    for metric in ctx.metrics.values():
        metric.begin()
    assert asked == []
    group.meter("m").mark_event(3)
    found = drained(ctx)
    assert (found["user.d"], found["user.m"]["count"], found["user.g"]["values"]) == (None, 3, {"1": 1})


def test_a_gauge_has_the_last_answer_of_each_subtask():
    first = fold(None, {"kind": "gauge", "values": {"0": 1}}, 0)
    both = fold(first, {"kind": "gauge", "values": {"10": 2}}, 0)
    assert result_of(fold(both, {"kind": "gauge", "values": {"0": 7}}, 0)) == {0: 7, 10: 2}


def test_a_meter_is_a_rate_over_its_time_span(ctx, group):
    """60 s in slots of 5 s: what was noted more than a minute ago no longer counts."""
    meter = group.meter("m")
    total = None
    for now, events in ((0, 60), (30_000, 120), (59_000, 0), (60_000, 0), (89_999, 0), (90_000, 0)):
        meter.mark_event(events)
        total = fold(total, drained(ctx)["user.m"], now)
        if now == 30_000:
            assert result_of(total) == MeterResult(180, 3.0)
        if now == 59_000:
            assert result_of(total) == MeterResult(180, 3.0)
        if now == 60_000:
            assert result_of(total) == MeterResult(180, 2.0)
    assert total is not None
    assert result_of(total) == MeterResult(180, 0.0)
    assert len(total["slots"]) <= 12
    assert meter.get_count() == 180


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_distributions_are_exact(parts):
    ctx = OperatorContext("op", "op", 0, 1, KeyedBackend(128, range(128)))
    distribution = OperatorMetrics(ctx).distribution("d")
    total = None
    for part in parts:
        for value in part:
            distribution.update(value)
        total = fold(total, drained(ctx)["user.d"], 0)
    values = [value for part in parts for value in part]
    found = result_of(total)
    assert found == DistributionResult(len(values), sum(values), min(values), max(values))
    assert found.mean == sum(values) / len(values)


@given(st.lists(VALUES, min_size=1, max_size=5), st.randoms())
def test_histograms_fold_in_any_order_to_the_same(parts, rng):
    documents = [histogram_of(part, 0.05) for part in parts]
    whole = histogram_of([value for part in parts for value in part], 0.05)
    rng.shuffle(documents)
    assert reduce(lambda total, part: fold(total, part, 0), documents, None) == whole


@given(st.lists(st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6) | st.just(0.0), min_size=1, max_size=60))
def test_quantiles_of_histograms_are_as_exact_as_asked_for(values):
    found = statistics_of(histogram_of(values, 0.02))
    values.sort()
    for quantile in (0.0, 0.1, 0.5, 0.9, 1.0):
        exact = values[max(1, math.ceil(quantile * len(values))) - 1]
        assert abs(found.get_quantile(quantile) - exact) <= 0.02 * abs(exact) * (1 + 1e-9)
    assert (found.get_min(), found.get_max(), found.size()) == (values[0], values[-1], len(values))
    assert math.isclose(found.get_mean(), statistics.fmean(values), rel_tol=1e-9, abs_tol=1e-9)


def test_the_standard_deviation_of_a_histogram():
    values = [1, 2, 3, 4, 90]
    assert math.isclose(statistics_of(histogram_of(values, 0.01)).get_std_dev(), statistics.stdev(values))
    assert statistics_of(histogram_of([5], 0.01)).get_std_dev() == 0.0


def test_a_quantile_is_a_share(group):
    with pytest.raises(InvalidArgumentError, match="a quantile is 99"):
        group.histogram("h").get_statistics().get_quantile(99)


def test_an_empty_histogram(group):
    empty = group.histogram("h").get_statistics()
    assert (empty.size(), empty.get_min(), empty.get_max(), empty.get_std_dev()) == (0, None, None, 0.0)
    assert math.isnan(empty.get_mean())
    assert math.isnan(empty.get_quantile(0.5))


def test_an_instance_reads_back_what_it_has_noted_over_epochs(ctx, group):
    histogram = group.histogram("h")
    for value in range(1, 5001):
        histogram.update(value)
        if value == 3000:
            assert drained(ctx)["user.h"]["count"] == 3000
    assert drained(ctx)["user.h"]["count"] == 2000
    assert histogram.get_count() == 5000
    assert abs(histogram.get_statistics().get_quantile(0.5) - 2500) <= 25


def test_a_histogram_stays_small_whatever_comes():
    """Numbers of all sizes: the small ones share a bucket, the great ones keep theirs, in any order."""
    values = [float(f"1e{power}") for power in range(-300, 300)] * 2
    halves = [histogram_of(values[::2], 0.01), histogram_of(values[1::2], 0.01)]
    whole = histogram_of(values, 0.01)
    for one, other in (halves, reversed(halves)):
        folded = fold(one, other, 0)
        assert folded["positive"] == whole["positive"]
    assert len(whole["positive"]) <= MOST_BUCKETS
    found = statistics_of(whole)
    assert abs(found.get_quantile(0.999) / 1e299 - 1) <= 0.011
    assert found.get_quantile(0.0) < 1e290
    assert statistics_of(histogram_of([1.7e308], 0.01)).get_quantile(1.0) == 1.7e308


def test_a_changed_program_begins_anew():
    counted = fold(None, {"kind": "meter", "span": 60, "count": 5}, 0)
    assert result_of(fold(counted, histogram_of([1], 0.1), 0)).size() == 1
    assert result_of(fold(histogram_of([1], 0.1), histogram_of([2], 0.2), 0)).size() == 1
    assert result_of(fold(counted, {"kind": "meter", "span": 10, "count": 5}, 0)) == MeterResult(10, 0.5)
