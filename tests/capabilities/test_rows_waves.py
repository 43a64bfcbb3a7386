"""Row 37: the sum of waves is zero in event time; by arrival it is noise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from flintstream import TumblingProcessingTimeWindows, bounded, tumbling

EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "sine_waves.py"))


@pytest.mark.row(37)
def test_waves_cancel_out_in_event_time_and_not_by_arrival(new_env):
    EXAMPLE["readings"].__globals__["SECONDS"] = 4
    waves = new_env(2).from_source(EXAMPLE["Sensors"](), bounded("1s", on=0), "sensors")
    by_time = waves.window_all(tumbling("1s")).process(EXAMPLE["Sum"]("event"))
    by_arrival = waves.window_all(TumblingProcessingTimeWindows.of("1s")).process(EXAMPLE["Sum"]("arrival"))
    sums = list(by_time.union(by_arrival).execute_and_collect())
    assert len([kind for kind, _ in sums if kind == "event"]) == 4
    assert all(abs(total) < 1e-9 for kind, total in sums if kind == "event")
    assert any(abs(total) > 1e-3 for kind, total in sums if kind == "arrival")
