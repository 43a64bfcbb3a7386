"""What every rival shares: its arguments, its keys and the one JSON line it prints.

A file of its own because each rival runs in another virtual environment: this one needs the standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Event i has key i * KEY_MULTIPLIER % keys: the multiplier is a prime above any number of keys, so every key comes
# equally often and neighbouring events have keys far apart, in every engine, without a random number per event.
KEY_MULTIPLIER = 2654435761


def argument_parser(doc: str | None, *, events: int, keys: int, warmup: bool = True) -> argparse.ArgumentParser:
    """The arguments that all rivals take, with the defaults of this one."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--events", type=int, default=events, help="events in all, warm-up included")
    parser.add_argument("--keys", type=int, default=keys, help="different keys")
    parser.add_argument("--parallelism", type=int, default=2, help="parallel instances of the keyed operator")
    if warmup:
        parser.add_argument("--warmup", type=float, default=0.3, help="share of the events that is not measured")
    return parser


def emit(name: str, events: int, seconds: float, settings: dict[str, Any], **more: Any) -> None:
    """Print the rival's one line of JSON."""
    line = {"name": name, "events": events, "seconds": round(seconds, 3)}
    line["events_per_second"] = round(events / seconds, 1)
    print(json.dumps({**line, **more, "settings": settings}), flush=True)


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile, rounded to tenths of a millisecond."""
    return {"p50": round(statistics.median(values), 4), "p99": round(quantile(values, 0.99), 4)}


def steady(samples: Sequence[tuple[float, int]], warmup_events: float) -> tuple[int, float]:
    """Events and seconds between the first sample at or after the warm-up and the last one.

    Args:
        samples: (seconds on any clock, events seen so far), in order; the last one is the end of the work.
        warmup_events: how many events to leave out.
    """
    warm = next(((t, n) for t, n in samples if n >= warmup_events), samples[-1])
    last = next((t, n) for t, n in samples if n == samples[-1][1])
    if last[1] - warm[1] < (last[1] - warmup_events) / 2 or last[0] <= warm[0]:
        raise SystemExit(f"too few samples to measure a steady state; {samples!r}; raise --events")
    return last[1] - warm[1], last[0] - warm[0]


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A directory for checkpoints, beside the rivals' environments if these are told where to be, and gone after."""
    home = os.environ.get("FLINTSTREAM_BENCH_HOME")
    parent = Path(home) / "scratch" if home else None
    if parent:
        parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
