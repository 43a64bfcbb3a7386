"""The list of pipelines, and what they share: fixed inputs and event time.

A pipeline is a function from a stream of (key, timestamp, number) to the streams whose records are compared. All
modules in this folder import only what PyFlink has too, at PyFlink's paths, so that `tools/record_flink.py` can load
them with `pyflink` in the place of `flintstream`. The first field of every record that a pipeline emits is its key:
records are compared in order within a key only, since Flink promises no more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import DataStream, ProcessWindowFunction

Record = tuple[str, int, int]
Build = Callable[[DataStream], dict[str, DataStream]]


def record_type():
    """The type of all inputs; a new one each time, for PyFlink's keep hold of Java objects once they were used."""
    return Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


@dataclass(frozen=True)
class Pipeline:
    """A program to be run on Flink and on Flintstream with the same input."""

    name: str
    records: list[Record]
    build: Build
    modes: tuple[str, str]


PIPELINES: dict[str, Pipeline] = {}


def pipeline(records: list[Record], only: str = "") -> Callable[[Build], Build]:
    """Enter the function below into the list, to be run on these records.

    Args:
        records: The input.
        only: The one mode in which PyFlink runs it as Flink does: "process" or "thread". The others give the same in
            both modes. README.md says what is wrong in the other one.
    """

    def enter(build: Build) -> Build:
        modes = (only, only) if only else ("process", "thread")
        PIPELINES[build.__name__] = Pipeline(build.__name__, records, build, modes)
        return build

    return enter


def shuffled(seed: int, count: int = 60, keys: str = "abc", step: int = 4, disorder: int = 10) -> list[Record]:
    """Return records whose time goes up by `step` and strays by up to `disorder` to either side."""
    rng = random.Random(seed)
    return [
        (rng.choice(keys), max(0, at * step + rng.randrange(-disorder, disorder + 1)), rng.randrange(100))
        for at in range(count)
    ]


def with_late(seed: int, count: int = 60, keys: str = "ab", back: int = 60, share: float = 0.2) -> list[Record]:
    """Return slightly shuffled records, some of which come very late: up to `back` behind."""
    rng = random.Random(seed)
    return [
        (key, max(0, ts - rng.randrange(back)) if rng.random() < share else ts, number)
        for key, ts, number in shuffled(seed + 1, count, keys, disorder=4)
    ]


class Stamp(TimestampAssigner):
    """Event time is the second field."""

    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def timed(events: DataStream, bound: int = 20) -> DataStream:
    """Return the same records with event time and a watermark that is `bound` and 1 ms behind the highest."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    return events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))


def key_of(record):
    """The key of an input record, and of everything that begins with its key."""
    return record[0]


def keyed(events: DataStream, bound: int = 20) -> DataStream:
    """Return the records with event time, by key."""
    return timed(events, bound).key_by(key_of, key_type=Types.STRING())


class Contents(ProcessWindowFunction):
    """Emits key, the borders of the window, the watermark and all numbers in it."""

    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, context.current_watermark(), [element[2] for element in elements]

    def clear(self, context):
        pass


class Merged(Contents):
    """The same with the numbers sorted: when windows merge, Flink promises no order."""

    def process(self, key, context, elements):
        for *borders, numbers in super().process(key, context, elements):
            yield (*borders, sorted(numbers))


class EachWindow(Contents):
    """The same with the window in the key: timers of several windows for one moment fire in any order."""

    def process(self, key, context, elements):
        for _, start, *rest in super().process(key, context, elements):
            yield (f"{key} in {start}", start, *rest)
