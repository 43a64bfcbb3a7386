"""Adding up by keys that are whole numbers close to each other, as ids mostly are, without a table of hashes.

A key is then its own place in an array, so that a row costs one step in memory for each sum; with a million keys the
grouping of Arrow takes two to four times as long. Its own file because it is a second way to the same result: rows of
one key become one row, in the order of the keys here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flintstream.ops.aggregates_column import Step, flat

_LEAST_ROWS = 1_000
_MOST_PLACES_PER_ROW = 2
"""An array with more places than that is more work to make and to go through than it saves."""


def summed_densely(table: pa.Table, key: str, steps: Sequence[Step]) -> dict[str, pa.Array] | None:
    """Return the columns of a table with one row for each key; None if its keys or its steps are others."""
    if table.num_rows < _LEAST_ROWS or not all(_is_sum(table, step) for step in steps):
        return None
    column = table.column(key)
    if not pa.types.is_int64(column.type) or column.null_count:
        return None
    keys = flat(column).to_numpy()
    low, high = int(keys.min()), int(keys.max())
    if high - low >= _MOST_PLACES_PER_ROW * len(keys):
        return None
    places = keys - low if low else keys
    counts = np.bincount(places, minlength=high - low + 1)
    used = np.flatnonzero(counts)
    found = {key: pa.array(used + low)}
    for name, function, output in steps:
        if function == "count_all":
            found[output] = pa.array(counts[used])
        else:
            sums = np.zeros(len(counts), np.int64)
            np.add.at(sums, places, flat(table.column(name)).to_numpy())
            found[output] = pa.array(sums[used])
    return found


def _is_sum(table: pa.Table, step: Step) -> bool:
    name, function, _ = step
    if function == "count_all":
        return True
    column = table.column(name) if function == "sum" else None
    return column is not None and pa.types.is_int64(column.type) and not column.null_count
