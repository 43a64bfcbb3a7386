"""The inputs of a pipeline under test: rows of a log, each a record with its time or a mark for the watermark.

Rows are dicts. `t` is the event time in ms or None; a row with `watermark` is no record, and raises the watermark of
its split. Everything behind the source sees records with event time, as from any source with a strategy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintstream.api.datastream import DataStream
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.watermark_generators import WatermarkGenerator, WatermarkOutput
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.testing.stepped import ScriptedSource


class Marks(WatermarkGenerator):
    """Makes the watermarks that the rows themselves say."""

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        if "watermark" in event:
            output.emit_watermark(event["watermark"])


def _time_of(row: Any, before: int) -> int:
    return MIN_TIMESTAMP if row["t"] is None else row["t"]


def _is_record(row: Any) -> bool:
    return "watermark" not in row


def read_rows(
    env: StreamExecutionEnvironment,
    folder: Path,
    name: str,
    splits: int = 1,
    strategy: WatermarkStrategy | None = None,
    idle: str | None = None,
) -> DataStream:
    """Return the rows of a source's log that are records; without a strategy event time is what the marks say."""
    chosen = strategy or WatermarkStrategy.for_generator(Marks)
    if chosen.timestamp_assigner() is None and not chosen.is_ingestion:
        chosen = chosen.with_timestamp_assigner(_time_of)
    if idle is not None:
        chosen = chosen.with_idleness(idle)
    stream = env.from_source(ScriptedSource(folder, name, splits)).uid(f"source {name}")
    timed = stream.assign_timestamps_and_watermarks(chosen).uid(f"time of {name}")
    return timed.filter(_is_record).uid(f"records of {name}")
