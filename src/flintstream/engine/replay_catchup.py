"""Tells when a job that began in the past has caught up: an epoch has taken all that its sources held by then.

Apart from the loop, whose epochs it watches, because it outlives one: a job that fails and is started again has not
caught up before, and its client waits for the same word. Sources that never end and give whatever they are asked for
have no backlog. What Spark reads is known to Spark alone: whoever runs its query says when it waits for data.

Flink: the standard metric `pendingRecords` of a source. Differs from Flink: there a job never says that it caught up.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future

from flintstream.engine.epoch import ReadRange
from flintstream.engine.restraint import SplitName
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import Split, SplitSource
from flintstream.model.job import CaughtUp
from flintstream.planner.plan import Plan

_LOG = logging.getLogger("flintstream")
PENDING = "pendingRecords"
"""How many records a source holds that the job has not taken; Flink's name."""


class CatchUp:
    """Watches the epochs of one job until they have caught up, and the backlog of its sources for good."""

    def __init__(self, plan: Plan, shows: bool = False) -> None:
        sources = [op.node for op in plan.operators if isinstance(op.node, SourceNode)]
        self.future: Future[CaughtUp] = Future()
        self._name = plan.name
        self._uids = {op.id: op.uid for op in plan.operators}
        self._shows = shows
        self._goes_on = not all(node.is_bounded for node in sources)
        self.waits_for_spark = any(not isinstance(node.source, SplitSource) and not node.is_bounded for node in sources)
        """Whether streams that Spark reads have not been read yet to where they end for now."""
        self._started = time.monotonic()
        self._backlog: int | None = None
        self._pending: dict[int, int] = {}
        self._takes_all = not any(isinstance(node.source, SplitSource) for node in sources)

    def planned(
        self,
        splits: Mapping[int, Sequence[Split]],
        positions: Mapping[int, Mapping[int, int]],
        ranges: Sequence[ReadRange],
        available: Mapping[SplitName, int],
        closed: Collection[SplitName] = (),
    ) -> None:
        """Take in what an epoch is about to read, and what there was to be read."""
        after = {(node, split): at for node, by_split in positions.items() for split, at in by_split.items()}
        before = dict(after)
        after.update({(piece.source, piece.split): piece.end for piece in ranges})
        ends: dict[SplitName, int] = {}
        for node, each in splits.items():
            for split in each:
                name = (node, split.number)
                bounds = [end for end in (available.get(name), split.end) if end is not None]
                if bounds and name not in closed:
                    ends[name] = min(bounds)
        if self._backlog is None:
            self._backlog = sum(max(0, end - before[name]) for name, end in ends.items())
        self._pending = dict.fromkeys({node for node, _ in ends}, 0)
        for name, end in ends.items():
            self._pending[name[0]] += max(0, end - after[name])
        self._takes_all = not any(self._pending.values())

    def committed(self, epoch: int) -> None:
        """Take in that what was planned is committed, or that there was nothing to do."""
        if self._takes_all and not self.waits_for_spark and not self.future.done():
            self._tell(epoch)

    def spark_waits(self, epoch: int) -> None:
        """Take in that the streams which Spark reads have nothing more for now."""
        self.waits_for_spark = False
        self.committed(epoch)

    def _tell(self, epoch: int) -> None:
        word = CaughtUp(epoch, self._backlog or 0, time.monotonic() - self._started)
        self.future.set_result(word)
        if self._goes_on:
            _LOG.info("job %r %s", self._name, word)
            if self._shows:
                sys.stderr.write(f"job {self._name!r} {word}\n")

    def ended(self, epoch: int, error: BaseException | None, is_complete: bool) -> None:
        """Take in that the job is over; whoever still waits for the word gets an answer."""
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        elif is_complete:
            self._tell(epoch)
        else:
            self.future.cancel()

    def metrics(self) -> dict[str, dict[str, int]]:
        """Return the backlog of each source by its uid, as the newest epoch leaves it."""
        return {self._uids[node]: {PENDING: pending} for node, pending in self._pending.items()}
