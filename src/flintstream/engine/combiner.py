"""Folds records of columnar windows before the shuffle, so that partial results travel and not records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flintstream.engine.envelope import Envelope, Sender, write_partials
from flintstream.graph.nodes import AggregateNode
from flintstream.model.assigners import EventTimeSessionWindows
from flintstream.model.window_assigner import require_timestamp
from flintstream.ops.batch import Batch
from flintstream.ops.session_fragments import SEEN, SessionFolder
from flintstream.ops.window_fold import WindowFolder, with_groups
from flintstream.ops.window_keys import key_names
from flintstream.planner.plan import Link, PlannedOperator
from flintstream.state.keygroups import partition_of
from flintstream.state.partials import PartialTable, concat, to_batch

_MOST_BYTES = 1 << 27


class Combiner(ABC):
    """The partial results of one edge in one task and epoch."""

    records_per_key = 8

    def __init__(self, link: Link, target: PlannedOperator, max_parallelism: int) -> None:
        assert isinstance(target.node, AggregateNode) and link.exchange.key is not None and link.edge is not None
        self._node = target.node
        self._key = link.exchange.key
        self._edge: int = link.edge
        self._target = target
        self._max_parallelism = max_parallelism
        self._waiting_rows = self._waiting_bytes = 0
        self._keys = 0
        self._records = 0

    @abstractmethod
    def take(self, batch: Batch, watermark: int) -> Batch | None:
        """Fold what can be folded, given the operator's watermark at the epoch's start; return the rest."""

    @abstractmethod
    def _fold(self) -> None:
        """Fold what has waited, and count the keys."""

    @abstractmethod
    def _folded(self) -> dict[int, pa.Table]:
        """Return everything folded, by window, and begin anew."""

    def _wait(self, part: pa.Table) -> None:
        """Count what waits.

        What folding costs is above all the keys it meets, not the records. So records wait until there are several of
        each key, as far as memory allows; how many keys there are is what the last fold showed.
        """
        self._waiting_rows += part.num_rows
        self._waiting_bytes += part.nbytes

    def _fold_if_worthwhile(self) -> None:
        if self._waiting_rows >= self.records_per_key * self._keys or self._waiting_bytes >= _MOST_BYTES:
            self._waiting_rows = self._waiting_bytes = self._keys = 0
            self._fold()

    def flush(self, sender: Sender) -> Iterator[tuple[int, int, Envelope]]:
        """Yield (partition, rows, envelope) of everything folded, and begin anew."""
        self._waiting_rows = self._waiting_bytes = self._keys = 0
        self._fold()
        merged = {start: with_groups(table, self._max_parallelism) for start, table in self._folded().items()}
        records, self._records = self._records, 0
        for partition in range(self._target.parallelism):
            mine = {start: self._share(table, partition) for start, table in merged.items()}
            mine = {start: [table] for start, table in mine.items() if table.num_rows}
            if mine:
                batch = to_batch(mine, [])
                blob = write_partials(batch, records)
                records = 0
                yield partition, batch.num_rows, sender.partials(self._target.level, partition, self._edge, blob)

    def _share(self, table: pa.Table, partition: int) -> pa.Table:
        groups = table.column("key_group").to_numpy().astype(np.int64)
        owners = partition_of(groups, self._target.parallelism, self._max_parallelism)
        return table.filter(pa.array(owners == partition))


class GridCombiner(Combiner):
    """Of windows on a grid: by their slices.

    Only records that cannot be late may be folded here, since whether one is late is decided behind the exchange, where
    the watermarks of all lanes meet. That watermark is never above the record's own lane's, unless it was so when the
    epoch began; so a record is safe whose windows all end after both. All others travel as they are.
    """

    def __init__(self, link: Link, target: PlannedOperator, max_parallelism: int) -> None:
        super().__init__(link, target, max_parallelism)
        self._folder = WindowFolder(self._node.assigner, self._node.aggregates)
        self._table = PartialTable(self._folder.merge)
        self._waiting: dict[tuple[int, tuple[str, ...]], list[pa.Table]] = {}

    def take(self, batch: Batch, watermark: int) -> Batch | None:
        starts = self._folder.starts(batch.timestamps)
        safe = self._folder.first_ends(starts) - 1 > np.maximum(batch.stamp[0], watermark)
        rest = None
        if not safe.all():
            rest = batch.take(np.flatnonzero(~safe))
            kept = np.flatnonzero(safe)
            if not len(kept):
                return rest
            batch, starts = batch.take(kept), starts[kept]
        self._records += len(batch)
        for start, part in self._folder.inputs(batch.values, self._key.keys(batch.values), starts, batch.timestamps):
            # Keys of several types are not for one grouping: merging finds out which of them are equal.
            self._waiting.setdefault((start, tuple(key_names(part))), []).append(part)
            self._wait(part)
        self._fold_if_worthwhile()
        return rest

    def _fold(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for (start, _), parts in waiting.items():
            folded = self._folder.fold(self._folder.stacked(parts))
            self._keys += folded.num_rows
            self._table.add(start, folded)

    def _folded(self) -> dict[int, pa.Table]:
        merged: dict[int, pa.Table] = {}
        for start, parts in sorted(self._table.windows.items()):
            merged[start] = parts[0] if len(parts) == 1 else self._folder.merge(concat(parts))
        self._table.clear()
        return merged


class SessionCombiner(Combiner):
    """Of sessions: by fragments.

    A record behind the watermark may or may not find a session open, which depends on what came before it: from there
    on, records travel as they are.
    """

    # Fragments must be sorted to be folded again: the fewer, the better.
    records_per_key = 16

    def __init__(self, link: Link, target: PlannedOperator, max_parallelism: int) -> None:
        super().__init__(link, target, max_parallelism)
        assigner = self._node.assigner
        self._assigner = assigner
        self._folder = SessionFolder(self._node.aggregates, assigner.session_gap_ms)
        self._waiting: list[pa.Table] = []
        self._fragments: list[pa.Table] = []
        self._has_stopped = False

    def take(self, batch: Batch, watermark: int) -> Batch | None:
        if self._has_stopped:
            return batch
        times = batch.timestamps
        require_timestamp(self._assigner, int(times.min(initial=0)))
        reached = np.maximum(batch.stamp[0], watermark)
        behind = times <= reached
        rest = None
        if behind.any():
            self._has_stopped = True
            first = int(np.argmax(behind))
            rest = batch.slice(first, len(batch))
            if not first:
                return rest
            batch, times, reached = batch.slice(0, first), times[:first], reached[:first]
        self._records += len(batch)
        rows = self._folder.elements(batch.values, self._key.keys(batch.values), times)
        rows = rows.append_column(SEEN, pa.array(reached))
        self._waiting.append(rows)
        self._wait(rows)
        self._fold_if_worthwhile()
        return rest

    def _fold(self) -> None:
        if self._waiting:
            folded = self._folder.fragments(concat(self._waiting))
            self._waiting.clear()
            self._keys += folded.num_rows
            self._fragments.append(folded)

    def _folded(self) -> dict[int, pa.Table]:
        self._has_stopped = False
        fragments, self._fragments = self._fragments, []
        if not fragments:
            return {}
        return {0: fragments[0] if len(fragments) == 1 else self._folder.fragments(concat(fragments))}


def combiner_of(link: Link, target: PlannedOperator, max_parallelism: int) -> Combiner:
    """Return what folds for a link to windows on columns."""
    assert isinstance(target.node, AggregateNode)
    kind = SessionCombiner if isinstance(target.node.assigner, EventTimeSessionWindows) else GridCombiner
    return kind(link, target, max_parallelism)
