"""Draws the pictures of docs/concepts by `plot_time()`, from small jobs on the in-process runtime.

Their data is made from a seed, so that drawing them again gives the same files.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

from flintstream import (
    DataStream,
    KeyedStream,
    StreamExecutionEnvironment,
    after_count,
    after_watermark,
    bounded,
    count,
    each,
    session,
    tumbling,
)

_PICTURES = Path(__file__).resolve().parent.parent / "docs" / "concepts" / "pictures"


def records(moments: list[float], delay: float, seed: int) -> list[dict[str, object]]:
    """Return a record for each moment, in seconds, in the order in which they come with random delays."""
    chance = random.Random(seed)
    arrivals = sorted((moment + chance.expovariate(1 / delay), moment) for moment in moments)
    return [{"user": "ann", "ts": round(moment * 1000)} for _, moment in arrivals]


def stream(moments: list[float], delay: float, bound: str, seed: int = 5) -> DataStream:
    """Return a stream of records that are delayed, with a watermark that waits for some of them."""
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)
    arriving = env.from_collection(records(moments, delay, seed))
    return arriving.assign_timestamps_and_watermarks(bounded(bound, on="ts"))


def steady(seconds: int, step: float = 0.5) -> list[float]:
    """Return moments at equal distances."""
    return [number * step for number in range(round(seconds / step))]


def by_user(moments: list[float], delay: float, bound: str, seed: int = 5) -> KeyedStream:
    """Return `stream` by its only key."""
    return stream(moments, delay, bound, seed).key_by("user")


def time() -> DataStream:
    """Records and their watermark."""
    return stream(steady(40), 2.5, "4s")


def windows() -> DataStream:
    """Tumbling windows, on time."""
    return by_user(steady(40), 1.2, "5s").window(tumbling("10s")).agg(n=count())


def sessions() -> DataStream:
    """Three visits of a user."""
    chance = random.Random(2)
    visits = [(0.0, 9), (16.0, 14), (38.0, 6)]
    moments = [start + chance.uniform(0, length) for start, length in visits for _ in range(14)]
    return by_user(sorted(moments), 1.0, "3s").window(session("4s")).agg(n=count())


def panes() -> DataStream:
    """Early, on-time and late panes."""
    trigger = after_watermark(early=after_count(7), late=each())
    return (
        by_user(steady(40), 2.2, "3s").window(tumbling("10s")).allowed_lateness("10s").trigger(trigger).agg(n=count())
    )


def late() -> DataStream:
    """Records that are too late for their windows."""
    return by_user(steady(40), 2.5, "2s").window(tumbling("10s")).agg(n=count())


_JOBS: dict[str, Callable[[], DataStream]] = {
    "time": time,
    "windows": windows,
    "sessions": sessions,
    "panes": panes,
    "late": late,
}


def main(folder: Path, ending: str = "svg") -> None:
    """Draw all pictures into a folder."""
    for name, job in _JOBS.items():
        plotted = job()
        plotted.plot_time(folder / f"{name}.{ending}")
        for _ in plotted.execute_and_collect(f"picture of {name}"):
            pass


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _PICTURES, *sys.argv[2:3])
