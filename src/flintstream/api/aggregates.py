"""Built-in aggregates for `window(...).agg(name=...)`: computed on columns wherever the window can be.

Each takes a field of the records, by name or position, or without one the records themselves. `None` is no value: all
but `count()` pass over it. Results are the same to the last bit however the input is cut into batches and in whatever
order it comes, unless that order is what they are about (`first_of`, `last_of`, `collect_list`: event time, and records
of one time in the order in which they came).

Named so that `from flintstream import *` does not take away Python's own `sum`, `min` and `max`.
"""

from __future__ import annotations

from flintstream.api.arguments import TypeLike, read_type, require
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.model.functions_vectorised import VectorizedAggregateFunction
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


def variance(field: str | int | None = None, population: bool = False) -> Aggregate:
    """Return the variance of a sample, divided by n - 1, or of a whole population, by n; exact, then rounded.

    None if there are too few values: less than two, or none at all.
    """
    return Aggregate("variance", field, (population,))


def stddev(field: str | int | None = None, population: bool = False) -> Aggregate:
    """Return the standard deviation, the root of `variance`."""
    return Aggregate("stddev", field, (population,))


def first_of(field: str | int | None = None) -> Aggregate:
    """Return the value with the least timestamp, of several the one that came first."""
    return Aggregate("first", field)


def last_of(field: str | int | None = None) -> Aggregate:
    """Return the value with the greatest timestamp, of several the one that came last."""
    return Aggregate("last", field)


def count_distinct(field: str | int | None = None) -> Aggregate:
    """Return how many different values there are, exactly: `len(set(...))`."""
    return Aggregate("count_distinct", field)


def approx_count_distinct(field: str | int | None = None, relative_error: float = 0.02) -> Aggregate:
    """Return about how many different values there are, in little memory (HyperLogLog).

    Args:
        field: name or position; None: the record itself.
        relative_error: the standard error of the result, from 0.002 to 0.25.
    """
    return Aggregate("approx_count_distinct", field, (_between("relative_error", relative_error, 0.002, 0.25),))


def quantile(field: str | int | None = None, q: float = 0.5) -> Aggregate:
    """Return a quantile, exactly: interpolated between the two nearest numbers, as numpy does; keeps all numbers."""
    return Aggregate("quantile", field, (_between("q", q, 0, 1),))


def median(field: str | int | None = None) -> Aggregate:
    """Return the median, exactly."""
    return Aggregate("quantile", field, (0.5,))


def approx_quantile(field: str | int | None = None, q: float = 0.5, relative_error: float = 0.01) -> Aggregate:
    """Return a quantile in little memory: the number at that rank, not further off than `relative_error` times itself.

    Args:
        field: name or position; None: the record itself.
        q: from 0, the least, to 1, the greatest.
        relative_error: from 1e-6 to 0.5; the smaller, the more is kept.
    """
    options = _between("q", q, 0, 1), _between("relative_error", relative_error, 1e-6, 0.5)
    return Aggregate("approx_quantile", field, options)


def top_n(n: int, field: str | int | None = None) -> Aggregate:
    """Return the n greatest values as a list, the greatest first."""
    return Aggregate("top_n", field, (int(_between("n", n, 1, 1 << 31)),))


def collect_list(field: str | int | None = None) -> Aggregate:
    """Return all values as a list, by event time.

    >>> from flintstream import StreamExecutionEnvironment, bounded, collect_list, session
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> clicks = [("ann", 2, "/b"), ("ann", 1, "/a"), ("ann", 9, "/c")]
    >>> stream = env.from_collection(clicks).assign_timestamps_and_watermarks(bounded("5ms", on=1))
    >>> visits = stream.key_by(0).window(session("4ms")).agg(pages=collect_list(2))
    >>> [row.pages for row in visits.execute_and_collect()]
    [['/a', '/b'], ['/c']]
    """
    return Aggregate("collect_list", field)


def computed_by(
    function: VectorizedAggregateFunction, field: str | int | None = None, type: TypeLike = None
) -> Aggregate:
    """Return what a vectorised aggregate of your own computes.

    Args:
        function: what accumulates, merges and gives results, on columns.
        field: name or position; None: the records themselves, as a RecordBatch if they have fields.
        type: the type of the values; needed where they may be None or numbers of several kinds.
    """
    remedy = "pass an object of a subclass of VectorizedAggregateFunction"
    checked = require(function, VectorizedAggregateFunction, "a VectorizedAggregateFunction", remedy)
    return Aggregate("computed_by", field, (checked, read_type(type)))


def _between(name: str, value: float, least: float, most: float) -> float:
    if not least <= value <= most:
        line = users_line()
        what = f"{name}={value!r} is out of range"
        raise InvalidArgumentError(describe(what, line, f"give a number from {least:g} to {most:g}"), location=line)
    return value
