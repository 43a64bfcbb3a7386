"""CPU time of a program with all its processes: what a comparison needs where others use the machine as well."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil


def cpu_seconds() -> float:
    """Return what this process and all below it have used so far: JVM, workers, servers."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def cpu_per_million(samples: Sequence[tuple[int, float]], warmup_events: float) -> float:
    """Return CPU seconds per million events behind the warm-up; a sample is (events so far, CPU seconds so far)."""
    warm = next(each for each in samples if each[0] >= warmup_events)
    events, seconds = samples[-1][0] - warm[0], samples[-1][1] - warm[1]
    return round(seconds / events * 1e6, 3)
