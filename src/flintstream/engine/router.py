"""Sends an operator's output over one edge of the shuffle: which partition, and into blobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from flintstream.engine.combiner import Combiner, combiner_of
from flintstream.engine.envelope import Envelope, Sender
from flintstream.engine.merge import AHEAD
from flintstream.graph.nodes import AggregateNode
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.batch import FIRST, Batch
from flintstream.ops.selectors import FieldKey, FunctionKey
from flintstream.ops.window_choice import can_combine
from flintstream.planner.plan import Link, PlannedOperator
from flintstream.state.keygroups import hash_column, key_groups, partition_of

_SPREAD = 0x9E3779B97F4A7C15


class Router:
    """One crossing link of one task. `sent` counts records by target partition."""

    def __init__(
        self, link: Link, target: PlannedOperator, max_parallelism: int, partition: int, is_ordered: bool = False
    ) -> None:
        assert link.edge is not None
        self._edge: int = link.edge
        self._exchange = link.exchange
        self._is_ahead = link.ahead
        self._level = target.level
        self._parallelism = target.parallelism
        self._max_parallelism = max_parallelism
        self._partition = partition
        self._turn = partition
        self.target = target
        self._combiner: Combiner | None = None
        node = target.node
        is_hashed = link.exchange.kind == "HASH"
        if is_hashed and isinstance(node, AggregateNode) and can_combine(node.assigner, node.aggregates, is_ordered):
            self._combiner = combiner_of(link, target, max_parallelism)
        self.sent: dict[int, int] = {}

    def begin(self, epoch: int) -> None:
        """Prepare for an epoch's records. Turns are counted from its number, so that an attempt repeats another's."""
        self.sent = {}
        self._turn = self._partition + epoch

    @property
    def edge(self) -> int:
        """The edge's number."""
        return self._edge

    @property
    def level(self) -> int:
        """The level the edge leads to."""
        return self._level

    def combine(self, batch: Batch, watermarks: Mapping[int, int]) -> Batch | None:
        """Fold what can be folded before the shuffle; return what must travel as it is."""
        if self._combiner is None:
            return batch
        return self._combiner.take(batch, watermarks.get(self.target.id, MIN_TIMESTAMP))

    def flush(self, sender: Sender) -> Iterator[Envelope]:
        """Yield the rows of what was folded."""
        if self._combiner is not None:
            for target, rows, envelope in self._combiner.flush(sender):
                self.sent[target] = self.sent.get(target, 0) + rows
                yield envelope

    def route(self, batch: Batch, sender: Sender, chunk: Any) -> Iterator[Envelope]:
        """Yield the rows that carry a batch."""
        kind, parallelism = self._exchange.kind, self._parallelism
        batch = Batch(batch.values, batch.timestamps, batch.stamp, None, None)
        if kind == "BROADCAST":
            for target in range(parallelism):
                yield self._row(batch, target, sender, chunk)
        elif parallelism == 1 and kind != "HASH":
            yield self._row(batch, 0, sender, chunk)
        elif kind == "FORWARD":
            yield self._row(batch, self._partition % parallelism, sender, chunk)
        else:
            yield from self._scatter(*self._targets(batch), sender, chunk)

    def _targets(self, batch: Batch) -> tuple[Batch, Any]:
        """Return the batch as it is sent, and the partition of each record."""
        kind, parallelism, exchange = self._exchange.kind, self._parallelism, self._exchange
        if kind == "HASH":
            assert exchange.key is not None
            keys = exchange.key.keys(batch.values)
            groups = key_groups(hash_column(*keys.column()), self._max_parallelism)
            if isinstance(exchange.key, FunctionKey):
                batch.keys = keys
            return batch, partition_of(groups, parallelism, self._max_parallelism)
        if kind == "CUSTOM":
            assert exchange.key is not None and exchange.partitioner is not None
            choose = exchange.partitioner
            keys = exchange.key.keys(batch.values).rows()
            return batch, np.fromiter((choose(key, parallelism) % parallelism for key in keys), np.int64, len(keys))
        if kind == "SHUFFLE":
            mixed = (batch.stamp[-1].view(np.uint64) + batch.stamp[2].view(np.uint64)) * np.uint64(_SPREAD)
            return batch, ((mixed >> np.uint64(40)) % np.uint64(parallelism)).astype(np.int64)
        targets = (np.arange(len(batch)) + self._turn) % parallelism
        self._turn += len(batch)
        return batch, targets

    def _scatter(self, batch: Batch, targets: Any, sender: Sender, chunk: Any) -> Iterator[Envelope]:
        if self._parallelism == 1:
            yield self._row(batch, 0, sender, chunk)
            return
        order = np.argsort(targets.astype(np.uint16), kind="stable")
        counts = np.bincount(targets, minlength=self._parallelism).tolist()
        if max(counts) < len(batch):
            batch.values.column()  # take rows as columns, not one by one
            batch = batch.take(order)
        start = 0
        for target, count in enumerate(counts):
            if count:
                yield self._row(batch.slice(start, start + count), target, sender, chunk)
            start += count

    def _row(self, batch: Batch, target: int, sender: Sender, chunk: Any) -> Envelope:
        self.sent[target] = self.sent.get(target, 0) + len(batch)
        row = sender.data(self._level, target, self._edge, batch, chunk)
        return row._replace(watermark=FIRST, lane=row.lane - AHEAD) if self._is_ahead else row


def keys_of(link: Link, batch: Batch) -> Batch:
    """Restore the keys of a received batch: those of a function travel along, fields are read again."""
    key = link.exchange.key
    if isinstance(key, FieldKey) or (key is not None and batch.keys is None):
        batch.keys = key.keys(batch.values)
    return batch
