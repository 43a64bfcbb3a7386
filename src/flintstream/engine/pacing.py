"""How much an epoch reads from the sources that are read by ranges.

A bound given by the user holds. Otherwise epochs grow while they are short and shrink when they are long, around a
target time: batching is only a performance knob, and this is who turns it. A source with a rate gives what is due; a
rate that is imposed from outside replaces that of every source, and when it changes, counts anew from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from flintstream.engine.epoch import ReadRange
from flintstream.engine.pacing_size import EpochSize
from flintstream.engine.source_rate import KEY, SourceRate
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import Split, SplitSource
from flintstream.planner.plan import Plan

_ENDLESS = 1 << 62


class Pacer:
    """Chooses the ranges of each epoch."""

    def __init__(
        self,
        plan: Plan,
        splits: Mapping[int, Sequence[Split]],
        max_records: int,
        target_ms: int,
        imposed: SourceRate | None = None,
    ) -> None:
        self._plan = plan
        self._splits = splits
        self._imposed = imposed
        self._imposed_rate: float | None = None
        _check_can_be_paced(plan, imposed)
        # Batch mode is one epoch with everything in it.
        self._fixed = _ENDLESS if plan.batch_mode else max_records
        self._size = EpochSize(max(target_ms, 1000) / 1000)
        self._started: dict[int, tuple[float, int, dict[int, int]]] = {}
        self._turn = 0
        # A split without records has an end all the same, and event time waits for it.
        self._empty = [
            ReadRange(node, split.number, split.start, split.start, True)
            for node, each in splits.items()
            for split in each
            if split.end == split.start
        ]

    def next_ranges(
        self,
        positions: Mapping[int, Mapping[int, int]],
        now: int,
        restrained: Collection[tuple[int, int]] = (),
        available: Mapping[tuple[int, int], int] | None = None,
    ) -> list[ReadRange]:
        """Return what the next epoch reads; splits that have ended, or are not to be read on, are left out.

        `available` says of splits of a log up to where they can be read now.
        """
        available = available or {}
        if self._imposed is not None:
            self._imposed_rate = self._imposed.now()
        ranges, self._empty = self._empty, []
        open_splits = [
            (node, split, positions[node][split.number])
            for node, splits in self._splits.items()
            for split in splits
            if (node, split.number) not in restrained
            if split.end is None or positions[node][split.number] < split.end
            if positions[node][split.number] < available.get((node, split.number), _ENDLESS)
        ]
        if not open_splits:
            return ranges
        share = max(1, (self._fixed or self._size.records) // len(open_splits))
        spare = self._fixed - share * len(open_splits) if self._fixed else 0
        if spare < 0:
            # Fewer records than splits: they take turns.
            turn = self._turn % len(open_splits)
            open_splits = [*open_splits[turn:], *open_splits[:turn]][: self._fixed]
            self._turn = turn + self._fixed
        for index, (node, split, position) in enumerate(open_splits):
            limit = _ENDLESS if split.end is None else split.end
            most = position + share + (1 if index < spare else 0)
            there = available.get((node, split.number), _ENDLESS)
            end = min(limit, most, there, self._due(node, split.number, positions, now))
            if end > position:
                ranges.append(ReadRange(node, split.number, position, end, end == limit, split.name))
        return ranges

    def _due(self, node: int, split: int, positions: Mapping[int, Mapping[int, int]], now: int) -> int:
        source = self._plan.operator(node).node
        assert isinstance(source, SourceNode) and isinstance(source.source, SplitSource)
        rate = source.source.rate() if self._imposed is None else self._imposed_rate
        if rate is None:
            return _ENDLESS
        known = self._started.get(node)
        if known is None or known[0] != rate or split not in known[2]:
            known = self._started[node] = (rate, now, dict(positions[node]))
        _, since, base = known
        return base[split] + int((now - since) / 1000 * rate / len(self._splits[node]))

    def due_ms(self, node: int, split: int, position: int) -> float | None:
        """Return when a record is due, in ms, if its source has a rate."""
        known = self._started.get(node)
        if known is None or split not in known[2]:
            return None
        rate, since, base = known
        return since + (position - base[split] + 1) * 1000 * len(self._splits[node]) / rate

    def waiting(self, node: int, split: int, position: int, available: int | None, now: int) -> int | None:
        """Return how many records from a position on could be read now; None if that is as many as one likes."""
        end = next((each.end for each in self._splits[node] if each.number == split), None)
        bounds = [bound for bound in (available, end) if bound is not None]
        known = self._started.get(node)
        if known is not None and split in known[2]:
            rate, since, base = known
            bounds.append(base[split] + int((now - since) / 1000 * rate / len(self._splits[node])))
        return max(0, min(bounds) - position) if bounds else None

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch's length."""
        if not self._fixed:
            self._size.took(records, seconds)


def _check_can_be_paced(plan: Plan, imposed: SourceRate | None) -> None:
    """Refuse a rate for sources that Spark reads itself: it would be accepted and ignored."""
    if imposed is None:
        return
    for op in plan.operators:
        node = op.node
        if isinstance(node, SourceNode) and not isinstance(node.source, SplitSource):
            what = f"{KEY} cannot pace {node.name!r}, which Spark reads itself"
            remedy = "limit it by its own options (maxOffsetsPerTrigger, rowsPerSecond), and leave the setting out"
            raise InvalidArgumentError(describe(what, node.location, remedy), location=node.location)
