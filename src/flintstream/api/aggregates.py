"""Built-in aggregates for `window(...).agg(name=...)`: computed on columns, never record by record.

Named so that `from flintstream import *` does not take away Python's own `sum`, `min` and `max`.
"""

from __future__ import annotations

from flintstream.ops.aggregates import Aggregate


def count() -> Aggregate:
    """Return the number of records."""
    return Aggregate("count")


def sum_of(field: str | int | None = None) -> Aggregate:
    """Return the sum of a field, by name or position; without one, of the records themselves."""
    return Aggregate("sum", field)


def min_of(field: str | int | None = None) -> Aggregate:
    """Return the least value of a field; without one, of the records themselves."""
    return Aggregate("min", field)


def max_of(field: str | int | None = None) -> Aggregate:
    """Return the greatest value of a field; without one, of the records themselves."""
    return Aggregate("max", field)


def avg(field: str | int | None = None) -> Aggregate:
    """Return the mean of a field; without one, of the records themselves.

    >>> from flintstream import StreamExecutionEnvironment, avg, bounded, tumbling
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> rows = [{"id": "a", "ts": 0, "t": 20.0}, {"id": "a", "ts": 999, "t": 22.0}]
    >>> readings = env.from_collection(rows).assign_timestamps_and_watermarks(bounded("2s", on="ts"))
    >>> means = readings.key_by("id").window(tumbling("1s")).agg(mean=avg("t"))
    >>> list(means.execute_and_collect())
    [Row(id='a', window_start=0, window_end=1000, mean=21.0)]
    """
    return Aggregate("avg", field)
