"""Windows with an evictor: every record is kept with its timestamp, and the evictor chooses when the window fires.

Apart from `WindowOperator` because nothing can be aggregated as it comes: a reduce or aggregate function runs over what
the evictor leaves, each time anew.

Flink: runtime.operators.windowing.EvictingWindowOperator. Differs from Flink: a reduced window from which everything
was evicted gives no result, where Flink gives a null.
"""

from __future__ import annotations

from typing import Any

from flintstream.model.evictors import Evictor, TimestampedValue
from flintstream.model.functions import AggregateFunction, Function, ReduceFunction
from flintstream.model.triggers import Trigger
from flintstream.model.window_assigner import WindowAssigner
from flintstream.ops.batch import NO_TIMESTAMP
from flintstream.ops.operator import OperatorContext
from flintstream.ops.window import WindowOperator, contents_of
from flintstream.ops.window_contents import Contents, collected, fold
from flintstream.ops.window_context import EvictorContext


class EvictingWindowOperator(WindowOperator):
    """Any assigner with any trigger and an evictor; contents are `(value, timestamp)` pairs."""

    _kept_as = "pairs"

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any] | None,
        evictor: Evictor[Any, Any],
        allowed_lateness_ms: int = 0,
        late_tag: str | None = None,
        reduce: ReduceFunction | None = None,
        aggregate: AggregateFunction | None = None,
        apply: Function | None = None,
    ) -> None:
        super().__init__(assigner, trigger, allowed_lateness_ms, late_tag, reduce, aggregate, apply)
        self._evictor = evictor
        # Contents are pairs here in any case; whether the function wants them is a question of what is shown.
        self._shows_pairs, self._is_timed = self._is_timed, False

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._shown = contents_of(self._reduce, self._aggregate)
        self._evictor_ctx = EvictorContext(ctx, self.timers)

    def _contents_of_window(self) -> Contents:
        return collected()

    def _put(self, entry: tuple[Any, Any], value: Any, timestamp: int) -> None:
        super()._put(entry, (value, timestamp), timestamp)

    def _show(self, key: Any, window: Any, entry: tuple[Any, Any], rows: list[Any]) -> None:
        held = self._table.data[entry]
        if held is None:
            return
        elements = [TimestampedValue(value, timestamp) for value, timestamp in held]
        self._evictor.evict_before(elements, len(elements), window, self._evictor_ctx)
        kept = map(_as_kept, elements) if self._shows_pairs else (element.get_value() for element in elements)
        shown = fold(self._shown, list(kept))
        self._emit(key, window, shown, rows)
        self._evictor.evict_after(elements, len(elements), window, self._evictor_ctx)
        if len(elements) < len(held):
            self._table.put(entry, [_as_kept(element) for element in elements] or None)


def _as_kept(element: TimestampedValue[Any]) -> tuple[Any, int]:
    timestamp = element.get_timestamp()
    return element.get_value(), NO_TIMESTAMP if timestamp is None else timestamp
