"""Latencies: percentiles over weighted samples, windows that slide, and when records count as received."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.epoch import ReadRange
from flintstream.engine.latency import SLOT_MS, SLOTS, LatencyBook, Spread, summary_of
from flintstream.engine.latency_arrivals import SAMPLES, Arrivals
from flintstream.model.time import MIN_TIMESTAMP
from tests.unit.values import law

SAMPLE = st.tuples(st.floats(0.1, 1e6), st.integers(1, 50).map(float))


def expanded(samples):
    return sorted(value for value, weight in samples for _ in range(int(weight)))


@law
@given(st.lists(SAMPLE, min_size=1, max_size=40))
def test_percentiles_are_those_of_the_records_that_samples_stand_for(samples):
    values, summary = expanded(samples), summary_of(samples)
    assert summary is not None
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99)):
        rank = -(-share * len(values) // 100)
        assert summary[name] == pytest.approx(values[rank - 1], abs=0.001)
    assert summary["max"] == pytest.approx(values[-1], abs=0.001)
    assert summary["mean"] == pytest.approx(sum(values) / len(values), abs=0.001)
    assert summary["count"] == len(values)


@law
@given(st.lists(st.lists(SAMPLE, min_size=1, max_size=10), min_size=1, max_size=5))
def test_a_spread_is_right_up_to_one_per_cent_however_it_was_put_together(parts):
    whole = Spread()
    for part in parts:
        piece = Spread()
        piece.add(part)
        whole.merge(piece)
    exact, found = summary_of([sample for part in parts for sample in part]), whole.summary()
    assert exact is not None and found is not None
    for name in ("p50", "p95", "p99"):
        assert found[name] == pytest.approx(exact[name], rel=0.011, abs=0.002)
    for name in ("max", "mean", "count"):
        assert found[name] == pytest.approx(exact[name], abs=0.002)


def test_nothing_has_no_percentiles():
    assert summary_of([]) is None
    assert Spread().summary() is None
    assert LatencyBook().newest("sink", 0) is None
    assert LatencyBook().total("sink") is None


def test_the_window_slides_and_the_total_stays():
    book = LatencyBook()
    book.note("sink", [(100.0, 3.0)], 0)
    book.note("sink", [(200.0, 1.0)], SLOT_MS)
    newest, total = book.newest("sink", SLOT_MS), book.total("sink")
    assert newest is not None and total is not None
    assert (newest["max"], newest["count"]) == (200.0, 4)
    later = book.newest("sink", SLOT_MS * SLOTS)
    assert later is not None
    assert later["count"] == 1
    assert book.newest("sink", SLOT_MS * (SLOTS + 1)) is None
    assert (total["count"], total["sum"]) == (4, 500.0)


def never(*_):
    return None


def test_a_source_with_a_rate_is_received_when_it_is_due():
    samples = Arrivals().of_range(ReadRange(1, 0, 10, 14), lambda node, split, position: position * 5.0, 1000)
    assert samples == [(50.0, 1.0), (55.0, 1.0), (60.0, 1.0), (65.0, 1.0)]


def test_nothing_is_received_after_it_was_read():
    samples = Arrivals().of_range(ReadRange(1, 0, 0, 1), lambda *_: 9_999.0, 1000)
    assert samples == [(1000, 1.0)]


def test_a_source_without_any_time_is_received_when_its_epoch_begins():
    assert Arrivals().of_range(ReadRange(1, 0, 0, 2), never, 77) == [(77, 1.0), (77, 1.0)]


def test_a_log_is_received_between_two_looks():
    arrivals, name = Arrivals(), (1, 0)
    arrivals.look(1000, {name: 4}, {1: {0: 0}})
    # What was there at the first look has been there for who knows how long: the job counts from its own beginning.
    assert [moment for moment, _ in arrivals.of_range(ReadRange(1, 0, 0, 4), never, 1000)] == [1000.0] * 4
    arrivals.look(2000, {name: 8}, {1: {0: 4}})
    samples = arrivals.of_range(ReadRange(1, 0, 4, 8), never, 2000)
    assert [moment for moment, _ in samples] == [1250.0, 1500.0, 1750.0, 2000.0]


@pytest.mark.parametrize(
    ("times", "received"),
    [([1500, 1700], [1500, 1700]), ([5], [1000]), ([9999], [2000]), ([MIN_TIMESTAMP, 1800], [1800])],
)
def test_a_record_of_a_log_is_believed_within_what_is_possible(times, received):
    arrivals, name = Arrivals(), (1, 0)
    arrivals.look(1000, {name: 4}, {1: {0: 0}})
    arrivals.look(2000, {name: 8}, {1: {0: 4}})
    samples = arrivals.of_range(ReadRange(1, 0, 4, 8), never, 2000, times)
    assert [moment for moment, _ in samples] == received
    assert sum(weight for _, weight in samples) == 4


def test_a_backlog_remembers_since_when_it_waits():
    arrivals, name = Arrivals(), (1, 0)
    arrivals.look(1000, {name: 10}, {1: {0: 0}})
    arrivals.look(2000, {name: 20}, {1: {0: 5}})
    arrivals.look(3000, {name: 20}, {1: {0: 5}})
    assert arrivals.waiting_since(name, 5) == 1000.0
    assert arrivals.waiting_since(name, 19) == 2000.0
    assert arrivals.waiting_since(name, 20) is None


@law
@given(st.integers(0, 10_000), st.integers(1, 5_000_000))
def test_few_samples_stand_for_all_records_of_a_range(start, count):
    samples = Arrivals().of_range(ReadRange(1, 0, start, start + count), lambda *at: float(at[2]), 1e12)
    assert min(count, 10) <= len(samples) <= SAMPLES
    assert sum(weight for _, weight in samples) == count
    assert (samples[0][0], samples[-1][0]) == (start, start + count - 1)
    # Whoever came first has waited longest. One per cent of all records is as near as anybody needs to be.
    last = start + count - 1
    found = summary_of([(last - moment, weight) for moment, weight in samples])
    assert found is not None
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100)):
        assert found[name] == pytest.approx(-(-share * count // 100) - 1, abs=0.012 * count)
    assert found["mean"] == pytest.approx((count - 1) / 2, abs=0.012 * count)
    assert count < 100 or found["p95"] < found["p99"] < found["max"]


@law
@given(st.lists(st.integers(1000, 2000), min_size=1, max_size=40), st.integers(20, 100_000))
def test_what_a_log_tells_of_some_records_is_told_of_all(times, count):
    arrivals, name = Arrivals(), (1, 0)
    arrivals.look(1000, {name: 0}, {1: {0: 0}})
    arrivals.look(2000, {name: count}, {1: {0: 0}})
    samples = arrivals.of_range(ReadRange(1, 0, 0, count), never, 2000, times)
    assert len(samples) <= SAMPLES
    assert sum(weight for _, weight in samples) == count
    moments = [moment for moment, _ in samples]
    assert moments == sorted(moments)
    assert (moments[0], moments[-1]) == pytest.approx((min(times), max(times)))


@law
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=1500))
def test_what_is_remembered_of_a_log_is_bounded(steps):
    arrivals, end, position, now = Arrivals(), 0, 0, 0.0
    for grown, read in steps:
        now += 10
        end += grown
        arrivals.look(now, {(1, 0): end}, {1: {0: position}})
        taken = min(end, position + read)
        for moment, _ in arrivals.of_range(ReadRange(1, 0, position, taken), never, now):
            assert 10 <= moment <= now
        position = taken
