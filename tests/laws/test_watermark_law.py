"""The batching law for watermarks that depend on all records of a split in their order: generators, ranges of time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from tests.laws.programs import (
    Program,
    process_after_window,
    timers,
    union,
    window_on_window,
    windows_columns,
    windows_process,
    windows_session,
)
from tests.laws.runs import Input, Way, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, SPLITS, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)
PROGRAMS: list[Program] = [
    timers,
    windows_process,
    windows_columns,
    windows_session,
    window_on_window,
    process_after_window,
    union,
]


class Scripted(WatermarkGenerator):
    """Remembers several things, and lets each of them move the watermark at its own time."""

    def __init__(self, lag: int, period: int, punctual: int) -> None:
        self._lag = lag
        self._period = period
        self._punctual = punctual
        self._seen: list[int] = []
        self._total = 0

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        self._seen = [*self._seen, timestamp][-5:]
        self._total += 1
        if event["n"] % self._punctual == 0:
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._total % self._period == 0:
            output.emit_watermark(max(self._seen) - self._lag - self._total % 3)


GENERATORS = st.builds(
    lambda *script: WatermarkStrategy.for_generator(partial(Scripted, *script)).with_timestamp_column("ts"),
    st.integers(-2, 15),
    st.integers(1, 6),
    st.integers(2, 9),
)
RANGES = st.tuples(st.none() | st.integers(0, 30), st.integers(31, 60))
STRATEGIES = GENERATORS | st.builds(lambda strategy, limits: strategy.between(*limits), GENERATORS, RANGES)


@pytest.mark.parametrize("program", PROGRAMS)
@law(4)
@given(split=LONG_SPLIT, strategy=STRATEGIES, way=ways())
def test_one_split_has_one_result(program, split, strategy, way):
    records = Input(numbered([split]), strategy=strategy)
    assert run(program, records, way, local_env) == run(program, records, PLAIN, local_env)


@pytest.mark.parametrize("program", PROGRAMS)
@law(3)
@given(left=SPLITS, right=SPLITS, strategy=GENERATORS, way=ways(deterministic=True))
def test_deterministic_order_has_one_result(program, left, right, strategy, way):
    records = Input(numbered(left), numbered(right, 100), strategy=strategy)
    assert run(program, records, way, local_env) == run(program, records, Way(deterministic=True), local_env)
