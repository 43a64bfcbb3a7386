"""Windows with built-in aggregates give the same on columns as record by record, through the whole engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import DataStream, count, session, sliding, sum_of, tumbling
from tests.laws.programs import Outputs, Slowly, every_aggregate, with_late
from tests.laws.runs import Input, Life, Way, run
from tests.laws.test_batching_law import LONG_SPLIT, law, local_env, numbered, ways

ASSIGNERS = [tumbling("10ms"), sliding("9ms", "3ms"), sliding("10ms", "4ms", "1ms"), session("4ms")]


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=str)
@law(8)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_columns_equal_records(assigner: Any, split: Any, bound: int, way: Way) -> None:
    def windows(left: DataStream, right: DataStream) -> Outputs:
        return with_late(left.key_by("key").window(assigner), lambda w: w.agg(**every_aggregate()))

    def windows_by_record(left: DataStream, right: DataStream) -> Outputs:
        slow = left.key_by("key").window(assigner).trigger(Slowly())
        return with_late(slow, lambda w: w.agg(**every_aggregate()))

    records = Input(numbered([split]), bound=bound)
    columns, rows = run(windows, records, way, local_env), run(windows_by_record, records, Way(), local_env)
    assert columns["windows main"] == rows["windows_by_record main"]
    assert columns["windows late"] == rows["windows_by_record late"]


@pytest.mark.parametrize("assigner", [session("1s"), sliding("1s", "100ms")], ids=str)
def test_open_windows_move_with_their_keys(assigner: Any) -> None:
    """What one partition has replaced must not take away what another has, when both become one."""
    split = [{"key": f"k{n % 300}", "ts": n, "n": n} for n in range(480)]
    # Many windows are opened, then few of them change in each epoch, so that the state is a chain of small changes.
    lives = [Life(60, 2, stop_after=5), Life(6, 2, stop_after=9), Life(50, 1, stop_after=1), Life(40, 3)]

    def windows(left: DataStream, right: DataStream) -> Outputs:
        return with_late(left.key_by("key").window(assigner), lambda w: w.agg(n=count(), total=sum_of("n")))

    assert run(windows, Input([split]), Way(lives), local_env) == run(windows, Input([split]), Way(), local_env)
