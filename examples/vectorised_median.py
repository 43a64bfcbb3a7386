"""Vectorised functions: a map on pandas columns, and a median of one's own over windows.

It prints:

    berlin 0 to 10 s: 20.5 degrees
    cork 0 to 10 s: 15.0 degrees
    berlin 10 to 20 s: 25.0 degrees
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream import (
    Groups,
    StreamExecutionEnvironment,
    VectorizedAggregateFunction,
    computed_by,
    monotonous,
    tumbling,
    vectorized,
)

READINGS = [
    {"city": "berlin", "ts": 1000, "fahrenheit": 68.0},
    {"city": "cork", "ts": 2000, "fahrenheit": 59.0},
    {"city": "berlin", "ts": 3000, "fahrenheit": 69.8},
    {"city": "berlin", "ts": 12_000, "fahrenheit": 77.0},
]


@vectorized("pandas")
def to_celsius(frame: Any) -> Any:
    """Convert all readings at once."""
    return frame.assign(celsius=(frame.fahrenheit - 32) / 1.8)


class Median(VectorizedAggregateFunction):
    """Keeps all values of a window until its result is wanted."""

    def accumulate(self, values: pa.Array) -> Mapping[str, pa.Array]:
        return {"all": self.listed(values)}

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups) -> Mapping[str, pa.Array]:
        return {"all": groups.joined(columns["all"])}

    def get_result(self, columns: Mapping[str, pa.Array]) -> Any:
        return np.array([np.median(values) for values in columns["all"].to_pylist()])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = env.from_collection(READINGS).assign_timestamps_and_watermarks(monotonous(on="ts"))
    windows = readings.map(to_celsius).key_by("city").window(tumbling("10s"))
    medians = windows.agg(median=computed_by(Median(), "celsius", float)).execute_and_collect("medians")
    for row in sorted(medians, key=lambda row: (row.window_start, row.city)):
        seconds = f"{row.window_start // 1000} to {row.window_end // 1000} s"
        print(f"{row.city} {seconds}: {row.median:.1f} degrees")


if __name__ == "__main__":
    main()
