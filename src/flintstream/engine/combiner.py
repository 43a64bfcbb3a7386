"""Folds records of columnar windows before the shuffle, so that partial results travel and not records.

Only records that cannot be late may be folded here, since whether one is late is decided behind the exchange, where the
watermarks of all lanes meet. That watermark is never above the record's own lane's, unless it was so when the epoch
began; so a record is safe whose windows all end after both. All others travel as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flintstream.engine.envelope import Envelope, Sender, write_partials
from flintstream.graph.nodes import AggregateNode
from flintstream.ops.batch import Batch
from flintstream.ops.window_fold import WindowFolder, with_groups
from flintstream.ops.window_keys import key_names
from flintstream.planner.plan import Link, PlannedOperator
from flintstream.state.keygroups import partition_of
from flintstream.state.partials import PartialTable, concat, to_batch

_FOLDS_PER_KEY = 8
_MOST_BYTES = 1 << 27


class Combiner:
    """The partial results of one edge in one task and epoch.

    What folding costs is above all the keys it meets, not the records. So records wait until there are several of each
    key, as far as memory allows; how many keys there are is what the last fold showed.
    """

    def __init__(self, link: Link, target: PlannedOperator, max_parallelism: int) -> None:
        node = target.node
        assert isinstance(node, AggregateNode) and link.exchange.key is not None and link.edge is not None
        self._folder = WindowFolder(node.assigner, node.aggregates)
        self._key = link.exchange.key
        self._edge: int = link.edge
        self._target = target
        self._max_parallelism = max_parallelism
        self._table = PartialTable(self._folder.merge)
        self._waiting: dict[tuple[int, tuple[str, ...]], list[pa.Table]] = {}
        self._waiting_rows = self._waiting_bytes = 0
        self._keys = 0
        self._records = 0

    def take(self, batch: Batch, watermark: int) -> Batch | None:
        """Fold what cannot be late, given the operator's watermark at the epoch's start; return the rest."""
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
            self._waiting_rows += part.num_rows
            self._waiting_bytes += part.nbytes
        if self._waiting_rows >= _FOLDS_PER_KEY * self._keys or self._waiting_bytes >= _MOST_BYTES:
            self._fold()
        return rest

    def _fold(self) -> None:
        """Fold what has waited."""
        waiting, self._waiting = self._waiting, {}
        self._waiting_rows = self._waiting_bytes = self._keys = 0
        for (start, _), parts in waiting.items():
            folded = self._folder.fold(concat(parts))
            self._keys += folded.num_rows
            self._table.add(start, folded)

    def flush(self, sender: Sender) -> Iterator[tuple[int, int, Envelope]]:
        """Yield (partition, rows, envelope) of everything folded, and begin anew."""
        self._fold()
        if not self._table.windows:
            return
        merged: dict[int, pa.Table] = {}
        for start in sorted(self._table.windows):
            parts = self._table.windows[start]
            folded = parts[0] if len(parts) == 1 else self._folder.merge(concat(parts))
            merged[start] = with_groups(folded, self._max_parallelism)
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
