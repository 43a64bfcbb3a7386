"""How much an epoch reads from the sources that are read by ranges.

A bound given by the user holds. Otherwise epochs grow while they are short and shrink when they are long, around a
target time: batching is only a performance knob, and this is who turns it. A source with a rate gives what is due.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from flintstream.engine.epoch import ReadRange
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import Split, SplitSource
from flintstream.planner.plan import Plan

FIRST_RECORDS = 20_000
MOST_RECORDS = 32_000_000
FLOORS_PER_EPOCH = 8
_ENDLESS = 1 << 62


class Pacer:
    """Chooses the ranges of each epoch."""

    def __init__(self, plan: Plan, splits: Mapping[int, Sequence[Split]], max_records: int, target_ms: int) -> None:
        self._plan = plan
        self._splits = splits
        # Batch mode is one epoch with everything in it.
        self._fixed = _ENDLESS if plan.batch_mode else max_records
        self._target = max(target_ms, 1000) / 1000
        self._share = FIRST_RECORDS
        self._started: dict[int, tuple[int, dict[int, int]]] = {}
        self._turn = 0
        self._floor = float("inf")
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
        share = max(1, (self._fixed or self._share) // len(open_splits))
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
        rate = source.source.rate()
        if rate is None:
            return _ENDLESS
        since, base = self._started.setdefault(node, (now, dict(positions[node])))
        return base[split] + int((now - since) / 1000 * rate / len(self._splits[node]))

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch's length."""
        if self._fixed or records < self._share // 2:
            return
        # Part of an epoch's time is there whatever it reads; on a busy machine that alone may exceed the target, and
        # smaller epochs would only make it worse.
        self._floor = min(self._floor, seconds)
        goal = max(self._target, FLOORS_PER_EPOCH * self._floor)
        if seconds < goal / 4:
            self._share = min(self._share * 4, MOST_RECORDS)
        elif seconds < goal * 3 / 4:
            self._share = min(self._share * 2, MOST_RECORDS)
        elif seconds > goal * 2:
            self._share = max(self._share // 2, FIRST_RECORDS)
