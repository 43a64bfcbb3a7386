"""How far each source is behind: records that are there, or due, and not read, and how long the oldest has waited.

Flink: `pendingRecords` and the lag of a source. Differs from Flink: a source with a rate has a backlog too, of what is
due by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flintstream.engine.epoch import ReadRange
from flintstream.engine.latency_arrivals import Arrivals, SplitName
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import SplitSource
from flintstream.model.time import format_millis
from flintstream.planner.plan import Plan


@dataclass(slots=True)
class _Lag:
    records: int | None = None
    since_ms: float | None = None
    text: str = "not known before the first epoch"
    is_endless: bool = False


class Backlog:
    """The backlog of all sources, as the newest epoch leaves it."""

    def __init__(self, plan: Plan) -> None:
        self._uids = {op.id: op.uid for op in plan.operators}
        self._lags: dict[int, _Lag] = {}
        for op in plan.operators:
            if isinstance(op.node, SourceNode):
                lag = self._lags[op.id] = _Lag()
                if not isinstance(op.node.source, SplitSource):
                    lag.text = "read by Spark, which alone knows its backlog"

    @property
    def is_behind(self) -> bool:
        """Whether any source has more than the job takes: a backlog, or as much as it is asked for."""
        return any(lag.is_endless or bool(lag.records) for lag in self._lags.values())

    def planned(
        self,
        now: int,
        ranges: Sequence[ReadRange],
        positions: Mapping[int, Mapping[int, int]],
        available: Mapping[SplitName, int],
        pacer: Any,
        arrivals: Arrivals,
    ) -> None:
        """Take in what an epoch is about to read, and what there is."""
        after = {(node, split): at for node, by_split in positions.items() for split, at in by_split.items()}
        after.update({(piece.source, piece.split): piece.end for piece in ranges})
        for node in positions:
            self._lags[node] = self._lag(node, now, after, available, pacer, arrivals)

    @staticmethod
    def _lag(
        node: int,
        now: int,
        after: Mapping[SplitName, int],
        available: Mapping[SplitName, int],
        pacer: Any,
        arrivals: Arrivals,
    ) -> _Lag:
        names = [name for name in after if name[0] == node]
        waits = [pacer.waiting(*name, after[name], available.get(name), now) for name in names]
        known = [count for count in waits if count is not None]
        if len(known) < len(waits):
            return _Lag(text="has as much as it is asked for", is_endless=True)
        since: list[float] = []
        for name, count in zip(names, known, strict=True):
            if count:
                moment = pacer.due_ms(*name, after[name])
                moment = arrivals.waiting_since(name, after[name]) if moment is None else moment
                since += [] if moment is None else [moment]
        return _Lag(sum(known), min(since, default=None), "")

    def shown(self, now: float) -> dict[str, dict[str, Any]]:
        """Return the backlog of each source by its uid."""
        return {self._uids[node]: _shown(lag, now) for node, lag in self._lags.items()}


def _shown(lag: _Lag, now: float) -> dict[str, Any]:
    waited = None if lag.since_ms is None else max(0, int(now - lag.since_ms))
    if lag.records == 0:
        waited = 0
    text = lag.text
    if lag.records is not None:
        behind = "" if not waited else f", the oldest for {format_millis(waited)}"
        text = f"{lag.records:,} records wait{behind}" if lag.records else "keeps up"
    return {"lag_records": lag.records, "lag_ms": waited, "backlog_text": text}
