"""How eager a watermark is decides between early and complete: one data set, three bounds, and what each costs.

A sensor sends a reading every 100 ms; most arrive at once, some up to a minute late. Readings are summed over ten
seconds. The longer the watermark waits, the fewer readings come too late, and the later a result is there: how far the
sensor's clock is past the window's end when the result comes.

python examples/watermark_eagerness.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/watermark_eagerness.py    in this process

It prints:

    bound   late readings   results wait
      0 s          22.66%          0.3 s
      5 s           4.45%          5.3 s
     60 s           0.00%         60.3 s
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from flintstream import (
    CollectSink,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    bounded,
    tumbling,
)

LATE = OutputTag("late")
READINGS = 20_000
BOUNDS = (0, 5, 60)


def readings() -> list[dict[str, int]]:
    """Return readings in the order of their arrival, with the time at which they were made and at which they came."""
    rng = random.Random(7)
    made = [{"sensor": 1, "ts": n * 100} for n in range(READINGS)]
    for reading in made:
        reading["arrived"] = reading["ts"] + int(min(rng.expovariate(1 / 3000), 60_000))
    return sorted(made, key=lambda reading: reading["arrived"])


class Delay(ProcessWindowFunction[Any, int, Any, Any]):
    """Emits how far the newest reading is past a window's end when it fires; the last windows end with the input."""

    def __init__(self, bound_ms: int) -> None:
        self._bound_ms = bound_ms

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[Any], elements: Iterable[dict[str, int]]
    ) -> Iterable[int]:
        watermark = context.current_watermark()
        if watermark < READINGS * 100:
            yield watermark + self._bound_ms + 1 - context.window().end


def measure(env: StreamExecutionEnvironment, seconds: int) -> tuple[float, float]:
    """Return the share of readings that came too late under a bound, and by how many seconds results come later."""
    stream = env.from_collection(readings()).assign_timestamps_and_watermarks(bounded(seconds * 1000, on="ts"))
    windows = stream.key_by("sensor").window(tumbling("10s")).side_output_late_data(LATE).process(Delay(seconds * 1000))
    delays, late = CollectSink(), CollectSink()
    windows.sink_to(delays)
    windows.get_side_output(LATE).sink_to(late)
    env.execute(f"watermark {seconds} s behind")
    return len(late.results) / READINGS, sum(delays.results) / len(delays.results) / 1000


def main() -> None:
    print("bound   late readings   results wait")
    for seconds in BOUNDS:
        share, wait = measure(StreamExecutionEnvironment.get_execution_environment(), seconds)
        print(f"{seconds:>3} s   {share:>13.2%}   {wait:>10.1f} s")


if __name__ == "__main__":
    main()
