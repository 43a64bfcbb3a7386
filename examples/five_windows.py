"""The same records in five kinds of windows: tumbling, sliding, sessions with a fixed and with their own gap, by count.

python examples/five_windows.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/five_windows.py    in this process

It prints:

    tumbling 0-10 3, 10-20 3, 20-30 1, 40-50 1
    sliding -10-10 3, 0-20 6, 10-30 4, 20-40 1, 30-50 1, 40-60 1
    session 0-20.5 6, 21-28.5 1, 40-47.5 1
    own gap 0-10 3, 11-35.5 4, 40-64 1
    by count 3, 3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flintstream import (
    CollectSink,
    EventTimeSessionWindows,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
    bounded,
    session,
    sliding,
    tumbling,
)

SECONDS = [0, 3, 4, 11, 12, 13, 21, 40]


class Count(ProcessWindowFunction):
    """A window and how many records it has."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[tuple[int, str]]:
        window = context.window()
        yield window.start, f"{window.start / 1000:g}-{window.end / 1000:g} {len(list(elements))}"


class Number(WindowFunction):
    """The time of a window's last record, and how many it has."""

    def apply(self, key: Any, window: Any, inputs: Any) -> list[tuple[int, str]]:
        records = list(inputs)
        return [(records[-1]["time"], str(len(records)))]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    records = [{"user": "ann", "time": second * 1000} for second in SECONDS]
    stream = env.from_collection(records).assign_timestamps_and_watermarks(bounded("0s", on="time")).key_by("user")
    # Later records wait longer for the next one.
    own_gap = EventTimeSessionWindows.with_dynamic_gap(lambda record: 4000 + record["time"] // 2)
    windows = {
        "tumbling": stream.window(tumbling("10s")).process(Count()),
        "sliding": stream.window(sliding("20s", "10s")).process(Count()),
        "session": stream.window(session("7500ms")).process(Count()),
        "own gap": stream.window(own_gap).process(Count()),
        "by count": stream.count_window(3).apply(Number()),
    }
    sinks = {name: CollectSink() for name in windows}
    for name, counts in windows.items():
        counts.sink_to(sinks[name])
    env.execute("five windows")
    for name, sink in sinks.items():
        print(name, ", ".join(text for _, text in sorted(sink.results)))


if __name__ == "__main__":
    main()
