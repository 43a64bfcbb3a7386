"""When a job's parallelism follows its backlog: the decision alone, on loads that tests make up."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flintstream.jobs.rescale import DOWN_AFTER_MS, LATE_MS, REST_MS, UP_AFTER_MS, Load, Scaling, decide

STEP_MS = 2_000
loads = st.floats(0.0, 40.0)
bounds = st.tuples(st.integers(1, 16), st.integers(1, 16)).map(sorted)


def simulate(work: list[float], start: int, least: int, most: int) -> list[tuple[int, int]]:
    """Return each change as (time, parallelism) of a job with so much to do (in busy tasks) at each look."""
    has, backlog, scaling, changes = start, 0.0, Scaling(0), []
    for number, load in enumerate(work):
        now = number * STEP_MS
        # What cannot be done now has to be done later.
        backlog = max(0.0, backlog + (load - has) * STEP_MS)
        busy = 1.0 if backlog else min(1.0, load / has)
        seen = Load(busy, backlog / has)
        scaling, wanted = decide(scaling, now, seen, has, least, most)
        if wanted is not None and wanted != has:
            changes.append((now, wanted))
            has = wanted
    return changes


@given(work=st.lists(loads, max_size=200), start=st.integers(1, 16), limits=bounds)
def test_it_stays_between_its_bounds_and_does_not_hurry(work: list[float], start: int, limits: list[int]) -> None:
    least, most = limits
    changes = simulate(work, start, least, most)
    assert all(least <= wanted <= most for _, wanted in changes)
    moments = [moment for moment, _ in changes]
    assert all(later - earlier >= REST_MS for earlier, later in pairwise(moments))


@given(load=loads, start=st.integers(1, 16), limits=bounds)
def test_under_an_even_load_it_settles(load: float, start: int, limits: list[int]) -> None:
    least, most = limits
    changes = simulate([load] * 2_000, start, least, most)
    # It settles, and never goes back and forth.
    assert len(changes) <= 10
    assert not changes or changes[-1][0] < 1_000 * STEP_MS
    widths = [wanted for _, wanted in changes[1:]]
    assert widths in (sorted(widths), sorted(widths, reverse=True))
    ends = changes[-1][1] if changes else start
    # A job that falls behind is as wide as it may be, and one that idles is not wider than it needs to be.
    if load > ends:
        assert ends == most
    if ends > least and ends > 1:
        assert load / ends >= 0.2


def test_a_rise_must_last_and_a_fall_even_longer() -> None:
    busy, idle, fine = Load(1.0, 10 * LATE_MS), Load(0.1, 0.0), Load(0.6, 0.0)
    scaling, wanted = decide(Scaling(0), REST_MS, busy, 2, 1, 8)
    assert wanted is None
    _, wanted = decide(scaling, REST_MS + UP_AFTER_MS - 1, busy, 2, 1, 8)
    assert wanted is None
    _, wanted = decide(scaling, REST_MS + UP_AFTER_MS, busy, 2, 1, 8)
    assert wanted == 4
    # A pause in between, and it begins anew.
    scaling, wanted = decide(scaling, REST_MS + 1, fine, 2, 1, 8)
    assert (scaling.high_ms, wanted) == (None, None)
    scaling, wanted = decide(Scaling(0), REST_MS, idle, 4, 1, 8)
    assert wanted is None
    _, wanted = decide(scaling, REST_MS + DOWN_AFTER_MS - 1, idle, 4, 1, 8)
    assert wanted is None
    _, wanted = decide(scaling, REST_MS + DOWN_AFTER_MS, idle, 4, 1, 8)
    assert wanted == 2


def test_a_backlog_that_shrinks_goes_by_itself() -> None:
    scaling, _ = decide(Scaling(0), REST_MS, Load(1.0, 100 * LATE_MS), 2, 1, 8)
    _, wanted = decide(scaling, REST_MS + UP_AFTER_MS, Load(1.0, 90 * LATE_MS), 2, 1, 8)
    assert wanted is None


def test_bounds_hold_at_once() -> None:
    assert decide(Scaling(0), 1, Load(0.5, None), 1, 3, 8)[1] == 3
    assert decide(Scaling(0), 1, Load(0.5, None), 9, 3, 8)[1] == 8


def test_a_load_is_read_from_a_report() -> None:
    report = {
        "records_in_per_second": 100.0,
        "operators": {"a": {"busy": 0.25}, "b": {"busy": 0.75}, "c": {}},
        "sources": {"s": {"lag_records": 500, "lag_ms": None}, "t": {"lag_ms": 700}},
    }
    assert Load.of(report) == Load(0.75, 5000.0)
    assert Load.of({}) == Load(0.0, None)
    assert Load.of({"sources": {"s": {"lag_records": 5}}}) == Load(0.0, float("inf"))
    assert Load.of({"sources": {"s": {"lag_records": 0}}, "operators": None}) == Load(0.0, 0.0)


def test_a_driver_at_its_first_epoch_is_not_idle() -> None:
    at_work = {"operators": {"a": {"busy": 0.0}}, "checkpoint": None, "epoch_started_ms": 5}
    assert Load.of(at_work) is None
    assert Load.of({**at_work, "epoch_started_ms": None}) == Load(0.0, None)
    assert Load.of({**at_work, "checkpoint": {"epoch": 3}}) == Load(0.0, None)
    idle, long = Load(0.1, 0.0), 100 * DOWN_AFTER_MS
    scaling, wanted = decide(Scaling(0, low_ms=0), long, None, 4, 1, 8)
    assert (scaling, wanted) == (Scaling(long), None)
    # Only from then on it rests, and then is watched.
    scaling, _ = decide(scaling, long + REST_MS - 1, idle, 4, 1, 8)
    assert scaling.low_ms is None
    scaling, _ = decide(scaling, long + REST_MS, idle, 4, 1, 8)
    assert scaling.low_ms == long + REST_MS
