"""Programs of functions that take many records at once, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flintstream import (
    DataStream,
    Groups,
    OutputTag,
    TimeWindow,
    Types,
    VectorizedAggregateFunction,
    computed_by,
    count,
    session,
    tumbling,
    vectorized,
)
from tests.spec.functions import evaluate, show, show_late
from tests.spec.programs import program

RECORD = Types.DICT({"key": Types.STRING(), "t": Types.LONG(), "v": Types.LONG()})


@vectorized("pandas", input_type=RECORD)
def doubled(frame: Any) -> Any:
    return frame.assign(v=frame.v * 2)


@vectorized("arrow", input_type=RECORD)
def positive(batch: pa.RecordBatch) -> Any:
    return np.asarray(batch.column("v").fill_null(0)) > 0


@vectorized("numpy")
def with_half(columns: Any) -> Any:
    rows = np.repeat(np.arange(len(columns["v"])), 2)
    halves = np.where(np.arange(len(rows)) % 2, columns["v"][rows] // 2, columns["v"][rows])
    return {**{name: column[rows] for name, column in columns.items()}, "v": halves}, rows


@program
def vectorised_chain(stream: DataStream, keyed: bool = False) -> dict[str, DataStream]:
    """Double, keep what is positive, and add half of each behind it."""
    late = OutputTag("late")
    begin = stream.key_by("key") if keyed else stream
    found = begin.map(doubled).uid("map").filter(positive).uid("filter").flat_map(with_half).uid("flat map")
    windows = found.key_by("key").window(tumbling("10s")).side_output_late_data(late)
    results, shown = evaluate(windows, "list", False, None)
    return {"main": shown, "late": results.get_side_output(late).map(show_late).uid("late as text")}


class Median(VectorizedAggregateFunction):
    """Keeps all values."""

    def accumulate(self, values: pa.Array) -> Any:
        return {"all": self.listed(values)}

    def merge(self, columns: Any, groups: Groups) -> Any:
        return {"all": groups.joined(columns["all"])}

    def get_result(self, columns: Any) -> Any:
        lists = columns["all"].to_pylist()
        return pa.array([float(np.median(each)) if each else None for each in lists], pa.float64())


def show_row(row: Any) -> str:
    return show(row.key, TimeWindow(row.window_start, row.window_end), row.median, row.n)


@program
def vectorised_median(stream: DataStream, window: Any = None, lateness: int = 0) -> dict[str, DataStream]:
    late = OutputTag("late")
    windows = stream.key_by("key").window(window or tumbling("10s")).side_output_late_data(late)
    found = windows.allowed_lateness(lateness).agg(median=computed_by(Median(), "v", float), n=count()).uid("window")
    side = found.get_side_output(late).map(show_late).uid("late as text")
    return {"main": found.map(show_row).uid("as text"), "late": side}


@program
def vectorised_median_of_sessions(stream: DataStream, gap: str) -> dict[str, DataStream]:
    return vectorised_median(stream, session(gap))
