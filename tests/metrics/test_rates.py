"""Rates: of the last seconds, up to the newest point while an epoch works, up to now while none does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.report_rates import SPAN_SECONDS, Rates
from tests.unit.values import law


def rate(rates: Rates, until: float | None = None) -> float:
    return rates.per_second(until)["op"][0]


def test_a_rate_is_what_was_done_in_the_time_it_took():
    rates = Rates()
    assert rates.per_second() == {}
    rates.begin(100.0, {"op": (1_000_000.0,)})
    assert rate(rates) == 0
    rates.note(102.0, {"op": (1_000_500.0,)})
    assert rate(rates) == 250


def test_a_rate_falls_while_nothing_is_at_work():
    rates = Rates()
    rates.begin(0.0, {"op": (0.0,)})
    rates.note(1.0, {"op": (100.0,)})
    assert [rate(rates, until) for until in (None, 2.0, 5.0)] == [100, 50, 20]
    assert rate(rates, 1.0 + SPAN_SECONDS) == 0


def test_an_operator_that_is_new_counts_from_nothing():
    rates = Rates()
    rates.begin(0.0, {})
    rates.note(2.0, {"op": (10.0, 4.0)})
    assert rates.per_second()["op"] == (5.0, 2.0)


@law
@given(st.lists(st.floats(0.001, 4.0), min_size=2, max_size=300), st.floats(1, 1e6))
def test_a_steady_rate_is_found_whatever_the_epochs_and_in_a_bounded_space(gaps, per_second):
    rates, now = Rates(), 0.0
    rates.begin(now, {"op": (0.0,)})
    for gap in gaps:
        now += gap
        rates.note(now, {"op": (now * per_second,)})
        assert rate(rates) == pytest.approx(per_second, rel=1e-6)
        assert len(rates._points) <= SPAN_SECONDS / 0.25 * 2 + 3
