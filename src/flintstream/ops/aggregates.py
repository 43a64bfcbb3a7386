"""Built-in aggregates: as values the user declares, and the table of what computes each on columns.

What is computed by columns (`aggregates_numbers`, `aggregates_lists`, `aggregates_ordered`) and record by record
(`aggregates_record`) is the same; this file names them once for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream.errors import UnsupportedError, describe
from flintstream.ops.aggregates_column import ColumnAggregate
from flintstream.ops.aggregates_lists import ApproxDistinct, Distinct, Quantile, TopN
from flintstream.ops.aggregates_numbers import Average, Count, Extreme, Sum, Variance
from flintstream.ops.aggregates_ordered import Collected, Edge
from flintstream.ops.aggregates_vectorised import UserAggregate

__all__ = ["Aggregate", "ColumnAggregate", "column_aggregate", "is_ordered"]

ORDERED = frozenset(["first", "last", "collect_list"])


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over a field of the records (None: over the records themselves), with what else it was given."""

    kind: str
    field: str | int | None = None
    options: tuple[Any, ...] = ()

    def __str__(self) -> str:
        field = () if self.field is None else (self.field,)
        return f"{self.kind}({', '.join(map(str, (*field, *self.options)))})"


def is_ordered(aggregate: Aggregate) -> bool:
    """Whether a result depends on the order in which records came, so that they are not folded before it is known."""
    return aggregate.kind in ORDERED


def column_aggregate(aggregate: Aggregate, prefix: str) -> ColumnAggregate:
    """Return the columnar form of a declared aggregate."""
    field, options = aggregate.field, aggregate.options
    match aggregate.kind:
        case "count":
            return Count(prefix, None)
        case "sum":
            return Sum(prefix, field)
        case "avg":
            return Average(prefix, field)
        case "min" | "max":
            return Extreme(prefix, field, aggregate.kind)
        case "variance" | "stddev":
            return Variance(prefix, field, population=options[0], root=aggregate.kind == "stddev")
        case "first" | "last":
            return Edge(prefix, field, last=aggregate.kind == "last")
        case "count_distinct":
            return Distinct(prefix, field)
        case "approx_count_distinct":
            return ApproxDistinct(prefix, field, *options)
        case "quantile" | "approx_quantile":
            return Quantile(prefix, field, *options)
        case "top_n":
            return TopN(prefix, field, *options)
        case "collect_list":
            return Collected(prefix, field)
        case "computed_by":
            return UserAggregate(prefix, field, *options)
        case _:
            raise UnsupportedError(describe(f"there is no built-in aggregate {aggregate.kind!r}"))
