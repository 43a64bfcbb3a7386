"""Which windows are computed on columns, and by what: the one place that API, planner and combiner ask.

Others, with a trigger, an evictor, allowed lateness or panes, or of another assigner, are computed record by record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flintstream.model.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates import is_ordered as aggregate_is_ordered
from flintstream.ops.selectors import KeySource
from flintstream.ops.window_columns import ColumnOperator, ColumnWindowOperator
from flintstream.ops.window_sessions import SessionColumnOperator
from flintstream.ops.window_slices import SlidingColumnOperator

_MOST_SLICES = 1000
"""In a sliding window; with more, slices would cost more than they save."""


def is_columnar(assigner: Any) -> bool:
    """Whether windows of an assigner, with its own trigger, can be computed on columns."""
    if type(assigner) is SlidingEventTimeWindows:
        slices = assigner.size_ms // math.gcd(assigner.size_ms, assigner.slide_ms)
        return assigner.size_ms >= assigner.slide_ms and slices <= _MOST_SLICES
    return type(assigner) in (TumblingEventTimeWindows, EventTimeSessionWindows)


def can_combine(assigner: Any, aggregates: Sequence[tuple[str, Aggregate]], is_ordered: bool) -> bool:
    """Whether records may be folded before the exchange, where the order in which they came is not known yet.

    It matters to some aggregates; and to sessions where records of several splits have one order (`is_ordered`), since
    a late record may or may not find a session still open.
    """
    depends = is_ordered and type(assigner) is EventTimeSessionWindows
    return not depends and not any(aggregate_is_ordered(aggregate) for _, aggregate in aggregates)


def column_operator(
    assigner: Any, key: KeySource, aggregates: Sequence[tuple[str, Aggregate]], late_tag: str | None
) -> ColumnOperator:
    """Return what computes windows on columns."""
    if type(assigner) is EventTimeSessionWindows:
        return SessionColumnOperator(assigner, key, aggregates, late_tag)
    if type(assigner) is SlidingEventTimeWindows:
        return SlidingColumnOperator(assigner, key, aggregates, late_tag)
    return ColumnWindowOperator(assigner, key, aggregates, late_tag)
