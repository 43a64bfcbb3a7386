"""Columns of dates and times as Python's objects, by NumPy, which makes them many times faster than Arrow does.

Both give the same objects. Where NumPy has none (years that Python does not know, absent values) or Arrow's are made in
another way (time zones but UTC), there is nothing here, and the caller leaves it to Arrow.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

_UTC = ZoneInfo("UTC")
_FIRST, _LAST = np.datetime64("0001-01-01", "D"), np.datetime64("9999-12-31T23:59:59.999999", "us")


def times_of(array: pa.Array) -> list[Any] | None:
    """Return a column's dates, times or durations; None if it has others, or none."""
    kind = array.type
    is_moment = pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC")
    is_duration = pa.types.is_duration(kind) and kind.unit == "us"
    if not (is_moment or is_duration or pa.types.is_date32(kind)) or array.null_count or not len(array):
        return None
    found = array.to_numpy(zero_copy_only=False)
    if np.isnat(found).any():
        return None
    if not is_duration and not _FIRST <= found.min() <= found.max() <= _LAST:
        return None
    values: list[Any] = found.tolist()
    return [value.replace(tzinfo=_UTC) for value in values] if is_moment and kind.tz else values
