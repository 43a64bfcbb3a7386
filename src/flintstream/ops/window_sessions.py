"""Event-time sessions with built-in aggregates, computed on columns.

A run's records and the open sessions are sorted by key and start, and each piece that hangs together becomes one row
(`session_pieces`). Some come folded already, as fragments (`session_fragments`): they are what came before all records.

The state is one row for each open session, in piles by key group (not by time: a pile is replaced whole, and what one
partition replaces must not be what another has); a run rewrites the groups that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.window_assigner import require_timestamp
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_column import Bools, flat
from flintstream.ops.batch import I64, Batch, Stamp
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.selectors import KeySource
from flintstream.ops.session_fragments import END, SEEN, START, SessionFolder
from flintstream.ops.session_pieces import Elements, group_sessions
from flintstream.ops.window_columns import ColumnOperator
from flintstream.ops.window_fold import with_groups
from flintstream.ops.window_keys import joined_key, numbered, tidied
from flintstream.state.keygroups import hash_column
from flintstream.state.partials import concat

_GROUP = "key_group"


class SessionColumnOperator(ColumnOperator):
    """Built-in aggregates per key and session."""

    def __init__(
        self, assigner: Any, key: KeySource, aggregates: Sequence[tuple[str, Aggregate]], late_tag: str | None
    ) -> None:
        self._sessions_of = SessionFolder(aggregates, assigner.session_gap_ms)
        super().__init__(assigner, self._sessions_of, key, late_tag)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._fragments: list[pa.Table] = []
        self._sessions: pa.Table | None = None
        self._generation = -1

    def _merge(self, table: pa.Table) -> pa.Table:
        return table

    @property
    def is_waiting(self) -> bool:
        return bool(self._fragments)

    def add_partial(self, start: int, part: pa.Table) -> None:
        """Take in fragments, which were folded before the shuffle."""
        self._fragments.append(part.drop_columns([_GROUP]))

    def process_run(self, run: Run, out: Output) -> None:
        held = self._held()
        before = 0 if held is None else held.num_rows
        if not len(run.batch) and not self._fragments:
            if held is not None:
                self._finish(held, np.zeros(before, bool), run, out)
            return
        rows, elements, keys = self._elements(held, run)
        numbers, count, late = group_sessions(elements)
        kept, owners = None, elements.keys
        if late.any():
            records = rows.num_rows - len(run.batch)
            self._take_late(run.batch.take(np.flatnonzero(late[records:])), out)
            kept = np.flatnonzero(~late)
            if not len(kept):
                return
        touched = np.zeros(count, bool)
        touched[numbers[before:][~late[before:]]] = True
        if kept is not None:
            rows, numbers, owners = rows.take(pa.array(kept)), numbers[kept], owners[kept]
        sessions, used = self._sessions_of.sessions(rows, numbers, owners, keys)
        self._finish(sessions, touched[used], run, out)

    def _held(self) -> pa.Table | None:
        """Return the open sessions, one row each."""
        if self._generation != self._table.generation:
            parts = [part for parts in self._table.windows.values() for part in parts]
            self._sessions = concat(parts).drop_columns([_GROUP]) if parts else None
            self._generation = self._table.generation
        return self._sessions

    def _elements(self, held: pa.Table | None, run: Run) -> tuple[pa.Table, Elements, dict[str, pa.Array]]:
        """Return open sessions, fragments and records as rows, and what is known of when they came."""
        batch = run.batch
        assert batch.watermarks is not None
        parts = [] if held is None else [held]
        seen = [np.full(part.num_rows, MIN_TIMESTAMP) for part in parts]
        for fragment in self._fragments:
            parts.append(fragment.drop_columns([SEEN]))
            seen.append(flat(fragment.column(SEEN)).to_numpy())
        self._fragments.clear()
        if len(batch):
            assert batch.keys is not None
            require_timestamp(self._assigner, int(batch.timestamps.min()))
            parts.append(self._sessions_of.elements(batch.values, batch.keys, batch.timestamps))
        rows = tidied(concat(parts))
        numbers, keys = numbered(rows)
        elements = Elements(
            numbers,
            flat(rows.column(START)).to_numpy(),
            flat(rows.column(END)).to_numpy(),
            np.concatenate([np.full(rows.num_rows - len(batch), -1), np.arange(len(batch))]),
            np.concatenate([*seen, batch.watermarks]),
        )
        return rows, elements, keys

    def _finish(self, sessions: pa.Table, touched: Bools, run: Run, out: Output) -> None:
        """Let sessions fire that are over, and keep the others."""
        over = flat(sessions.column(END)).to_numpy() - 1 <= run.end
        if not (over | touched).any():
            return
        rows = with_groups(sessions, self._ctx.backend.max_parallelism)
        stale = np.unique(rows.column(_GROUP).to_numpy()[over | touched])
        if over.any():
            self._emit_sessions(sessions.filter(pa.array(over)), run, out)
            rows = rows.filter(pa.array(~over))
        self._sessions = rows.drop_columns([_GROUP]) if rows.num_rows else None
        self._rewrite(rows, stale)

    def _rewrite(self, rows: pa.Table, stale: I64) -> None:
        """Replace the state of some key groups."""
        for group in stale.tolist():
            if group in self._table.windows:
                self._table.pop(group)
        groups = rows.column(_GROUP).to_numpy()
        chosen = np.isin(groups, stale)
        order = np.flatnonzero(chosen)[np.argsort(groups[chosen], kind="stable")]
        rows, at = rows.take(pa.array(order)), 0
        for group, count in zip(*np.unique(groups[order], return_counts=True), strict=True):
            self._table.add(int(group), rows.slice(at, int(count)))
            at += int(count)

    def _emit_sessions(self, sessions: pa.Table, run: Run, out: Output) -> None:
        """Emit the results of sessions, in the order in which event time reaches their ends."""
        ends = flat(sessions.column(END)).to_numpy()
        hashes = (hash_column(*joined_key(sessions)) >> np.uint64(1)).astype(np.int64)
        steps = np.searchsorted(run.watermarks, ends - 1)
        order = np.lexsort((hashes, ends, steps))
        sessions = sessions.take(pa.array(order)).combine_chunks()
        ends, steps, hashes = ends[order], steps[order], hashes[order]
        stamp: Stamp = [column[steps] for column in run.stamp]
        stamp += [ends - 1, hashes, np.zeros(len(ends), np.int64)]
        records = self._records(sessions, flat(sessions.column(START)).to_numpy(), ends)
        out.emit(Batch(records, ends - 1, stamp, run.before(steps)))
