"""Folds records of columnar windows before the shuffle, so that partial results travel and not records.

Only records that cannot be late may be folded here, since whether one is late is decided behind the exchange, where the
watermarks of all lanes meet. That watermark is never above the record's own lane's, unless it was so when the epoch
began; so a record whose window ends after both is safe. All others travel as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flintstream.engine.envelope import Envelope, Sender, write_partials
from flintstream.graph.nodes import AggregateNode
from flintstream.ops.batch import Batch
from flintstream.ops.window_fold import WindowFolder, with_groups
from flintstream.planner.plan import Link, PlannedOperator
from flintstream.state.keygroups import partition_of
from flintstream.state.partials import PartialTable, to_batch


class Combiner:
    """The partial results of one edge in one task and epoch."""

    def __init__(self, link: Link, target: PlannedOperator, max_parallelism: int) -> None:
        node = target.node
        assert isinstance(node, AggregateNode) and link.exchange.key is not None and link.edge is not None
        self._folder = WindowFolder(node.assigner, node.aggregates)
        self._key = link.exchange.key
        self._edge: int = link.edge
        self._target = target
        self._max_parallelism = max_parallelism
        self._table = PartialTable(self._folder.merge)
        self._records = 0

    def take(self, batch: Batch, watermark: int) -> Batch | None:
        """Fold what cannot be late, given the operator's watermark at the epoch's start; return the rest."""
        starts = self._folder.starts(batch.timestamps)
        safe = starts + (self._folder.size - 1) > np.maximum(batch.stamp[0], watermark)
        rest = None
        if not safe.all():
            rest = batch.take(np.flatnonzero(~safe))
            kept = np.flatnonzero(safe)
            if not len(kept):
                return rest
            batch, starts = batch.take(kept), starts[kept]
        self._records += len(batch)
        for start, part in self._folder.partials(batch.values, self._key.keys(batch.values), starts):
            self._table.add(start, part)
        return rest

    def flush(self, sender: Sender) -> Iterator[tuple[int, int, Envelope]]:
        """Yield (partition, rows, envelope) of everything folded, and begin anew."""
        if not self._table.windows:
            return
        merged: dict[int, pa.Table] = {}
        for start in sorted(self._table.windows):
            merged[start] = with_groups(self._folder.merge(self._table.pop(start)), self._max_parallelism)
        self._table.clear()
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
